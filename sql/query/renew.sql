select outcome, current_token, holder, lease_until, cancel_requested
from settle.renew(key => $1, token => $2::bigint, lease => $3::interval, owner => $4, namespace => $5)
