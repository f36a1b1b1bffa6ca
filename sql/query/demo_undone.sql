select outcome from settle.complete(key => $1, token => $2::bigint, result_ref => $3, namespace => $4)
