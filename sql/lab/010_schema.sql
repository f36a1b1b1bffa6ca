-- The laboratory's schema stands in this transaction's setting settle.lab_schema, for a name can be no parameter of a
-- script. All that follows is made in it.
do $$
declare
    schema text := current_setting('settle.lab_schema');
begin
    if not exists (select from pg_namespace where nspname = schema) then
        execute format('create schema %I', schema);
    end if;
    perform set_config('search_path', quote_ident(schema), true);
end $$;
