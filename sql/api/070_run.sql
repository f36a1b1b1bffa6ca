-- `run`: begin, the kind's own function, complete, in one call.

-- What marks, for this transaction, a key that `run` has begun and not written yet: a handler that comes back to its own
-- key must find it in progress, and the key's lock does not hold it off, being its own.
create or replace function settle_data.running_mark(namespace text, key text)
returns text language sql immutable as $$
    select '/' || hashtextextended(running_mark.namespace || '/' || running_mark.key, 1)::text || '/'
$$;
revoke all on function settle_data.running_mark(text, text) from public;

-- The first half. At READ COMMITTED a new operation is not written yet: its key's lock is held, and run_end writes the
-- record whole, once. At the stronger levels the waiter behind that lock would see an old snapshot, so there the row is
-- inserted first, as begin_operation does.
create or replace function settle.run_begin(key text, kind text, request jsonb, namespace text)
returns settle.run_state
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    op settle_data.operation;
    state settle.run_state;
    running text;
begin
    select o.* into op from settle_data.operation o
    where o.namespace = run_begin.namespace and o.key = run_begin.key;
    if right(run_begin.key, 5) = '~undo' then
        perform settle_data.check_key(run_begin.key);
    elsif op.finished_at is not null and op.kind = run_begin.kind and op.request = run_begin.request
        and op.digest is null then
        perform settle_data.note_repeat(op, 'replayed', 'call', null, null, null);
        state.answer := settle_data.answer_of(op, 'replayed');
        return state;
    elsif op.key is null then
        perform settle_data.check_name('key', run_begin.key, 255);
    end if;
    select r.handler_sql, r.revision into state.handler, state.revision from settle_data.kind_revision r
    where r.kind = run_begin.kind order by r.revision desc limit 1;
    if state.handler is null then
        perform settle_data.invalid('kind', 'has no sql handler to run: declare it with one, or use begin_operation');
    end if;
    if op.key is not null and settle_data.stands(op) then
        state.answer := settle_data.meet_standing(op, run_begin.kind, run_begin.request, 'call', session_user, null);
        return state;
    end if;
    state.answer := settle_data.enter(run_begin.namespace, run_begin.key, run_begin.kind, run_begin.request, 'call',
        session_user, null, null, null, null, null, current_setting('transaction_isolation') = 'read committed');
    state.started_at := clock_timestamp();
    state.write_once := (state.answer).outcome = 'absent';
    if state.write_once then
        running := set_config('settle.running', coalesce(current_setting('settle.running', true), '')
            || settle_data.running_mark(run_begin.namespace, run_begin.key), true);
    elsif (state.answer).outcome = 'started' then
        -- An operation that was there is handled under the revision it began with.
        select r.handler_sql into state.handler
        from settle_data.operation o join settle_data.kind_revision r on r.kind = o.kind and r.revision = o.revision
        where o.namespace = run_begin.namespace and o.key = run_begin.key;
        if state.handler is null then
            perform settle_data.invalid('kind', 'had no sql handler when operation ' || run_begin.key || ' began: '
                || 'begin it with begin_operation');
        end if;
    end if;
    return state;
end $$;
revoke all on function settle.run_begin(text, text, jsonb, text) from public;
grant execute on function settle.run_begin(text, text, jsonb, text) to settle_app, settle_worker;

-- The second half: `status` is succeeded (with `result`) or failed (with `code` and `detail`).
create or replace function settle.run_end(key text, kind text, request jsonb, namespace text, state settle.run_state,
    status text, result jsonb, code text, detail jsonb)
