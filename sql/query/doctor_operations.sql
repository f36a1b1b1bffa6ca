-- What must be true of every operation's row, whatever happened. Reads the tables, so it needs their owner's rights.
with broken (place, what, what_to_do, namespace, key) as (
    select 1, 'finished, but still counted as open', 'as settle_owner set its open_since to null',
        o.namespace, o.key
    from settle_data.operation o where o.finished_at is not null and o.open_since is not null
    union all
    select 2, 'unfinished, but shown by no queue', 'as settle_owner set its open_since to its created_at',
        o.namespace, o.key
    from settle_data.operation o where o.finished_at is null and o.open_since is null
    union all
    select 3, 'running without a lease, so that nobody can take over',
        'as settle_owner set its lease_until to now(), then let it be begun again', o.namespace, o.key
    from settle_data.operation o where o.status = 'running' and o.lease_until is null
    union all
    select 4, 'pending, but due at no time', 'as settle_owner set its next_attempt_at to now()', o.namespace, o.key
    from settle_data.operation o where o.status = 'pending' and o.next_attempt_at is null
    union all
    select 5, 'at a token behind its executions, so that a token could be given twice',
        'as settle_owner set its token to the highest number of its executions', o.namespace, o.key
    from (select e.namespace, e.key, max(e.number) as number from settle_data.execution e
          where e.outcome is null or e.outcome not in ('replayed', 'conflict', 'in_progress', 'frozen')
          group by e.namespace, e.key) as ran
    join settle_data.operation o on o.namespace = ran.namespace and o.key = ran.key
    where o.token < ran.number
    union all
    select 6, 'undone before it came, but has run', 'find out what it did: settle trace shows its executions',
        o.namespace, o.key
    from settle_data.operation o where o.failure_code = 'UNDONE_FIRST' and (o.attempt_count > 0 or o.status <> 'cancelled')
    union all
    select 7, 'in a status that does not exist', 'find out who wrote it, and restore it from a backup', o.namespace, o.key
    from settle_data.operation o
    where o.status not in ('pending', 'running', 'succeeded', 'failed', 'cancelled', 'unknown', 'review')
    union all
    select 8, 'finished by its status but not by its time, or the other way round',
        'find out what is so: settle trace, then, as settle_owner, set finished_at', o.namespace, o.key
    from settle_data.operation o
    where (o.status in ('succeeded', 'failed', 'cancelled')) <> (o.finished_at is not null)
    union all
    select 9, 'under a key or namespace that cannot be one', 'find out who wrote it: no caller can reach it',
        o.namespace, o.key
    from settle_data.operation o
    where octet_length(o.key) not between 1 and 511 or octet_length(o.namespace) not between 1 and 63
    union all
    select 10, 'of no kind', 'find out who wrote it, and restore it from a backup', o.namespace, o.key
    from settle_data.operation o where o.kind is null and o.failure_code is distinct from 'UNDONE_FIRST'
    union all
    select 11, 'at a token or count below zero', 'find out who wrote it, and restore it from a backup', o.namespace, o.key
    from settle_data.operation o where least(o.token, o.revision, o.attempt_count) < 0
),
numbered as (
    select b.*, case b.namespace when 'default' then b.key else b.namespace || '/' || b.key end as name,
        count(*) over (partition by b.place) as total,
        row_number() over (partition by b.place order by b.namespace, b.key) as number
    from broken b
)
select 'error' as severity,
    'operation ' || min(n.what) || ' (' || max(n.total) || '): ' || string_agg(n.name, ', ' order by n.number)
        || case when max(n.total) > 5 then ', …' else '' end as finding,
    min(n.what_to_do) as what_to_do,
    json_build_object('check', 'operations', 'count', max(n.total), 'keys', json_agg(json_build_object(
        'namespace', n.namespace, 'key', n.key) order by n.number))::text as detail
from numbered n where n.number <= 5 group by n.place order by n.place
