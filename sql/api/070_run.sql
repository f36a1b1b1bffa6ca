-- `run`: begin, the kind's own function, complete, in one call.
--
-- It is security invoker without a SET clause, with every name qualified: the handler runs with its caller's rights and
-- search_path. At READ COMMITTED a new operation is not written before it is done: its key's lock is held, the handler
-- runs, and the record is written whole, once (measured against inserting first and updating: a third of the WAL). At
-- the stronger levels the waiter behind that lock would look with an old snapshot, so there the row comes first, as in
-- begin_operation.

-- What run looks at with its caller's rights before it starts: the kind in force, and the operation under the key.
create or replace view settle.sql_handlers as
select r.kind, r.revision, r.handler_sql as handler, r.secret
from settle_data.kind_revision r where r.in_force;
revoke all on settle.sql_handlers from public;
grant select on settle.sql_handlers to settle_viewer;

-- Writes the record of an operation that ran in this transaction under its key's lock: with `code` (and `detail`) it
-- was refused, else it succeeded with `result`. Run's own end; who calls it by himself says no more than who begins an
-- operation and completes it: all that is not his to say is taken from the kind's revision.
create or replace function settle.run_record(key text, kind text, request jsonb, namespace text, started_at timestamptz,
    revision integer, running text, result jsonb, code text, detail text)
returns settle.begin_operation_answer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    answer settle.begin_operation_answer;
    whole settle_data.kind_revision;
    refusal jsonb;
    refused text;
    code_of text;
    said text;
