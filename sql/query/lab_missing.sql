select string_agg(w.name, ', ' order by w.position) as missing
from unnest(array['lab_account', 'lab_ledger', 'lab_operation', 'lab_lease', 'lab_resource', 'lab_compensation',
                  'lab_setting']) with ordinality as w (name, position)
where not exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
                  where n.nspname = $1 and c.relname = w.name)
