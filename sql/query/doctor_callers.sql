-- Roles that call Settle's functions and would wait for another's uncommitted key for ever.
select 'info' as severity, 'role ' || r.rolname || ' has no lock_timeout: it waits for a key that another holds for ever'
        as finding, 'alter role ' || quote_ident(r.rolname) || ' set lock_timeout = ''5s'', or set it in each transaction'
        as what_to_do, json_build_object('check', 'callers', 'role', r.rolname)::text as detail
from pg_roles r
where r.rolcanlogin and not r.rolsuper
    and exists (select from pg_roles app where app.rolname = 'settle_app' and pg_has_role(r.oid, app.oid, 'member'))
    and not exists (
        select from pg_db_role_setting own cross join unnest(own.setconfig) as setting
        where own.setrole in (0, r.oid) and setting ~ '^lock_timeout=' and setting <> 'lock_timeout=0'
            and own.setdatabase in (0, (select d.oid from pg_database d where d.datname = current_database())))
    and not exists (select from pg_settings s where s.name = 'lock_timeout' and s.source = 'configuration file')
order by r.rolname
