select outcome, token, status
from settle.begin_compensation(key => $1, operator => $2, reason => $3, namespace => $4)
