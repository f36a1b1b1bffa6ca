-- What a view or a default calls is resolved here, and for good: never to what somebody made in `public` under the name of
-- a function of PostgreSQL. Twenty may migrate at once; the last has to wait for all before it. The name behind the
-- number: "settle".
select pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
    pg_catalog.set_config('lock_timeout', '120s', true),
    pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('settle migrate', 0))
