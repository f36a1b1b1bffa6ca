-- Read from the catalog itself: a name that was not there before the wait for the migration's lock would still be looked
-- up as missing, for no wait for an advisory lock makes a session look anew.
select exists (
    select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'settle_data' and c.relname = 'migration') as present
