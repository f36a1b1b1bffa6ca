select outcome, current_token, holder, next_attempt_at, status
from settle.fail(key => $1, token => $2::bigint, error_class => $3, code => $4, message => $5,
                 may_have_applied => $6::boolean, namespace => $7)
