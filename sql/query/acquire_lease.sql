select outcome, token, holder, lease_until
from settle.acquire_lease(resource => $1, holder => $2, ttl => $3::interval, namespace => $4)
