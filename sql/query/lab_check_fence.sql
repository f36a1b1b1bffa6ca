select settle.check_fence(resource => $1, token => $2::bigint, namespace => $3)
