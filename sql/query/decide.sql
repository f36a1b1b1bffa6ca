select outcome, status, reason
from settle.decide(key => $1, decision => $2, operator => $3, reason => $4, result_ref => $5, request => $6::jsonb,
                   namespace => $7)
