-- What people and tools read. Views grow by columns at their end. A view's tables are read with its owner's rights, but
-- its functions run with the reader's: each is granted, and one that reads a table is a definer.

create or replace function settle.schema_version()
returns integer language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return (select max(m.number) from settle_data.migration m);
end $$;
revoke all on function settle.schema_version() from public;
grant execute on function settle.schema_version()
    to settle_app, settle_worker, settle_operator, settle_viewer, settle_handler, settle_admin;

create or replace function settle_data.last_error(op settle_data.operation)
returns jsonb language sql stable as $$
    select case when (last_error.op).error_code is not null or (last_error.op).error_class is not null then
        pg_catalog.jsonb_build_object('class', (last_error.op).error_class, 'code', (last_error.op).error_code,
                           'message', (last_error.op).error_message) end
$$;
revoke all on function settle_data.last_error(settle_data.operation) from public;
grant execute on function settle_data.last_error(settle_data.operation) to settle_viewer;
grant execute on function settle_data.failure_of(settle_data.operation) to settle_viewer;
grant execute on function settle_data.stored_digest(settle_data.operation) to settle_viewer;

create or replace view settle.operations as
select o.namespace, o.key, o.kind, o.status, o.request,
    settle_data.stored_digest(o) as digest,
    o.result_ref, o.result, settle_data.failure_of(o) as failure, o.attempt_count, o.next_attempt_at, o.created_at,
    o.finished_at,
    case when o.status = 'running' and o.lease_until is not null
        then jsonb_build_object('owner', o.owner, 'token', o.token, 'until', o.lease_until) end as lease,
    o.compensates, undo.key as compensated_by, settle_data.last_error(o) as last_error,
    o.effect, nullif(o.token, 0) as token,
    case when o.status = 'running' then o.owner end as lease_owner,
    case when o.status = 'running' then o.lease_until end as lease_until,
    o.sent_at, o.remote_ref, o.review_reason, o.open_since, coalesce(o.cancel_requested, false) as cancel_requested,
    o.revision, o.operator, o.reason
from settle_data.operation o
left join settle_data.operation undo on undo.namespace = o.namespace and undo.key = o.key || '~undo';
revoke all on settle.operations from public;
grant select on settle.operations to settle_viewer;

-- What an execution ended with; the detail as it came, nulls in it included.
create or replace function settle_data.execution_error(class text, code text, message text, detail jsonb)
returns jsonb language sql stable as $$
    select case when execution_error.code is not null or execution_error.class is not null then
        pg_catalog.jsonb_build_object('class', execution_error.class, 'code', execution_error.code,
                           'message', execution_error.message)
        || case when execution_error.detail is not null then pg_catalog.jsonb_build_object('detail', execution_error.detail)
                else '{}' end end
$$;
revoke all on function settle_data.execution_error(text, text, text, jsonb) from public;
grant execute on function settle_data.execution_error(text, text, text, jsonb) to settle_viewer;

create or replace view settle.executions as
select h.namespace, h.key, h.execution_id, h.token, h.trigger, h.worker, h.outcome, h.error, h.remote_ref, h.sent_at,
    h.repeats, h.operator, h.reason, h.revision, h.started_at, h.finished_at
from (
    select e.namespace, e.key, e.key || '#' || e.number as execution_id, e.number as token, e.trigger, e.worker, e.outcome,
        settle_data.execution_error(e.error_class, e.error_code, e.error_message, e.error_detail) as error,
        -- the mark of the execution that holds the operation now is still in the operation's row
        coalesce(e.remote_ref, holding.remote_ref) as remote_ref, coalesce(e.sent_at, holding.sent_at) as sent_at,
        jsonb_build_object('count', coalesce(e.repeats, 0), 'last_sqlstate', e.repeats_sqlstate) as repeats,
        e.operator, e.reason, e.revision, e.started_at, e.finished_at
    from settle_data.execution e
    left join settle_data.operation holding on holding.namespace = e.namespace and holding.key = e.key
        and holding.token = e.number and e.finished_at is null
    union all
    -- the first execution, while there is no second
    select o.namespace, o.key, o.key || '#1', 1, o.trigger, o.owner,
        coalesce(o.outcome, case o.status when 'succeeded' then 'succeeded' when 'failed' then 'refused' end),
        settle_data.execution_error(o.error_class, o.error_code, o.error_message, o.error_detail),
        o.remote_ref, o.sent_at, jsonb_build_object('count', 0, 'last_sqlstate', null), o.operator, o.reason, o.revision,
        o.started_at, coalesce(o.ended_at, o.finished_at)
    from settle_data.operation o
    where o.token = 1
) as h;
revoke all on settle.executions from public;
grant select on settle.executions to settle_viewer;

