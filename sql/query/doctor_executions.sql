-- What must be true between operations, their executions and what was decided about them. Reads the tables, so it needs
-- their owner's rights.
with unended as (
    select e.namespace, e.key, e.number from settle_data.execution e where e.outcome is null and e.finished_at is null
),
broken (place, what, what_to_do, namespace, key) as (
    select distinct 1, 'execution without its operation', 'restore the operation from a backup: its key is unprotected',
        e.namespace, e.key
    from settle_data.execution e
    where not exists (select from settle_data.operation o where o.namespace = e.namespace and o.key = e.key)
    union all
    select distinct 2, 'decision without its operation', 'restore the operation from a backup: its key is unprotected',
        d.namespace, d.key
    from settle_data.decision d
    where not exists (select from settle_data.operation o where o.namespace = d.namespace and o.key = d.key)
    union all
    select 3, 'operation with two executions running at once', 'find out which of them acted: settle trace shows both',
        u.namespace, u.key
    from unended u group by u.namespace, u.key having count(*) > 1
    union all
    select 4, 'execution that runs on after its operation', 'as settle_owner set its outcome to lost and its finished_at',
        u.namespace, u.key
    from unended u join settle_data.operation o on o.namespace = u.namespace and o.key = u.key
    where o.status <> 'running' or (o.token <> u.number
        and not exists (select from unended other where other.namespace = u.namespace and other.key = u.key
                            and other.number <> u.number))
    union all
    select 5, 'running operation whose execution is not recorded', 'let it end, then look: settle trace shows the rest',
        o.namespace, o.key
    from settle_data.operation o
    where o.status = 'running' and o.token > 1 and not exists (
        select from settle_data.execution e where e.namespace = o.namespace and e.key = o.key and e.number = o.token)
),
numbered as (
    select b.*, case b.namespace when 'default' then b.key else b.namespace || '/' || b.key end as name,
        count(*) over (partition by b.place) as total,
        row_number() over (partition by b.place order by b.namespace, b.key) as number
    from broken b
)
select 'error' as severity,
    min(n.what) || ' (' || max(n.total) || '): ' || string_agg(n.name, ', ' order by n.number)
        || case when max(n.total) > 5 then ', …' else '' end as finding,
    min(n.what_to_do) as what_to_do,
    json_build_object('check', 'executions', 'count', max(n.total), 'keys', json_agg(json_build_object(
        'namespace', n.namespace, 'key', n.key) order by n.number))::text as detail
from numbered n where n.number <= 5 group by n.place order by n.place
