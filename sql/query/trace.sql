-- The story of an operation and of its compensation, in the order of time: an execution ends before the next one that
-- the same look at the clock began.
with form (utc) as (values ('YYYY-MM-DD"T"HH24:MI:SS.US"Z"')),
story as (
    select o.namespace, o.key, o.kind, o.status, o.failure, o.result_ref, o.token, o.compensates, o.operator, o.reason,
        o.created_at
    from settle.operations o where o.namespace = $1 and o.key in ($2, $2 || '~undo')
),
run as (
    select e.* from settle.executions e where e.namespace = $1 and e.key in ($2, $2 || '~undo')
),
ran as (
    select r.* from run r
    where r.outcome is null or r.outcome not in ('replayed', 'conflict', 'in_progress', 'frozen')
),
event (at, key, event, place, execution_id, token, trigger, worker, outcome, operator, reason, detail) as (
    select o.created_at, o.key, case when o.failure ->> 'code' = 'UNDONE_FIRST' then 'undone_first' else 'created' end,
        0, null, null::bigint, null, null, null,
        coalesce(first.operator, case when o.token is null then o.operator end),
        coalesce(first.reason, case when o.token is null then o.reason end),
        jsonb_build_object('kind', o.kind, 'compensates', o.compensates)
    from story o left join run first on first.key = o.key and first.token = 1 and o.compensates is not null
    union all
    select r.started_at, r.key, 'started', 1, r.execution_id, r.token, r.trigger, r.worker, null, r.operator, r.reason,
        jsonb_build_object('revision', r.revision)
    from ran r
    union all
    select r.sent_at, r.key, 'sent', 2, r.execution_id, r.token, r.trigger, r.worker, null, null, null,
        jsonb_build_object('remote_ref', r.remote_ref)
    from ran r where r.sent_at is not null
    union all
    -- The answer is the operation's; only its last execution can have given it.
    select r.finished_at, r.key, 'ended', 3, r.execution_id, r.token, r.trigger, r.worker, r.outcome, null, null,
        jsonb_build_object('error', r.error,
            'failure', case when r.outcome = 'refused' and o.token = r.token and o.status = 'failed' then o.failure end,
            'result_ref', case when r.outcome = 'succeeded' then o.result_ref end)
    from ran r join story o on o.key = r.key where r.finished_at is not null
    union all
    select r.finished_at, r.key, 'repeated', 4, r.execution_id, r.token, r.trigger, r.worker, r.outcome, r.operator,
        r.reason, jsonb_build_object('error', r.error)
    from run r where r.outcome in ('replayed', 'conflict', 'in_progress', 'frozen')
    union all
    select d.decided_at, d.key, 'decided', 5, null, null, null, null, null, d.operator, d.reason,
        jsonb_build_object('act', d.act, 'from_status', d.from_status, 'to_status', d.to_status, 'db_user', d.db_user)
        || coalesce(d.detail, '{}')
    from story o join settle.decisions d on d.namespace = o.namespace and d.key = o.key
)
select o.status, o.kind, to_char(v.at at time zone 'UTC', form.utc) as at, v.key, v.event, v.execution_id, v.token,
    v.trigger, v.worker, v.outcome, v.operator, v.reason, v.detail ->> 'compensates' as compensates,
    v.detail ->> 'remote_ref' as remote_ref, v.detail ->> 'result_ref' as result_ref,
    v.detail #>> '{error,code}' as error_code, v.detail #>> '{error,message}' as error_message,
    v.detail #>> '{failure,code}' as failure_code, v.detail ->> 'act' as act, v.detail ->> 'from_status' as from_status,
    v.detail ->> 'to_status' as to_status, v.detail ->> 'kind' as event_kind,
    json_build_object('at', to_char(v.at at time zone 'UTC', form.utc), 'event', v.event, 'key', v.key,
        'execution_id', v.execution_id, 'token', v.token, 'trigger', v.trigger, 'worker', v.worker,
        'outcome', v.outcome, 'operator', v.operator, 'reason', v.reason, 'detail', v.detail)::text as document
from form cross join event v
join settle.operations o on o.namespace = $1 and o.key = $2
order by v.at, v.key, coalesce(v.token, 0), v.place
