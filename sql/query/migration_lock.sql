-- Twenty may migrate at once; the last has to wait for all before it. The name behind the number: "settle".
select set_config('lock_timeout', '120s', true), pg_advisory_xact_lock(hashtextextended('settle migrate', 0))
