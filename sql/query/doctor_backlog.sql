-- What waits too long: lapsed leases that nobody has met, work that nobody begins, and what waits for a person.
with waiting (place, what, what_to_do, limit_of, namespace, key, since) as (
    select 1, 'running under a lease that has lapsed', 'begin it again, or run settle review list, which settles such leases',
        interval '5 minutes', b.namespace, b.key, b.lease_until
    from settle.backlog b where b.status = 'running' and b.lease_until < clock_timestamp() - interval '5 minutes'
    union all
    select 2, 'due, but begun by nobody', 'begin it again as it was begun; settle list --status pending shows it',
        interval '1 hour', b.namespace, b.key, b.next_attempt_at
    from settle.backlog b where b.status = 'pending' and b.next_attempt_at < clock_timestamp() - interval '1 hour'
    union all
    select 3, case b.status when 'review' then 'in review' else b.status end, 'look and decide: settle review list', interval '1 hour', b.namespace, b.key, b.open_since
    from settle.backlog b where b.status in ('unknown', 'review')
),
oldest as (
    select w.*, count(*) over (partition by w.place, w.what) as total,
        row_number() over (partition by w.place, w.what order by w.since, w.key) as number
    from waiting w
)
select case when o.since < clock_timestamp() - o.limit_of then 'warning' else 'info' end as severity,
    o.total || case o.total when 1 then ' operation is ' else ' operations are ' end || o.what || ', '
        || case o.total when 1 then '' else 'the oldest ' end
        || case o.namespace when 'default' then '' else o.namespace || '/' end || o.key || ' since '
        || to_char(o.since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as finding,
    o.what_to_do, json_build_object('check', 'backlog', 'count', o.total, 'namespace', o.namespace, 'key', o.key,
        'since', to_char(o.since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text as detail
from oldest o where o.number = 1 order by o.place, o.what
