-- Whether backend $1 waits for a lock that backend $2 holds; and whether it has answered already.
select a.wait_event_type = 'Lock' and $2::integer = any(pg_blocking_pids(a.pid)) as waiting,
    a.state <> 'active' and a.query like '%settle.begin_operation%' as answered
from pg_stat_activity a
where a.pid = $1::integer
