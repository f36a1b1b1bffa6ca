-- One operation's executions for people, in order; `total` counts what the limit leaves out, too.
with form (utc) as (values ('YYYY-MM-DD"T"HH24:MI:SS.US"Z"')),
run as (
    select e.*, count(*) over () as total from settle.executions e where e.namespace = $1 and e.key = $2
    order by e.token desc limit $3::integer
)
select r.token, r.trigger, r.worker, r.outcome, r.error ->> 'class' as error_class, r.error ->> 'code' as error_code,
    r.error ->> 'message' as error_message, r.remote_ref, (r.repeats ->> 'count')::integer as repeats,
    r.operator, r.reason, r.total, to_char(r.sent_at at time zone 'UTC', form.utc) as sent_at,
    to_char(r.started_at at time zone 'UTC', form.utc) as started_at,
    to_char(r.finished_at at time zone 'UTC', form.utc) as finished_at
from form cross join run r
order by r.token
