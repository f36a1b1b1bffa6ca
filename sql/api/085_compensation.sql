-- Undoing: an operation of its own, `<key>~undo`, at most one for each, only of a confirmed success.

create or replace function settle_data.check_operator(operator text, reason text)
returns void language plpgsql as $$
begin
    perform settle_data.check_name('operator', check_operator.operator, 255);
    if coalesce(btrim(check_operator.reason), '') = '' then
        perform settle_data.invalid('reason', 'is required');
    elsif octet_length(check_operator.reason) > 65536 then
        perform settle_data.invalid('reason', 'is over the limit of 65536 bytes');
    end if;
end $$;
revoke all on function settle_data.check_operator(text, text) from public;

-- Writes down what an operator did; the caller holds the operation's row, so that numbers follow one another.
create or replace function settle_data.record_decision(op settle_data.operation, act text, operator text, reason text,
    to_status text, detail jsonb default null)
returns void language plpgsql as $$
begin
    insert into settle_data.decision (namespace, key, number, act, operator, reason, from_status, to_status, detail,
                                      decided_at, db_user)
    values ((record_decision.op).namespace, (record_decision.op).key,
        (select coalesce(max(d.number), 0) + 1 from settle_data.decision d
         where d.namespace = (record_decision.op).namespace and d.key = (record_decision.op).key),
        record_decision.act, record_decision.operator, record_decision.reason, (record_decision.op).status,
        record_decision.to_status, record_decision.detail, clock_timestamp(), session_user);
end $$;
revoke all on function settle_data.record_decision(settle_data.operation, text, text, text, text, jsonb) from public;

-- The request of a compensation: what was asked, and what came of it. Where both together are over the limit, or so deep
-- that no digest could be taken, the reference alone is left: an effect must not become impossible to undo by the size
-- or the shape of its answer. (Hence, too, it may be deeper than a caller's own request.)
create or replace function settle_data.compensation_request(op settle_data.operation)
returns jsonb language plpgsql immutable as $$
declare
    whole jsonb := jsonb_build_object('key', (compensation_request.op).key, 'request', (compensation_request.op).request,
        'result', (compensation_request.op).result, 'result_ref', (compensation_request.op).result_ref);
begin
    if octet_length(whole::text) <= 1048576
        and not jsonb_path_exists(whole, 'strict $.**{100} ? (@.type() == "object" || @.type() == "array")') then
        return whole;
    end if;
    return whole || '{"request": null, "result": null}';
end $$;
revoke all on function settle_data.compensation_request(settle_data.operation) from public;

-- Begins the undoing of operation `key`, to be done by the caller, as operation `<key>~undo`; ended with complete,
-- refuse or fail under that key. With `lease` as in begin_operation.
--
-- Outcomes: begin_operation's for the compensation (`started`, `replayed`, `in_progress`, `frozen`, `unknown`), and of
-- the original: `unknown` (its own outcome is not known yet: nothing is undone on a guess), `not_applied` (never seen:
-- from now on it never runs, being recorded as cancelled with failure code UNDONE_FIRST), `not_compensable` (seen, and
-- neither succeeded nor unknown; or a compensation itself).
create or replace function settle.begin_compensation(key text, operator text, reason text,
    namespace text default 'default', lease interval default null, owner text default null, trigger text default 'call')
returns settle.begin_operation_answer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    op settle_data.operation;
    undo settle_data.operation;
    answer settle.begin_operation_answer;
    lock_id bigint := hashtextextended(begin_compensation.namespace || chr(31) || begin_compensation.key, 1);
    now_at timestamptz;
begin
    perform settle_data.check_operator(begin_compensation.operator, begin_compensation.reason);
    perform settle_data.check_begin(begin_compensation.key, 'undo', begin_compensation.namespace,
        begin_compensation.trigger, begin_compensation.owner, begin_compensation.lease, null);
    if not pg_try_advisory_xact_lock(lock_id) and not settle_data.wait_for_key(lock_id) then
        answer.outcome := 'in_progress';
        answer.status := 'running';
        return answer;
    end if;
    loop
        select o.* into op from settle_data.operation o
        where o.namespace = begin_compensation.namespace and o.key = begin_compensation.key;
        exit when found;
        perform settle_data.check_key(begin_compensation.key);
        if current_setting('settle.running', true) like '%/' || lock_id || '/%' then
            -- the handler of `run` asks for the undoing of its own operation, which is not done yet
            answer.outcome := 'in_progress';
            answer.status := 'running';
            return answer;
        end if;
        now_at := clock_timestamp();
        insert into settle_data.operation (namespace, key, status, token, revision, attempt_count, counter, created_at,
            finished_at, failure_code, operator, reason)
        values (begin_compensation.namespace, begin_compensation.key, 'cancelled', 0, 0, 0, 0, now_at, now_at,
            'UNDONE_FIRST', begin_compensation.operator, begin_compensation.reason)
        on conflict on constraint operation_pkey do nothing;
    end loop;

    now_at := clock_timestamp();
    if op.status = 'running' and op.lease_until <= now_at then
        if not settle_data.wait_for_row(op.namespace, op.key) then
            return settle_data.answer_of(op, 'in_progress');
        end if;
        op := settle_data.lock_operation(op.namespace, op.key);
        now_at := clock_timestamp();
        if op.status = 'running' and op.lease_until <= now_at then
            op := settle_data.settle_loss(op, now_at);
        end if;
    end if;
    if op.failure_code = 'UNDONE_FIRST' then
        answer := settle_data.answer_of(op, 'not_applied');
    elsif op.status = 'unknown' then
        answer := settle_data.answer_of(op, 'unknown');
    elsif op.status <> 'succeeded' or op.compensates is not null then
        answer := settle_data.answer_of(op, 'not_compensable');
    else
        -- A compensation that is there already keeps the kind and request it began with.
        select o.* into undo from settle_data.operation o where o.namespace = op.namespace and o.key = op.key || '~undo';
        answer := settle_data.enter(op.namespace, op.key || '~undo',
            coalesce(undo.kind, (settle_data.kind_at(op.kind, op.revision)).declaration #>> '{compensation,kind}', 'undo'),
            coalesce(undo.request, settle_data.compensation_request(op)), begin_compensation.trigger,
            coalesce(begin_compensation.owner, session_user), begin_compensation.lease, null, op.key,
            begin_compensation.operator, begin_compensation.reason);
    end if;
    return answer;
end $$;
revoke all on function settle.begin_compensation(text, text, text, text, interval, text, text) from public;
grant execute on function settle.begin_compensation(text, text, text, text, interval, text, text) to settle_app, settle_worker;
