-- The ways out: complete, refuse, fail.

-- Locks the operation's row for its holder. NOT_FOUND where nothing was ever begun under the key: that is misuse, no
-- outcome.
create or replace function settle_data.lock_operation(namespace text, key text)
returns settle_data.operation language plpgsql as $$
declare
    op settle_data.operation;
begin
    select o.* into op from settle_data.operation o
    where o.namespace = lock_operation.namespace and o.key = lock_operation.key for no key update;
    if not found then
        perform settle_data.check_name('key', lock_operation.key, 511);
        raise exception using errcode = 'ST006',
            message = 'NOT_FOUND: no operation ' || lock_operation.key || ' in namespace '
                || coalesce(lock_operation.namespace, 'NULL'),
            detail = jsonb_build_object('code', 'NOT_FOUND', 'namespace', lock_operation.namespace,
                                        'key', lock_operation.key)::text;
    end if;
    return op;
end $$;
revoke all on function settle_data.lock_operation(text, text) from public;

create or replace function settle_data.check_token(token bigint)
returns void language plpgsql as $$
begin
    if check_token.token is null or check_token.token < 1 then
        perform settle_data.invalid('token', 'is no token: the lowest is 1');
    end if;
end $$;
revoke all on function settle_data.check_token(bigint) from public;

-- Whether the execution under this token, the current one, may still report how it ended: it runs, lapsed or not; or its
-- loss was noticed, and nobody has taken over or decided since.
create or replace function settle_data.may_report(op settle_data.operation)
returns boolean language sql immutable as $$
    select (may_report.op).status in ('running', 'unknown')
        or ((may_report.op).status = 'pending' and (may_report.op).outcome = 'lost' and (may_report.op).next_trigger = 'takeover')
$$;
revoke all on function settle_data.may_report(settle_data.operation) from public;

-- Ends an execution with its operation's final answer. Accepted of the current token, lapsed or not, while nobody has
-- taken over, and while the operation is unknown: it reports what happened. A repeat of the same ending, whose first
-- answer was lost, is answered like the first.
create or replace function settle_data.finish(namespace text, key text, token bigint, status text, result_ref text,
    result jsonb, code text, detail jsonb)
