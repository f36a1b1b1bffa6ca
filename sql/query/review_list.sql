-- What needs a person, the longest waiting first.
with form (utc) as (values ('YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
select r.key, r.kind, r.reason, r.status, r.approvals, to_char(r.since at time zone 'UTC', form.utc) as since,
    r.last_error ->> 'code' as error_code, r.last_error ->> 'message' as error_message,
    json_build_object('namespace', r.namespace, 'key', r.key, 'kind', r.kind, 'reason', r.reason,
        'since', to_char(r.since at time zone 'UTC', form.utc), 'approvals', r.approvals, 'status', r.status,
        'last_error', r.last_error)::text as document
from form cross join settle.reviews r
where r.namespace = $1
order by r.since, r.key
