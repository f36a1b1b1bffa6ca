-- What operators decided about one operation, in order.
with form (utc) as (values ('YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
select to_char(d.decided_at at time zone 'UTC', form.utc) as decided_at, d.act, d.operator, d.reason, d.from_status,
    d.to_status, json_build_object('number', d.number, 'act', d.act, 'operator', d.operator, 'reason', d.reason,
        'from_status', d.from_status, 'to_status', d.to_status, 'detail', d.detail,
        'decided_at', to_char(d.decided_at at time zone 'UTC', form.utc), 'db_user', d.db_user)::text as document
from form cross join settle.decisions d
where d.namespace = $1 and d.key = $2
order by d.number
