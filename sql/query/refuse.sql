select outcome, current_token, holder
from settle.refuse(key => $1, token => $2::bigint, code => $3, detail => $4::jsonb, namespace => $5)
