-- Transactions older than $1, which hold locks and keep dead rows from being cleared away. Sessions of other databases
-- do not matter here.
with others as (
    select s.pid, s.usename, s.application_name, s.state, s.xact_start, s.state_change from pg_stat_activity s
    where s.datname = current_database() and s.pid <> pg_backend_pid() and s.backend_type = 'client backend'
),
problem (severity, finding, what_to_do, pid, since) as (
    select 'warning', 'session ' || o.pid || ' of ' || coalesce(o.usename, 'nobody') || ' (' || o.application_name
            || ') has been idle in its transaction', 'end the transaction, or: select pg_terminate_backend(' || o.pid
            || '); idle_in_transaction_session_timeout does it by itself', o.pid, o.state_change
    from others o where o.state like 'idle in transaction%' and o.state_change < clock_timestamp() - $1::interval
    union all
    select 'warning', 'session ' || o.pid || ' of ' || coalesce(o.usename, 'nobody') || ' (' || o.application_name
            || ') has been in one transaction', 'let it end, or: select pg_terminate_backend(' || o.pid || ')', o.pid,
        o.xact_start
    from others o where o.state not like 'idle in transaction%' and o.xact_start < clock_timestamp() - $1::interval
    union all
    select case when p.prepared < clock_timestamp() - $1::interval then 'warning' else 'info' end,
        'prepared transaction ' || p.gid || ' of ' || p.owner || ' has been waiting to be ended',
        'commit prepared or rollback prepared ' || quote_literal(p.gid) || ', as its coordinator says', null, p.prepared
    from pg_prepared_xacts p where p.database = current_database()
    union all
    select 'warning', 'replication slot ' || r.slot_name || ' is used by nobody and keeps dead rows',
        'let its reader come back, or: select pg_drop_replication_slot(' || quote_literal(r.slot_name) || ')', null, null
    from pg_replication_slots r where not r.active and (r.xmin is not null or r.catalog_xmin is not null)
    union all
    select 'info', 'other users'' sessions could not be looked at', 'grant pg_read_all_stats to ' || quote_ident(current_user),
        null, null
    where not pg_has_role('pg_read_all_stats', 'usage')
)
select p.severity, p.finding || coalesce(' since ' || to_char(p.since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '')
        as finding, p.what_to_do, json_build_object('check', 'sessions', 'pid', p.pid,
        'since', to_char(p.since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text as detail
from problem p order by p.since nulls last, p.pid
