-- At most one undoing of an operation, and only of a success. Reads the tables, so it needs their owner's rights.
with undo as (
    select o.namespace, o.key, o.compensates, o.status from settle_data.operation o where o.compensates is not null
),
broken (place, what, what_to_do, namespace, key) as (
    select 1, 'compensation whose original is missing', 'restore the original from a backup, and look at both ledgers',
        u.namespace, u.key
    from undo u
    where not exists (select from settle_data.operation o where o.namespace = u.namespace and o.key = u.compensates)
    union all
    select 2, 'compensation whose original has not succeeded', 'find out what was applied: settle trace shows both',
        u.namespace, u.key
    from undo u join settle_data.operation o on o.namespace = u.namespace and o.key = u.compensates
    where o.status <> 'succeeded'
    union all
    select 3, 'operation that is undone twice', 'find out what was applied: settle trace shows both', u.namespace,
        u.compensates
    from undo u group by u.namespace, u.compensates having count(*) > 1
    union all
    select 4, 'compensation of a compensation', 'find out what was applied: settle trace shows both', u.namespace, u.key
    from undo u join undo original on original.namespace = u.namespace and original.key = u.compensates
    union all
    select 5, 'operation under a compensation''s key that undoes something else', 'find out what it did: settle trace',
        o.namespace, o.key
    from settle_data.operation o
    where right(o.key, 5) = '~undo' and o.compensates is distinct from left(o.key, -5)
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
    json_build_object('check', 'compensations', 'count', max(n.total), 'keys', json_agg(json_build_object(
        'namespace', n.namespace, 'key', n.key) order by n.number))::text as detail
from numbered n where n.number <= 5 group by n.place order by n.place
