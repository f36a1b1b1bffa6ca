-- Operations, newest first. The third condition on the status lets the small index of unfinished ones be used.
with form (utc) as (values ('YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
select o.key, o.kind, o.status, o.attempt_count, to_char(o.created_at at time zone 'UTC', form.utc) as created_at,
    to_char(o.next_attempt_at at time zone 'UTC', form.utc) as next_attempt_at, o.result_ref,
    o.last_error ->> 'code' as error_code, o.last_error ->> 'message' as error_message,
    o.failure ->> 'code' as failure_code,
    json_build_object('namespace', o.namespace, 'key', o.key, 'kind', o.kind, 'status', o.status,
        'attempt_count', o.attempt_count, 'next_attempt_at', to_char(o.next_attempt_at at time zone 'UTC', form.utc),
        'last_error', o.last_error, 'created_at', to_char(o.created_at at time zone 'UTC', form.utc),
        'finished_at', to_char(o.finished_at at time zone 'UTC', form.utc), 'result_ref', o.result_ref)::text as document
from form cross join settle.operations o
where o.namespace = $1
    and ($2::text is null or o.status = $2)
    and (o.open_since is not null or $2 is null or $2 in ('succeeded', 'failed', 'cancelled'))
    and ($3::text is null or o.kind = $3)
order by o.created_at desc, o.key
limit $4::integer
