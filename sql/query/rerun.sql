select outcome, status, reason
from settle.rerun(key => $1, operator => $2, reason => $3, request => $4::jsonb, namespace => $5)
