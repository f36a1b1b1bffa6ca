-- One operation: `document` is what programs read, digit for digit; the other columns are for people.
with form (utc) as (values ('YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
select o.status, o.kind, o.effect, o.request::text as request, o.digest, o.result_ref, o.result::text as result,
    o.failure ->> 'code' as failure_code, (o.failure -> 'detail')::text as failure_detail, o.attempt_count,
    to_char(o.created_at at time zone 'UTC', form.utc) as created_at,
    to_char(o.finished_at at time zone 'UTC', form.utc) as finished_at,
    to_char(o.next_attempt_at at time zone 'UTC', form.utc) as next_attempt_at,
    extract(epoch from o.next_attempt_at - clock_timestamp())::bigint as due_in_s,
    o.last_error ->> 'class' as error_class, o.last_error ->> 'code' as error_code,
    o.last_error ->> 'message' as error_message,
    o.token, o.lease_owner, to_char(o.lease_until at time zone 'UTC', form.utc) as lease_until,
    extract(epoch from o.lease_until - clock_timestamp())::bigint as lease_left_s,
    to_char(o.sent_at at time zone 'UTC', form.utc) as sent_at, o.remote_ref, o.cancel_requested, o.revision,
    o.compensates, o.compensated_by,
    (select undo.status from settle.operations undo
     where undo.namespace = o.namespace and undo.key = o.compensated_by) as compensation_status,
    o.operator, o.reason, r.reason as review_reason, to_char(r.since at time zone 'UTC', form.utc) as review_since,
    r.approvals, (k.declaration #>> '{review,approvals}')::integer as approvals_needed,
    (k.declaration #>> '{review,rerun_failed}')::boolean as rerun_failed,
    k.declaration #>> '{compensation,kind}' as compensation_kind, k.declaration ? 'resolve' as has_resolver,
    case when r.key is null then 'null' else json_build_object('reason', r.reason,
        'since', to_char(r.since at time zone 'UTC', form.utc), 'approvals', r.approvals)::text end as review,
    json_build_object('namespace', o.namespace, 'key', o.key, 'kind', o.kind, 'status', o.status,
        'request', o.request, 'digest', o.digest, 'result_ref', o.result_ref, 'result', o.result,
        'failure', o.failure, 'attempt_count', o.attempt_count,
        'next_attempt_at', to_char(o.next_attempt_at at time zone 'UTC', form.utc), 'last_error', o.last_error,
        'created_at', to_char(o.created_at at time zone 'UTC', form.utc),
        'finished_at', to_char(o.finished_at at time zone 'UTC', form.utc),
        'lease', case when o.lease_until is not null then json_build_object('owner', o.lease_owner, 'token', o.token,
            'until', to_char(o.lease_until at time zone 'UTC', form.utc)) end,
        'compensates', o.compensates, 'compensated_by', o.compensated_by,
        'executions', (select coalesce(json_agg(json_build_object('execution_id', e.execution_id, 'token', e.token,
                'trigger', e.trigger, 'worker', e.worker, 'outcome', e.outcome, 'error', e.error,
                'remote_ref', e.remote_ref, 'sent_at', to_char(e.sent_at at time zone 'UTC', form.utc),
                'repeats', e.repeats, 'operator', e.operator, 'reason', e.reason, 'revision', e.revision,
                'started_at', to_char(e.started_at at time zone 'UTC', form.utc),
                'finished_at', to_char(e.finished_at at time zone 'UTC', form.utc)) order by e.token), '[]')
            from settle.executions e where e.namespace = o.namespace and e.key = o.key))::text as document
from form cross join settle.operations o
left join settle.reviews r on r.namespace = o.namespace and r.key = o.key
left join settle.kinds k on k.kind = o.kind and k.revision = o.revision
where o.namespace = $1 and o.key = $2
