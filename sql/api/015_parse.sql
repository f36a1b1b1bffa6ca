-- Raw text to jsonb, refusing what jsonb would lose without a word: duplicate members above all.
create or replace function settle.parse_request(text text, namespace text default 'default')
returns jsonb language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    document json;
    answer jsonb;
    bad record;
    said text;
    place text;
begin
    if parse_request.text is null then
        perform settle_data.invalid('request', 'is null; an empty one is {}');
    elsif octet_length(parse_request.text) > 1048576 then
        perform settle_data.invalid('request', format('is %s bytes long; the limit is 1048576',
            octet_length(parse_request.text)));
    end if;

    begin
        document := parse_request.text::json;
    exception
        when invalid_text_representation then
            get stacked diagnostics said = pg_exception_detail, place = pg_exception_context;
            perform settle_data.invalid('request', 'is no JSON: ' || said || ' '
                || coalesce(substring(place from E'^JSON data, [^\n]*'), ''));
        when statement_too_complex then
            perform settle_data.invalid('request', 'is nested deeper than 32');
    end;

    -- Escapes that jsonb refuses (U+0000, half of a surrogate pair) also stop the walk below, so they come first.
    begin
        answer := document::jsonb;
    exception
        when untranslatable_character or invalid_text_representation then
            get stacked diagnostics said = pg_exception_detail, place = pg_exception_context;
            perform settle_data.invalid('request', 'holds an escape that is no character: ' || said || ' '
                || coalesce(substring(place from E'^JSON data, [^\n]*'), ''));
        when statement_too_complex then
            perform settle_data.invalid('request', 'is nested deeper than 32');
        when numeric_value_out_of_range then
            perform settle_data.invalid('request',
                'holds a number of 1e309 or beyond, or of more than 400 digits');
    end;

    for bad in
        with recursive node (pointer, depth, value) as (
            select '', 1, document
            union all
            select settle_data.pointer_to(node.pointer, child.step), node.depth + 1, child.value
            from node cross join lateral (
                select m.key, m.value
                from json_each(case when json_typeof(node.value) = 'object' then node.value end) as m
                union all
                select (item.n - 1)::pg_catalog.text, item.value
                from json_array_elements(case when json_typeof(node.value) = 'array' then node.value end)
                    with ordinality as item (value, n)
            ) as child (step, value)
            where node.depth <= 32
        )
        select node.pointer,
            case when count(*) > 1 then 'is there more than once'
                 when bool_or(node.depth > 32 and json_typeof(node.value) in ('object', 'array'))
                     then 'is nested deeper than 32'
                 else 'is a number of 1e309 or beyond, or of more than 400 digits' end as why
        from node
        group by node.pointer
        having count(*) > 1
            or bool_or(node.depth > 32 and json_typeof(node.value) in ('object', 'array'))
            or bool_or(json_typeof(node.value) = 'number' and not settle_data.number_fits(node.value::pg_catalog.text))
        limit 1
    loop
        perform settle_data.invalid('request', coalesce('member ' || nullif(bad.pointer, '') || ' ', '') || bad.why);
    end loop;
    return answer;
end $$;
revoke all on function settle.parse_request(text, text) from public;
grant execute on function settle.parse_request(text, text)
    to settle_app, settle_worker, settle_operator, settle_viewer, settle_admin;
