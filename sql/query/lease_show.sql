-- The lease on resource $2 of namespace $1, with its instants in RFC 3339.
select l.namespace, l.resource, l.token, l.holder, l.state,
    to_char(l.lease_until at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as lease_until,
    to_char(l.granted_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as granted_at,
    to_char(l.released_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as released_at
from settle.leases l
where l.namespace = $1 and l.resource = $2
