select outcome, token, holder, lease_until
from settle.renew_lease(resource => $1, holder => $2, token => $3::bigint, ttl => $4::interval, namespace => $5)
