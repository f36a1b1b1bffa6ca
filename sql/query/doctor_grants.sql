-- Who may do what, compared with the grants in sql/api, whose text is $1; nobody but the owner has rights on the data.
with expected (name, role, privilege) as (
    select f[1], btrim(role), 'EXECUTE'
    from regexp_matches($1::text, 'grant execute on function ([a-z_.]+)\([^)]*\)\s+to ([^;]+);', 'g') as f
    cross join unnest(string_to_array(f[2], ',')) as role
    union
    select v[1], btrim(role), 'SELECT'
    from regexp_matches($1::text, 'grant select on (settle\.[a-z_]+)\s+to ([^;]+);', 'g') as v
    cross join unnest(string_to_array(v[2], ',')) as role
    union
    select 'settle', role, 'USAGE'
    from unnest(array['settle_app', 'settle_worker', 'settle_operator', 'settle_viewer', 'settle_handler', 'settle_admin'])
        as role
    union
    select 'settle.duplicates_' || number, role, 'USAGE'
    from generate_series(0, 31) as number cross join unnest(array['settle_app', 'settle_worker']) as role
),
thing (sort, name, owner, acl) as (
    select 'function', n.nspname || '.' || p.proname, p.proowner, coalesce(p.proacl, acldefault('f', p.proowner))
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname in ('settle', 'settle_data')
    union all
    select case c.relkind when 'S' then 'sequence' else 'table' end, n.nspname || '.' || c.relname, c.relowner,
        coalesce(c.relacl, acldefault(case c.relkind when 'S' then 's'::"char" else 'r'::"char" end, c.relowner))
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('settle', 'settle_data') and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
    union all
    select 'table', n.nspname || '.' || c.relname, c.relowner, a.attacl
    from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('settle', 'settle_data') and a.attacl is not null and not a.attisdropped
    union all
    select 'schema', n.nspname, n.nspowner, coalesce(n.nspacl, acldefault('n', n.nspowner))
    from pg_namespace n where n.nspname in ('settle', 'settle_data')
),
given as (
    select distinct t.sort, t.name, case a.grantee when 0 then 'PUBLIC' else g.rolname end as role,
        a.privilege_type as privilege
    from thing t cross join aclexplode(t.acl) as a left join pg_roles g on g.oid = a.grantee
    where a.grantee <> t.owner
),
problem (severity, finding, what_to_do, name, role, privilege) as (
    select case when g.role = 'PUBLIC' or g.name like 'settle\_data%' or g.privilege not in ('EXECUTE', 'SELECT', 'USAGE')
            then 'error' else 'warning' end,
        case when g.role = 'PUBLIC' then 'everybody (PUBLIC)' else coalesce(g.role, 'a role that is gone') end || ' has '
            || g.privilege || ' on ' || g.sort || ' ' || g.name || ', which Settle does not grant',
        'revoke ' || lower(g.privilege) || ' on ' || g.sort || ' ' || g.name || ' from '
            || coalesce(case when g.role = 'PUBLIC' then 'public' else quote_ident(g.role) end, 'it'),
        g.name, g.role, g.privilege
    from given g
    where not exists (select from expected e where e.name = g.name and e.role = g.role and e.privilege = g.privilege)
    union all
    select 'error', e.role || ' has no ' || e.privilege || ' on ' || t.sort || ' ' || e.name || ', which Settle grants',
        'grant ' || lower(e.privilege) || ' on ' || t.sort || ' ' || e.name || ' to ' || e.role, e.name, e.role, e.privilege
    from expected e join (select distinct t.sort, t.name from thing t) t on t.name = e.name
    where exists (select from pg_roles r where r.rolname = e.role)
        and not exists (select from given g where g.name = e.name and g.role = e.role and g.privilege = e.privilege)
)
select p.severity, p.finding, p.what_to_do, json_build_object('check', 'grants', 'object', p.name, 'role', p.role,
    'privilege', p.privilege)::text as detail
from problem p order by p.finding
