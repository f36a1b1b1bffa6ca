-- Whether nobody's lease on the operation is live any more.
select o.status <> 'running' or o.lease_until <= clock_timestamp() as gone
from settle.operations o
where o.namespace = $1 and o.key = $2
