select outcome, current_token, holder
from settle.complete(key => $1, token => $2::bigint, result_ref => $3, result => $4::jsonb, namespace => $5)
