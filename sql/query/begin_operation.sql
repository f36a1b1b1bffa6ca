select outcome, token, execution_id, status, result_ref, result, failure, lease_until, next_attempt_at, holder, attempt_count
from settle.begin_operation(key => $1, kind => $2, request => $3::jsonb, namespace => $4, trigger => $5, owner => $6,
                            lease => $7::interval, effect => $8)
