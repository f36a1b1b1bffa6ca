-- For this transaction the laboratory's names mean schema $1.
select set_config('search_path', quote_ident($1), true), pg_backend_pid() as backend_pid
