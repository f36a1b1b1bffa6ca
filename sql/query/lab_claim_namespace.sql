-- $1 where $2 names it; else the first of $1, $1-2, $1-3, … that nobody has used. No row where there is none.
insert into lab_setting (namespace)
select c.namespace
from (select n, case n when 1 then $1::text else $1::text || '-' || n end as namespace
      from generate_series(1, case when $2::boolean then 1 else 9999 end) as n) as c
where not exists (select from settle.operations o where o.namespace = c.namespace)
    and not exists (select from settle.leases l where l.namespace = c.namespace)
order by c.n limit 1
returning namespace
