select outcome, token, execution_id, status, result_ref, result, failure, lease_until, next_attempt_at, holder, attempt_count
from settle.begin_compensation(key => $1, operator => $2, reason => $3, namespace => $4, lease => $5::interval, owner => $6)