begin
    -- The key's mark is taken back: from here on the row itself tells.
    if set_config('settle.running', run_record.running, true) is null
        or settle_data.is_plain_run(run_record.key, run_record.namespace, run_record.request, run_record.result) is not true then
        perform settle_data.check_key(run_record.key);
        perform settle_data.check_name('namespace', run_record.namespace, 63);
        perform settle_data.check_request('request', run_record.request);
        -- as it began: the kind may have been declared anew while the handler ran
        whole := settle_data.kind_at(run_record.kind, run_record.revision);
        if octet_length(run_record.result::text) > 1048576 then
            code_of := 'RESULT_TOO_LARGE';
            said := format('the result of %s bytes is over the limit of 1048576 and was not stored',
                           octet_length(run_record.result::text));
        end if;
    end if;
    if run_record.code is not null then
        refused := settle_data.refusal_code(run_record.code);
        refusal := settle_data.refusal_detail(run_record.detail);
        code_of := refused;
        said := case when jsonb_typeof(refusal) = 'string' then settle_data.kept_text(refusal #>> '{}') end;
    end if;
    insert into settle_data.operation (namespace, key, kind, status, effect, trigger, owner, token, revision,
        attempt_count, counter, request, digest, created_at, started_at, finished_at, result, result_ref,
        failure_code, failure_detail, error_class, error_code, error_message)
    select run_record.namespace, run_record.key, r.kind,
        case when refused is null then 'succeeded' else 'failed' end, r.effect, 'call',
        session_user, 1, r.revision, 1, r.counter, run_record.request,
        case when pg_column_size(run_record.request) > 4000 and octet_length(run_record.request::text) > 8192
            then settle_data.digest_under(whole, run_record.request) end,
        least(greatest(run_record.started_at, transaction_timestamp()), clock_timestamp()),
        least(greatest(run_record.started_at, transaction_timestamp()), clock_timestamp()), clock_timestamp(),
        case when refused is null and code_of is null then run_record.result end,
        case when refused is null then settle_data.reference_in(run_record.result) end, refused, refusal,
        case when refused is not null then 'refused' end, code_of, said
    from settle_data.kind_revision r
    where r.kind = run_record.kind and r.revision = run_record.revision and not r.secret and r.handler_sql is not null
    returning case when refused is null then 'completed' else 'refused' end, 1::bigint, run_record.key || '#1',
        operation.status, operation.result_ref, operation.result, case when refused is not null
            then jsonb_build_object('code', refused, 'detail', operation.failure_detail) end,
        null::timestamptz, null::timestamptz, null::text, 1
    into answer;
    if not found then
        perform settle_data.invalid('kind', 'has no such revision that is run by an sql handler');
    end if;
    return answer;
end $$;
revoke all on function settle.run_record(text, text, jsonb, text, timestamptz, integer, text, jsonb, text, text) from public;
grant execute on function settle.run_record(text, text, jsonb, text, timestamptz, integer, text, jsonb, text, text)
    to settle_app, settle_worker;

-- The checks that run_record needs no second look at: key and namespace by the rules, the request's text at most 308
-- characters, the result within its limit (by its text: 1e130000 is few bytes as it is stored).
create or replace function settle_data.is_plain_run(key text, namespace text, request jsonb, result jsonb)
returns boolean language sql stable as $$
    select octet_length(is_plain_run.key) <= 255
        and is_plain_run.key ~ E'^[^\u0001- \u007F-\u009F]([^\u0001-\u001F\u007F-\u009F]*[^\u0001- \u007F-\u009F])?$'
        and right(is_plain_run.key, 5) <> '~undo'
        and (is_plain_run.namespace = 'default' or settle_data.is_name(is_plain_run.namespace, 63))
        and coalesce(octet_length(is_plain_run.result::text), 0) <= 1048576
        and settle_data.is_plain_request(is_plain_run.request)
$$;
revoke all on function settle_data.is_plain_run(text, text, jsonb, jsonb) from public;

-- True, or INVALID_ARGUMENT: the limits of a request, for run, which looks before its handler does anything.
create or replace function settle.is_sound_request(request jsonb)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    return settle_data.is_plain_request(is_sound_request.request)
        or settle_data.check_request('request', is_sound_request.request);
end $$;
revoke all on function settle.is_sound_request(jsonb) from public;
grant execute on function settle.is_sound_request(jsonb) to settle_app, settle_worker;

-- Runs an operation of a kind with a `sql` handler, in the caller's transaction: as begin_operation, and where it
-- started, the handler f(key text, request jsonb) returns jsonb; what it returns is the result. It says no by raising
-- SQLSTATE ST100 with the code as message and JSON as detail: its own writes are undone and the operation is refused.
-- Any other error of its goes to the caller, and nothing stays. Outcomes: begin_operation's, and `completed` or
-- `refused` instead of `started`.
create or replace function settle.run(key text, kind text, request jsonb default '{}', namespace text default 'default')
returns settle.begin_operation_answer language plpgsql as $$
declare
    answer settle.begin_operation_answer;
    handler text;
    revision integer;
    started_at timestamptz;
    running text;
    mark text;
    said text;
    detail text;
begin
    -- One look under the key's lock tells whether this is new, and what is to be called. Where the lock is not free at
    -- once, the key is known, or the snapshot is older than the lock, begin_operation knows what to do.
    mark := pg_catalog.hashtextextended(run.namespace || pg_catalog.chr(31) || run.key, 1);
    if pg_catalog.pg_try_advisory_xact_lock(mark::bigint) then
        select h.revision, h.handler, pg_catalog.clock_timestamp(), h.running,
            pg_catalog.set_config('settle.running', h.running || '/' || mark || '/', true)
        into revision, handler, started_at, running, mark
        from (select h.*, coalesce(pg_catalog.current_setting('settle.running', true), '') as running
              from settle.sql_handlers h where h.kind = run.kind) as h
        where h.handler is not null and not h.secret and run.request is not null
            -- What needs a second look is for begin_operation to refuse, before the handler has run.
            and pg_catalog.octet_length(run.key) <= 255 and pg_catalog.right(run.key, 5) <> '~undo'
            and run.key ~ E'^[^\u0001- \u007F-\u009F]([^\u0001-\u001F\u007F-\u009F]*[^\u0001- \u007F-\u009F])?$'
            and (run.namespace = 'default' or pg_catalog.octet_length(run.namespace) <= 63 and run.namespace
                ~ E'^[^\u0001- \u007F-\u009F]([^\u0001-\u001F\u007F-\u009F]*[^\u0001- \u007F-\u009F])?$')
            and pg_catalog.current_setting('transaction_isolation') = 'read committed'
            and (pg_catalog.octet_length(run.request::text) <= 65 or settle.is_sound_request(run.request))
            and h.running not like '%/' || mark || '/%'
            and not exists (select from settle.keys k where k.namespace = run.namespace and k.key = run.key);
    end if;
    if handler is null then
        answer := settle.begin_operation(run.key, run.kind, run.request, run.namespace);
        if answer.outcome <> 'started' then
            return answer;
        end if;
        handler := settle.handler_of(run.namespace, run.key, run.kind);
    end if;
    begin
        -- the user's own handler: its name was checked to be one when the kind was declared
        execute 'select ' || handler || '($1, $2)' into answer.result using run.key, run.request;
        if answer.token is null then
            return settle.run_record(run.key, run.kind, run.request, run.namespace, started_at, revision,
                                     running, answer.result, null, null);
        end if;
    exception
        when sqlstate 'ST100' then
            get stacked diagnostics said = message_text, detail = pg_exception_detail;
        when unique_violation then
            -- A batch, which takes no key's lock, made the operation meanwhile: the whole transaction runs again.
            get stacked diagnostics said = constraint_name, detail = schema_name;
            if said <> 'operation_pkey' or detail <> 'settle_data' then
                raise;
            end if;
            raise exception using errcode = '40001', message = 'operation ' || run.key
                || ' was created by another transaction meanwhile; repeat the transaction';
        when undefined_function or invalid_schema_name then
            perform settle.check_handler(handler, run.kind);
            raise;
    end;
    if answer.token is null then
        return settle.run_record(run.key, run.kind, run.request, run.namespace, started_at, revision,
                                 running, null, said, detail);
    end if;
    return settle.run_finish(run.key, answer, said, detail, run.namespace);
end $$;
revoke all on function settle.run(text, text, jsonb, text) from public;
grant execute on function settle.run(text, text, jsonb, text) to settle_app, settle_worker;

-- The handler under which an operation that is there began; INVALID_ARGUMENT where its kind had none. Not for callers.
create or replace function settle.handler_of(namespace text, key text, kind text)
returns text language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    handler text := (select r.handler_sql from settle_data.operation o
                     join settle_data.kind_revision r on r.kind = o.kind and r.revision = o.revision
                     where o.namespace = handler_of.namespace and o.key = handler_of.key);
begin
    if handler is null then
        perform settle_data.invalid('kind', 'has no sql handler to run: declare ' || handler_of.kind
            || ' with one before the operation begins, or use begin_operation');
    end if;
    return handler;
end $$;
revoke all on function settle.handler_of(text, text, text) from public;
grant execute on function settle.handler_of(text, text, text) to settle_app, settle_worker;

-- INVALID_ARGUMENT where it is the handler itself that is missing, and not something that it calls.
create or replace function settle.check_handler(handler text, kind text)
returns void language plpgsql as $$
begin
    if pg_catalog.to_regprocedure(check_handler.handler || '(text,jsonb)') is null then
        raise exception using errcode = 'ST007', message = 'INVALID_ARGUMENT: handler ' || check_handler.handler
            || '(text, jsonb) of kind ' || check_handler.kind || ' does not exist or is not visible to the caller',
            detail = '{"code": "INVALID_ARGUMENT", "field": "handler"}';
    end if;
end $$;
revoke all on function settle.check_handler(text, text) from public;
grant execute on function settle.check_handler(text, text) to settle_app, settle_worker;

-- Ends what begin_operation started for run. Not for callers.
create or replace function settle.run_finish(key text, begun settle.begin_operation_answer, code text, detail text,
                                             namespace text)
returns settle.begin_operation_answer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    answer settle.begin_operation_answer := run_finish.begun;
    op settle_data.operation;
    refused text := case when run_finish.code is not null then settle_data.refusal_code(run_finish.code) end;
    refusal jsonb := settle_data.refusal_detail(run_finish.detail);
begin
    answer.lease_until := null;
    answer.status := case when run_finish.code is null then 'succeeded' else 'failed' end;
    answer.outcome := case when run_finish.code is null then 'completed' else 'refused' end;
    answer.result_ref := settle_data.reference_in(answer.result);
    op := settle_data.finish(run_finish.namespace, run_finish.key, answer.token, answer.status, answer.result_ref,
                             answer.result, refused, refusal);
    if op.outcome = 'stale' then
        raise exception using errcode = 'ST005',
            message = 'STALE_TOKEN: operation ' || run_finish.key || ' was ended by another than its handler''s return',
            detail = jsonb_build_object('code', 'STALE_TOKEN', 'namespace', run_finish.namespace, 'key', run_finish.key,
                'token', answer.token, 'current_token', op.token, 'holder', op.owner)::text;
    end if;
    if run_finish.code is not null then
        answer.failure := jsonb_build_object('code', refused, 'detail', refusal);
    elsif octet_length(answer.result::text) > 1048576 then
        answer.result := null;
    end if;
    return answer;
end $$;
revoke all on function settle.run_finish(text, settle.begin_operation_answer, text, text, text) from public;
grant execute on function settle.run_finish(text, settle.begin_operation_answer, text, text, text)
    to settle_app, settle_worker;

-- The code of a refusal that a handler raised, made fit to store: a refusal must not fail because of its own spelling.
create or replace function settle_data.refusal_code(said text)
returns text language sql immutable as $$
    select coalesce(nullif(nullif(btrim(left(regexp_replace(refusal_code.said,
        E'[\u0001-\u001F\u007F-\u009F]', ' ', 'g'), 60)), ''), 'UNDONE_FIRST'), 'REFUSED')
$$;
revoke all on function settle_data.refusal_code(text) from public;

-- The detail of a refusal: JSON as it is, anything else as a JSON string.
create or replace function settle_data.refusal_detail(detail text)
returns jsonb language plpgsql immutable as $$
begin
    if coalesce(refusal_detail.detail, '') = '' then
        return null;
    end if;
    if octet_length(refusal_detail.detail) <= 1048576 then
        return refusal_detail.detail::jsonb;
    end if;
    return to_jsonb(left(refusal_detail.detail, 16000));
exception when others then
    return to_jsonb(left(refusal_detail.detail, 16000));
end $$;
revoke all on function settle_data.refusal_detail(text) from public;
