select outcome, token, execution_id, status, result_ref, result, failure, lease_until, next_attempt_at, holder, attempt_count
from settle.begin_rerun(key => $1, kind => $2, request => $3::jsonb, operator => $4, reason => $5, namespace => $6,
                        owner => $7, lease => $8::interval, effect => $9)
