-- Functions that are missing, changed by hand, not Settle's, or not its owner's. $1 is the text of sql/api, the source
-- of all of them; it is compared with what the database would run, unless the database's is known to be of another
-- version ($2 false).
with wanted as (
    select substring(chunk from '^[a-z_.]+') as name, split_part(chunk, '$$', 2) as body,
        split_part(chunk, '$$', 1) ~ 'security definer' as is_definer
    from regexp_split_to_table($1::text, 'create or replace function ') as chunk
    where chunk ~ '^settle(_data)?\.'
),
present as (
    select n.nspname || '.' || p.proname as name, p.oid, p.prosrc as body, p.prosecdef as is_definer, r.rolname as owner,
        r.rolsuper, coalesce(array_to_string(p.proconfig, ',') ~ 'search_path=', false) as is_pinned
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace join pg_roles r on r.oid = p.proowner
    where n.nspname in ('settle', 'settle_data')
),
problem (severity, finding, what_to_do, name) as (
    select distinct 'error', 'function ' || w.name || ' is missing',
        'run settle migrate; if it finds nothing to do, first, as settle_owner: delete from settle_data.api_file', w.name
    from wanted w where $2::boolean and not exists (select from present p where p.name = w.name)
    union all
    select distinct 'error', 'function ' || p.name || ' is not this program''s: its text was changed',
        'run settle migrate; if it finds nothing to do, first, as settle_owner: delete from settle_data.api_file', p.name
    from present p
    where $2 and exists (select from wanted w where w.name = p.name)
        and not exists (select from wanted w where w.name = p.name and w.body = p.body and w.is_definer = p.is_definer)
    union all
    select distinct 'warning', 'function ' || p.name || ' is none of Settle''s, but lies in its schema',
        'move it to a schema of your own, or drop it', p.name
    from present p where $2 and not exists (select from wanted w where w.name = p.name)
    union all
    select distinct 'error', 'function ' || p.name || ' belongs to ' || p.owner || ', not to settle_owner'
            || case when p.is_definer and p.rolsuper then ', and runs with a superuser''s rights' else '' end,
        'alter function ' || p.name || ' owner to settle_owner', p.name
    from present p where p.owner <> 'settle_owner'
    union all
    select distinct 'error', 'function ' || p.name || ' runs with its owner''s rights, but its search_path is not pinned',
        'alter function ' || p.name || ' set search_path = pg_catalog, pg_temp', p.name
    from present p where p.is_definer and not p.is_pinned
)
select p.severity, p.finding, p.what_to_do, json_build_object('check', 'functions', 'function', p.name)::text as detail
from problem p order by p.finding
