-- The roles of Settle, what they are members of, and what none of them may be.
with wanted (name) as (values ('settle_owner'), ('settle_viewer'), ('settle_app'), ('settle_worker'), ('settle_handler'),
    ('settle_operator'), ('settle_admin')),
membership (member, role) as (values ('settle_app', 'settle_viewer'), ('settle_worker', 'settle_viewer'),
    ('settle_operator', 'settle_app'), ('settle_admin', 'settle_operator'), ('settle_admin', 'settle_worker')),
problem (severity, finding, what_to_do, role) as (
    select 'error', 'role ' || w.name || ' is missing', 'create role ' || w.name
        || ' nologin; then, as settle_owner: delete from settle_data.api_file; then run settle migrate', w.name
    from wanted w where not exists (select from pg_roles r where r.rolname = w.name)
    union all
    select 'error', m.member || ' is no member of ' || m.role, 'grant ' || m.role || ' to ' || m.member, m.member
    from membership m
    join pg_roles member on member.rolname = m.member
    join pg_roles role on role.rolname = m.role
    where not exists (select from pg_auth_members a where a.member = member.oid and a.roleid = role.oid)
    union all
    select 'error', 'role ' || r.rolname || ' is a superuser or passes row security: its functions could do anything',
        'alter role ' || r.rolname || ' nosuperuser nobypassrls', r.rolname
    from wanted w join pg_roles r on r.rolname = w.name where r.rolsuper or r.rolbypassrls
    union all
    select 'warning', 'role settle_owner may log in: whoever does may write to the tables past every guard',
        'alter role settle_owner nologin', r.rolname
    from pg_roles r where r.rolname = 'settle_owner' and r.rolcanlogin
)
select p.severity, p.finding, p.what_to_do, json_build_object('check', 'roles', 'role', p.role)::text as detail
from problem p order by p.finding
