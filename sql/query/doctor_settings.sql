-- Settings without which an acknowledged commit may be lost, or a guard may not fire; of the server, and of roles and
-- databases that have their own.
with risky (name, value, danger, what_to_do) as (values
    ('fsync', 'off', 'a crash of the server may lose or corrupt what was committed', 'alter system set fsync = on; select pg_reload_conf()'),
    ('full_page_writes', 'off', 'a crash of the server may leave torn pages',
        'alter system set full_page_writes = on; select pg_reload_conf()'),
    ('synchronous_commit', 'off', 'a commit that was acknowledged may be lost in a crash',
        'alter system set synchronous_commit = on; select pg_reload_conf()'),
    ('session_replication_role', 'replica', 'triggers do not fire, so that an operation may be left unended',
        'set it to origin for everything that writes'),
    ('zero_damaged_pages', 'on', 'damaged rows vanish without a word', 'alter system reset zero_damaged_pages; select pg_reload_conf()')
)
select 'error' as severity, r.name || ' is ' || r.value || ': ' || r.danger as finding, r.what_to_do,
    json_build_object('check', 'settings', 'setting', r.name, 'value', s.setting)::text as detail
from risky r join pg_settings s on s.name = r.name and s.setting = r.value
union all
select 'error', r.name || ' is ' || r.value || coalesce(' for role ' || o.rolname, '') || coalesce(' in database ' || d.datname, '')
        || ': ' || r.danger,
    'reset it: alter ' || coalesce('role ' || quote_ident(o.rolname) || coalesce(' in database ' || quote_ident(d.datname), ''),
        'database ' || quote_ident(d.datname)) || ' reset ' || r.name,
    json_build_object('check', 'settings', 'setting', r.name, 'value', r.value, 'role', o.rolname, 'database', d.datname)::text
from pg_db_role_setting own
cross join unnest(own.setconfig) as setting
join risky r on setting = r.name || '=' || r.value
left join pg_roles o on o.oid = own.setrole
left join pg_database d on d.oid = own.setdatabase
where d.datname is null or d.datname = current_database()
order by finding
