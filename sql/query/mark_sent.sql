select outcome, current_token, holder
from settle.mark_sent(key => $1, token => $2::bigint, remote_ref => $3, namespace => $4)