returns settle.begin_operation_answer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    op settle_data.operation;
    revision settle_data.kind_revision;
    answer settle.begin_operation_answer;
    kept jsonb := run_end.result;
    code_of text := run_end.code;
    said text := case jsonb_typeof(run_end.detail) when 'string' then settle_data.kept_text(run_end.detail #>> '{}') end;
    running text;
    now_at timestamptz := clock_timestamp();
begin
    answer.status := run_end.status;
    answer.outcome := case run_end.status when 'failed' then 'refused' else 'completed' end;
    answer.attempt_count := 1;
    answer.token := 1;
    if pg_column_size(kept) > 4000 and octet_length(kept::text) > 1048576 then
        kept := null;
        code_of := 'RESULT_TOO_LARGE';
        said := format('the result of %s bytes is over the limit of 1048576 and was not stored',
                       octet_length(run_end.result::text));
    end if;
    if not (run_end.state).write_once then
        op := settle_data.finish(run_end.namespace, run_end.key, ((run_end.state).answer).token, run_end.status,
            settle_data.reference_in(run_end.result), run_end.result, run_end.code, run_end.detail);
        if op.outcome = 'stale' then
            raise exception using errcode = 'ST005',
                message = 'STALE_TOKEN: operation ' || run_end.key || ' was ended by another than its handler''s return',
                detail = jsonb_build_object('code', 'STALE_TOKEN', 'namespace', run_end.namespace, 'key', run_end.key,
                    'token', ((run_end.state).answer).token, 'current_token', op.token, 'holder', op.owner)::text;
        end if;
        answer.token := op.token;
        answer.attempt_count := op.attempt_count;
    else
        running := set_config('settle.running', replace(current_setting('settle.running', true),
            settle_data.running_mark(run_end.namespace, run_end.key), ''), true);
        revision := settle_data.kind_at(run_end.kind, (run_end.state).revision);
        insert into settle_data.operation (namespace, key, kind, status, effect, trigger, owner, token, revision,
            attempt_count, counter, request, digest, created_at, started_at, finished_at, result, result_ref,
            failure_code, failure_detail, error_class, error_code, error_message)
        values (run_end.namespace, run_end.key, run_end.kind, run_end.status, revision.effect, 'call', session_user, 1,
            revision.revision, 1, revision.counter, case when revision.secret then null else run_end.request end,
            case when revision.secret or octet_length(run_end.request::text) > 8192
                then settle_data.digest_under(revision, run_end.request) end,
            (run_end.state).started_at, (run_end.state).started_at, now_at, kept,
            settle_data.reference_in(run_end.result), run_end.code, run_end.detail,
            case run_end.status when 'failed' then 'refused' end, code_of, said)
        on conflict on constraint operation_pkey do nothing;
        if not found then
            -- A batch, which takes no key's lock, made the operation meanwhile: the whole transaction runs again.
            raise exception using errcode = '40001', message = 'operation ' || run_end.key
                || ' was created by another transaction meanwhile; repeat the transaction';
        end if;
    end if;
    answer.execution_id := run_end.key || '#' || answer.token;
    answer.result := kept;
    answer.result_ref := settle_data.reference_in(run_end.result);
    answer.failure := case when run_end.code is not null then
        jsonb_build_object('code', run_end.code, 'detail', run_end.detail) end;
    return answer;
end $$;
revoke all on function settle.run_end(text, text, jsonb, text, settle.run_state, text, jsonb, text, jsonb) from public;
grant execute on function settle.run_end(text, text, jsonb, text, settle.run_state, text, jsonb, text, jsonb)
    to settle_app, settle_worker;

-- Runs an operation of a kind with a `sql` handler, in the caller's transaction: as begin_operation, and where it
-- started, the handler f(key text, request jsonb) returns jsonb, with the caller's rights and search_path; what it returns is the result.
-- It says no by raising SQLSTATE ST100 with the code as message and JSON as detail: its own writes are undone and the
-- operation is refused. Any other error of its goes to the caller, and nothing stays. Outcomes: begin_operation's, and
-- `completed`, `refused` instead of `started`.
create or replace function settle.run(key text, kind text, request jsonb default '{}', namespace text default 'default')
returns settle.begin_operation_answer language plpgsql as $$
declare
    state settle.run_state;
    handler_of regproc;
    answer jsonb;
    said text;
    detail text;
begin
    state := settle.run_begin(run.key, run.kind, run.request, run.namespace);
    if (state.answer).outcome not in ('absent', 'started') then
        return state.answer;
    end if;
    handler_of := pg_catalog.to_regprocedure(state.handler || '(text,jsonb)')::regproc;
    if handler_of is null then
        raise exception using errcode = 'ST007', message = 'INVALID_ARGUMENT: handler ' || state.handler
            || '(text, jsonb) of kind ' || run.kind || ' does not exist or is not visible to the caller',
            detail = '{"code": "INVALID_ARGUMENT", "field": "handler"}';
    end if;
    begin
        -- the user's own handler
        execute 'select ' || handler_of || '($1, $2)' into answer using run.key, run.request;
    exception when sqlstate 'ST100' then
        get stacked diagnostics said = message_text, detail = pg_exception_detail;
        return settle.run_end(run.key, run.kind, run.request, run.namespace, state, 'failed', null,
            settle.refusal_code(said), settle.refusal_detail(detail));
    end;
    return settle.run_end(run.key, run.kind, run.request, run.namespace, state, 'succeeded', answer, null, null);
end $$;
revoke all on function settle.run(text, text, jsonb, text) from public;
grant execute on function settle.run(text, text, jsonb, text) to settle_app, settle_worker;

-- The code of a refusal that a handler raised, made fit to store: a refusal must not fail because of its own spelling.
create or replace function settle.refusal_code(said text)
returns text language sql immutable as $$
    select coalesce(nullif(nullif(btrim(left(regexp_replace(refusal_code.said,
        '[\u0001-\u001F\u007F-\u009F]', ' ', 'g'), 60)), ''), 'UNDONE_FIRST'), 'REFUSED')
$$;
revoke all on function settle.refusal_code(text) from public;
grant execute on function settle.refusal_code(text) to settle_app, settle_worker;

-- The detail of a refusal: JSON as it is, anything else as a JSON string.
create or replace function settle.refusal_detail(detail text)
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
revoke all on function settle.refusal_detail(text) from public;
grant execute on function settle.refusal_detail(text) to settle_app, settle_worker;
