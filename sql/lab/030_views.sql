-- Settle's own record of the laboratory, under the names of the business.

create view lab_operation as
select o.key as op,
    -- An undo carries its original's request inside its own.
    case when jsonb_typeof(coalesce(o.request #> '{request,amount}', o.request -> 'amount')) = 'number'
        then coalesce(o.request #>> '{request,amount}', o.request ->> 'amount')::numeric end as amount,
    o.status
from settle.operations o
where o.namespace = (select s.namespace from lab_setting s);
comment on view lab_operation is 'Settle''s operations in the namespace of lab_setting';

create view lab_lease as
select l.resource as task, l.holder, l.token, l.lease_until as deadline
from settle.leases l
where l.namespace = (select s.namespace from lab_setting s);
comment on view lab_lease is 'Settle''s leases in the namespace of lab_setting';