-- The manual queue: what is in review, and what is unknown with nothing that could look it up.
create or replace view settle.reviews as
select o.namespace, o.key, o.kind, coalesce(o.review_reason, 'unknown') as reason, o.open_since as since, o.status,
    (select coalesce(max(a.people), 0)
     from (select count(distinct d.operator) as people from settle_data.decision d
           where d.namespace = o.namespace and d.key = o.key and d.act like 'approve %' and d.decided_at >= o.open_since
           group by d.act, d.detail) as a) as approvals,
    o.request, settle_data.last_error(o) as last_error, o.attempt_count, o.remote_ref
from settle_data.operation o
where o.open_since is not null
    and (o.status = 'review' or (o.status = 'unknown' and not exists (
        select from settle_data.kind_revision r
        where r.kind = o.kind and r.revision = o.revision and r.declaration ? 'resolve')));
revoke all on settle.reviews from public;
grant select on settle.reviews to settle_viewer;

create or replace view settle.leases as
select l.namespace, l.resource, l.token, l.holder, l.lease_until, l.granted_at, l.released_at,
    case when l.released_at is not null then 'released' when l.lease_until <= clock_timestamp() then 'lapsed'
         else 'live' end as state
from settle_data.lease l;
revoke all on settle.leases from public;
grant select on settle.leases to settle_viewer;

create or replace view settle.decisions as
select d.namespace, d.key, d.number, d.act, d.operator, d.reason, d.from_status, d.to_status, d.detail, d.decided_at,
    d.db_user
from settle_data.decision d;
revoke all on settle.decisions from public;
grant select on settle.decisions to settle_viewer;

create or replace view settle.kinds as
select r.kind, r.revision, r.effect, r.identity, r.secret, r.declaration, r.declared_at, r.declared_by
from settle_data.kind_revision r
where r.in_force;
revoke all on settle.kinds from public;
grant select on settle.kinds to settle_viewer;

-- Everything unfinished that others can see, oldest first where it is read by age.
create or replace view settle.backlog as
select o.namespace, o.key, o.kind, o.status, o.open_since, o.next_attempt_at, o.attempt_count,
    case when o.status = 'running' then o.owner end as lease_owner,
    case when o.status = 'running' then o.lease_until end as lease_until,
    o.review_reason, settle_data.last_error(o) as last_error
from settle_data.operation o
where o.open_since is not null;
revoke all on settle.backlog from public;
grant select on settle.backlog to settle_viewer;

create or replace function settle_data.duplicates(counter integer)
returns bigint language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return coalesce(pg_sequence_last_value(('settle.duplicates_' || duplicates.counter)::regclass), 0);
end $$;
revoke all on function settle_data.duplicates(integer) from public;
grant execute on function settle_data.duplicates(integer) to settle_viewer;

-- How many repeats were answered without a write, by kind; the empty kind is the count that undeclared kinds share.
-- Approximate: unlogged, lost at a crash of the server.
create or replace view settle.metrics as
select 'settle_duplicates_total' as name, jsonb_build_object('kind', k.kind, 'trigger', 'call') as labels,
    settle_data.duplicates(k.counter)::double precision as value
from (select '' as kind, 0 as counter
      union
      select r.kind, r.counter from settle_data.kind_revision r where r.counter > 0) as k
union all
select 'settle_unfinished_oldest_seconds', jsonb_build_object('status', o.status),
    extract(epoch from clock_timestamp() - min(o.open_since))::double precision
from settle_data.operation o where o.open_since is not null group by o.status
union all
select 'settle_unknown', '{}', count(*)::double precision
from settle_data.operation o where o.open_since is not null and o.status = 'unknown'
union all
select 'settle_reviews_open', jsonb_build_object('reason', o.review_reason), count(*)::double precision
from settle_data.operation o where o.open_since is not null and o.status = 'review' group by o.review_reason;
revoke all on settle.metrics from public;
grant select on settle.metrics to settle_viewer;
