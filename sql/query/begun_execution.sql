-- The execution of operation $2 (in namespace $1) that owner $3 holds now.
select o.token, o.attempt_count, o.effect
from settle.operations o
where o.namespace = $1 and o.key = $2 and o.status = 'running' and o.lease_owner = $3
