-- One laboratory is made at a time, so that no two choose the same schema or namespace.
select pg_advisory_xact_lock(hashtextextended('settle lab', 0)), set_config('settle.lab_schema', $1, true)
