-- Tables, views, sequences, constraints and indexes that are missing or weakened. $1 is the text of sql/schema and
-- sql/api, which makes all of them.
with wanted (sort, name) as (
    select m[1], m[2]
    from regexp_matches($1::text, 'create (?:or replace )?(?:unlogged )?(table|view|sequence) (settle(?:_data)?\.[a-z0-9_]+)', 'g') as m
    union
    select 'index', 'settle_data.' || m[1] from regexp_matches($1::text, 'create (?:unique )?index ([a-z0-9_]+) on', 'g') as m
    union
    select 'constraint', 'settle_data.' || m[1]
    from regexp_matches($1::text, '\n    constraint ([a-z0-9_]+) (?:primary key|check|unique)', 'g') as m
),
present (sort, name) as (
    select case c.relkind when 'S' then 'sequence' when 'v' then 'view' when 'i' then 'index' else 'table' end,
        n.nspname || '.' || c.relname
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname in ('settle', 'settle_data')
    union
    select 'constraint', n.nspname || '.' || c.conname
    from pg_constraint c join pg_namespace n on n.oid = c.connamespace
    where n.nspname in ('settle', 'settle_data') and c.convalidated
),
problem (severity, finding, what_to_do, name) as (
    select 'error', w.sort || ' ' || w.name || ' is missing',
        case w.sort when 'view' then 'run settle migrate; if it finds nothing to do, first, as settle_owner: delete from settle_data.api_file'
            else 'restore it from a backup, or make it again as settle migrate --print shows' end, w.name
    from wanted w where not exists (select from present p where p.sort = w.sort and p.name = w.name)
    union all
    select 'error', 'table settle_data.' || c.relname || ' is not durable: a crash of the server empties it',
        'alter table settle_data.' || c.relname || ' set logged', 'settle_data.' || c.relname
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'settle_data' and c.relkind in ('r', 'p') and c.relpersistence <> 'p'
    union all
    select 'error', 'index settle_data.' || c.relname || ' is not valid: one key could stand twice',
        'reindex index settle_data.' || c.relname, 'settle_data.' || c.relname
    from pg_index i join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'settle_data' and not (i.indisvalid and i.indisready)
    union all
    select 'error', 'trigger operation_ended is ' || case when t.oid is null then 'missing' else 'disabled' end
            || ': an effect could be committed without its record',
        case when t.oid is null then 'run settle migrate; if it finds nothing to do, first, as settle_owner: delete from settle_data.api_file'
            else 'alter table settle_data.operation enable trigger operation_ended' end, 'operation_ended'
    from pg_class c join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'settle_data'
    left join pg_trigger t on t.tgrelid = c.oid and t.tgname = 'operation_ended' and t.tgdeferrable and t.tginitdeferred
    where c.relname = 'operation' and (t.oid is null or t.tgenabled not in ('O', 'A'))
    union all
    select 'warning', 'trigger ' || t.tgname || ' on settle_data.' || c.relname || ' is none of Settle''s',
        'drop it: what Settle writes is Settle''s alone', t.tgname
    from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'settle_data' and not t.tgisinternal and t.tgname <> 'operation_ended'
)
select p.severity, p.finding, p.what_to_do, json_build_object('check', 'relations', 'object', p.name)::text as detail
from problem p order by p.finding