returns settle_data.operation language plpgsql as $$
declare
    op settle_data.operation;
    kept jsonb := finish.result;
    now_at timestamptz;
    class_of text := case finish.status when 'failed' then 'refused' end;
    -- what the execution keeps beside the operation's answer: the refusal, with its detail where that is mere text
    code_of text := finish.code;
    said text := case jsonb_typeof(finish.detail) when 'string' then settle_data.kept_text(finish.detail #>> '{}') end;
begin
    op := settle_data.lock_operation(finish.namespace, finish.key);
    if finish.token is null or finish.token < 1 then
        perform settle_data.check_token(finish.token);
    end if;
    if op.token <> finish.token or not (op.status = 'running' or settle_data.may_report(op)) then
        -- the same ending again; anything else is stale
        if op.token = finish.token and op.status = finish.status and op.outcome is null
            and op.result_ref is not distinct from finish.result_ref
            and (op.result is not distinct from finish.result or op.error_code = 'RESULT_TOO_LARGE')
            and op.failure_code is not distinct from finish.code
            and op.failure_detail is not distinct from finish.detail then
            op.outcome := 'again';
        else
            op.outcome := 'stale';
        end if;
        return op;
    end if;
    if octet_length(kept::text) > 1048576 then
        -- The operation has succeeded whatever its answer weighs; it must neither run again nor stay open.
        kept := null;
        code_of := 'RESULT_TOO_LARGE';
        said := format('the result of %s bytes is over the limit of 1048576 and was not stored',
                       octet_length(finish.result::text));
    end if;
    now_at := clock_timestamp();
    if op.token > 1 then
        perform settle_data.end_execution(op, case finish.status when 'failed' then 'refused' else 'succeeded' end, now_at,
                                          class_of, code_of, said);
    end if;
    update settle_data.operation o
    set status = finish.status, result_ref = finish.result_ref, result = kept, failure_code = finish.code,
        failure_detail = finish.detail, finished_at = now_at, lease_until = null, open_since = null, outcome = null,
        ended_at = null, error_class = class_of, error_code = code_of, error_message = said,
        error_detail = null, next_trigger = null, next_attempt_at = null, cancel_requested = null
    where o.namespace = finish.namespace and o.key = finish.key and o.token = finish.token;
    op.outcome := 'done';
    return op;
end $$;
revoke all on function settle_data.finish(text, text, bigint, text, text, jsonb, text, jsonb) from public;

-- Ends an execution with success: final, replayed for ever. A string member `result_ref` of the result becomes the
-- reference where none is given. Outcomes: `completed`, also for the same call again; `stale` (the token is no longer
-- current; `current_token` and `holder` tell whose turn it is), and nothing changed.
create or replace function settle.complete(key text, token bigint, result_ref text default null,
    result jsonb default null, namespace text default 'default')
returns settle.complete_answer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    op settle_data.operation;
    answer settle.complete_answer;
    now_at timestamptz;
begin
    if complete.result_ref is not null then
        perform settle_data.check_name('result_ref', complete.result_ref, 255);
    end if;
    -- The common end: of the first execution, with a result within the limit, by one statement that names its token.
    if complete.token = 1 and coalesce(octet_length(complete.result::text), 0) <= 1048576 then
        now_at := clock_timestamp();
        update settle_data.operation o
        set status = 'succeeded', finished_at = now_at, result = complete.result, lease_until = null, open_since = null,
            result_ref = coalesce(complete.result_ref, settle_data.reference_in(complete.result)), outcome = null,
            ended_at = null, error_class = null, error_code = null, error_message = null, error_detail = null,
            cancel_requested = null
        where o.namespace = complete.namespace and o.key = complete.key and o.token = 1
            and o.status in ('running', 'unknown')
        returning 'completed', 1::bigint, o.owner into answer;
        if found then
            return answer;
        end if;
    end if;
    op := settle_data.finish(complete.namespace, complete.key, complete.token, 'succeeded',
        coalesce(complete.result_ref, settle_data.reference_in(complete.result)), complete.result, null, null);
    answer.outcome := case op.outcome when 'stale' then 'stale' else 'completed' end;
    answer.current_token := op.token;
    answer.holder := op.owner;
    return answer;
end $$;
revoke all on function settle.complete(text, bigint, text, jsonb, text) from public;
grant execute on function settle.complete(text, bigint, text, jsonb, text) to settle_app, settle_worker;

-- The reference that a result brings along, made to fit the rules of references (255 bytes, no control characters): an
-- answer must not fail because of its own spelling.
create or replace function settle_data.reference_in(result jsonb)
returns text language sql immutable as $$
    select case when jsonb_typeof(reference_in.result -> 'result_ref') = 'string' then nullif(btrim(left(
        regexp_replace(reference_in.result ->> 'result_ref', E'[\u0001-\u001F\u007F-\u009F]', ' ', 'g'),
        case when octet_length(left(reference_in.result ->> 'result_ref', 255)) <= 255 then 255 else 63 end)), '') end
$$;
revoke all on function settle_data.reference_in(jsonb) from public;

-- Ends an execution with the business's no: final status `failed`, replayed like a result. Outcomes: `refused`,
-- `stale`. `code` is the caller's own, 1 to 255 bytes.
create or replace function settle.refuse(key text, token bigint, code text, detail jsonb default null,
    namespace text default 'default')
returns settle.refuse_answer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    op settle_data.operation;
    answer settle.refuse_answer;
begin
    perform settle_data.check_name('code', refuse.code, 255);
    if refuse.code = 'UNDONE_FIRST' then
        perform settle_data.invalid('code', 'UNDONE_FIRST is the mark of a compensation that came first');
    end if;
    if octet_length(refuse.detail::text) > 1048576 then
        perform settle_data.invalid('detail', 'is over the limit of 1048576 bytes');
    end if;
    op := settle_data.finish(refuse.namespace, refuse.key, refuse.token, 'failed', null, null, refuse.code, refuse.detail);
    answer.outcome := case op.outcome when 'stale' then 'stale' else 'refused' end;
    answer.current_token := op.token;
    answer.holder := op.owner;
    return answer;
end $$;
revoke all on function settle.refuse(text, bigint, text, jsonb, text) from public;
grant execute on function settle.refuse(text, bigint, text, jsonb, text) to settle_app, settle_worker;

-- Full jitter over min(max_delay, base * 2^n); the exponent is bounded before it is used, so that no count of attempts
-- can overflow. A wait that the remote asked for is kept to: never earlier, at most the larger of max_delay and a day.
create or replace function settle_data.retry_at(declaration jsonb, attempt integer, retry_after interval, at timestamptz)
returns timestamptz language plpgsql as $$
declare
    base interval := settle_data.parse_duration('retry.base_delay',
        coalesce(retry_at.declaration #> '{retry,base_delay}', '"200ms"'));
    cap interval := settle_data.parse_duration('retry.max_delay',
        coalesce(retry_at.declaration #> '{retry,max_delay}', '"30s"'));
    seconds double precision;
    asked interval;
begin
    seconds := least(extract(epoch from cap)::double precision,
                     extract(epoch from base)::double precision * power(2.0, least(greatest(retry_at.attempt - 1, 0), 62)));
    asked := least(greatest(settle_data.seconds_of(retry_at.retry_after), interval '0'), greatest(cap, interval '24 hours'));
    return retry_at.at + greatest(make_interval(secs => random() * seconds), asked);
end $$;
revoke all on function settle_data.retry_at(jsonb, integer, interval, timestamptz) from public;

-- Cuts to 64 KiB at a character, with a mark.
create or replace function settle_data.kept_text(message text)
returns text language sql immutable as $$
    select case when octet_length(kept_text.message) <= 65536 then kept_text.message
        else left(kept_text.message, 16000) || ' [settle: cut, ' || octet_length(kept_text.message)::text || ' bytes in all]' end
$$;
revoke all on function settle_data.kept_text(text) from public;

-- Ends an execution without an answer. Outcomes: `retry` (pending again, due at `next_attempt_at`); `unknown`
-- (`may_have_applied`, or class unknown: it will be looked up, never repeated blindly); `review` (attempts or time
-- spent, or a class that repeating cannot mend: configuration, defect); `cancelled` (a cancel had been asked for);
-- `stale`. Classes: transient, serialization, unknown, configuration, stale, cancelled, defect.
create or replace function settle.fail(key text, token bigint, error_class text, code text, message text,
    may_have_applied boolean default false, retry_after interval default null, namespace text default 'default')
returns settle.fail_answer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    op settle_data.operation;
    kind_revision settle_data.kind_revision;
    answer settle.fail_answer;
    now_at timestamptz;
    unsure boolean := coalesce(fail.may_have_applied, false) or fail.error_class = 'unknown';
    said text := settle_data.kept_text(fail.message);
    spent boolean;
begin
    if fail.error_class is null or fail.error_class not in
        ('transient', 'serialization', 'unknown', 'configuration', 'stale', 'cancelled', 'defect') then
        perform settle_data.invalid('error_class', case fail.error_class when 'refused' then 'refused is an answer: use refuse'
            else 'is none of transient, serialization, unknown, configuration, stale, cancelled, defect' end);
    end if;
    perform settle_data.check_name('code', fail.code, 255);
    if said is null then
        perform settle_data.invalid('message', 'is required');
    elsif extract(epoch from fail.retry_after) not between 0 and 315576000 then
        perform settle_data.invalid('retry_after', 'is outside 0 to 10 years');
    end if;
    perform settle_data.check_token(fail.token);
    op := settle_data.lock_operation(fail.namespace, fail.key);
    answer.current_token := op.token;
    answer.holder := op.owner;
    answer.status := op.status;
    -- An unknown one stays unknown: that it failed is no evidence that nothing was applied.
    if op.token <> fail.token or op.status = 'unknown' or not settle_data.may_report(op) then
        answer.outcome := 'stale';
        return answer;
    end if;
    now_at := clock_timestamp();
    kind_revision := settle_data.kind_at(op.kind, op.revision);
    spent := op.attempt_count >= coalesce((kind_revision.declaration #>> '{retry,max_attempts}')::integer, 5)
        or (op.revision > 0 and now_at > op.created_at + settle_data.parse_duration('retry.deadline',
            coalesce(kind_revision.declaration #> '{retry,deadline}', '"15m"')));
    answer.outcome := case
        when unsure then 'unknown'
        when op.cancel_requested then 'cancelled'
        when fail.error_class in ('configuration', 'defect') then 'review'
        when fail.error_class = 'cancelled' then 'retry'
        when spent then 'review'
        else 'retry' end;
    answer.status := case answer.outcome when 'retry' then 'pending' else answer.outcome end;
    if answer.outcome = 'retry' then
        answer.next_attempt_at := case fail.error_class when 'cancelled' then now_at
            else settle_data.retry_at(kind_revision.declaration, op.attempt_count, fail.retry_after, now_at) end;
    end if;
    op.outcome := case answer.outcome when 'unknown' then 'unknown' when 'cancelled' then 'cancelled' else 'failed' end;
    perform settle_data.end_execution(op, op.outcome, now_at, fail.error_class, fail.code, said);
    update settle_data.operation o
    set status = answer.status, outcome = op.outcome, ended_at = now_at, error_class = fail.error_class,
        error_code = fail.code, error_message = said, error_detail = null, lease_until = null,
        next_attempt_at = answer.next_attempt_at, next_trigger = case answer.outcome when 'retry' then 'retry' end,
        finished_at = case answer.outcome when 'cancelled' then now_at end,
        failure_code = case answer.outcome when 'cancelled' then 'CANCELLED' end,
        review_reason = case when answer.outcome <> 'review' then null
            when fail.error_class in ('configuration', 'defect') then fail.error_class else 'exhausted' end,
        open_since = case answer.outcome when 'cancelled' then null when 'retry' then coalesce(o.open_since, now_at)
            else now_at end
    where o.namespace = fail.namespace and o.key = fail.key and o.token = fail.token;
    return answer;
end $$;
revoke all on function settle.fail(text, bigint, text, text, text, boolean, interval, text) from public;
grant execute on function settle.fail(text, bigint, text, text, text, boolean, interval, text) to settle_app, settle_worker;
