select outcome, token, holder, lease_until
from settle.release_lease(resource => $1, holder => $2, token => $3::bigint, namespace => $4)
