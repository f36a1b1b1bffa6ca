-- What a person decides: running again, and settling what no machine can.

-- Puts an operation whose row is locked back in the queue, due now. What its last execution ended with stays with that
-- execution.
create or replace function settle_data.reopen(op settle_data.operation, request jsonb)
returns void language plpgsql as $$
begin
    -- One that a decision made failed did not end so itself: its own outcome is there already.
    if (reopen.op).status = 'failed' and (reopen.op).outcome is null then
        if (reopen.op).token > 1 then
            update settle_data.execution e
            set error_code = (reopen.op).failure_code, error_detail = (reopen.op).failure_detail
            where e.namespace = (reopen.op).namespace and e.key = (reopen.op).key and e.number = (reopen.op).token;
        end if;
        update settle_data.operation o
        set outcome = 'refused', ended_at = o.finished_at, error_code = o.failure_code, error_detail = o.failure_detail
        where o.namespace = (reopen.op).namespace and o.key = (reopen.op).key and o.token = (reopen.op).token;
    end if;
    update settle_data.operation o
    set status = 'pending', finished_at = null, failure_code = null, failure_detail = null, review_reason = null,
        next_attempt_at = clock_timestamp(), next_trigger = 'manual', lease_until = null,
        open_since = coalesce(o.open_since, clock_timestamp()), request = coalesce(reopen.request, o.request)
    where o.namespace = (reopen.op).namespace and o.key = (reopen.op).key and o.token = (reopen.op).token;
end $$;
revoke all on function settle_data.reopen(settle_data.operation, jsonb) from public;

-- A revised request must be the same operation: a change to an identity field is refused, naming its pointer.
create or replace function settle_data.check_revision(op settle_data.operation, request jsonb)
returns void language plpgsql as $$
declare
    difference jsonb;
begin
    if check_revision.request is null then
        return;
    elsif (check_revision.op).request is null then
        perform settle_data.invalid('request', 'cannot be revised: the kind is secret and its request is not stored');
    end if;
    if settle_data.check_request('request', check_revision.request)
        and not settle_data.same_request(check_revision.op, (check_revision.op).kind, check_revision.request) then
        difference := settle_data.conflict_detail(check_revision.op, (check_revision.op).kind, check_revision.request);
        perform settle_data.invalid('request', 'changes the identity at ' || (difference #>> '{detail,pointers}')
            || ': that is a new operation, under a key of its own');
    end if;
end $$;
revoke all on function settle_data.check_revision(settle_data.operation, jsonb) from public;

-- Locks an operation for an operator, with a lapsed lease settled first, so that he decides on what is so now.
create or replace function settle_data.lock_for_operator(namespace text, key text, operator text, reason text)
returns settle_data.operation language plpgsql as $$
declare
    op settle_data.operation;
    now_at timestamptz;
begin
    perform settle_data.check_operator(lock_for_operator.operator, lock_for_operator.reason);
    op := settle_data.lock_operation(lock_for_operator.namespace, lock_for_operator.key);
    now_at := clock_timestamp();
    if op.status = 'running' and op.lease_until <= now_at then
        op := settle_data.settle_loss(op, now_at);
    end if;
    return op;
end $$;
revoke all on function settle_data.lock_for_operator(text, text, text, text) from public;

-- What a decision changes in the request, before and after.
create or replace function settle_data.revision_detail(op settle_data.operation, request jsonb)
returns jsonb language plpgsql as $$
begin
    if revision_detail.request is null then
        return null;
    end if;
    return jsonb_build_object('revised_from', (revision_detail.op).request, 'revised_to', revision_detail.request);
end $$;
revoke all on function settle_data.revision_detail(settle_data.operation, jsonb) from public;

-- Whether a second person has to agree before this decision counts, having recorded the first one's approval.
create or replace function settle_data.needs_approval(op settle_data.operation, decision text, operator text, reason text,
                                                      detail jsonb)
returns boolean language plpgsql as $$
begin
    if coalesce(((settle_data.kind_at((needs_approval.op).kind, (needs_approval.op).revision)).declaration
                 #>> '{review,approvals}')::integer, 1) < 2 then
        return false;
    elsif exists (select from settle_data.decision d
                  where d.namespace = (needs_approval.op).namespace and d.key = (needs_approval.op).key
                      and d.act = 'approve ' || needs_approval.decision and d.operator <> needs_approval.operator
                      and d.decided_at >= (needs_approval.op).open_since
                      and d.detail is not distinct from needs_approval.detail) then
        return false;
    end if;
    -- The same approval by the same person again is no second one.
    if not exists (select from settle_data.decision d
                   where d.namespace = (needs_approval.op).namespace and d.key = (needs_approval.op).key
                       and d.act = 'approve ' || needs_approval.decision and d.operator = needs_approval.operator
                       and d.decided_at >= (needs_approval.op).open_since
                       and d.detail is not distinct from needs_approval.detail) then
        perform settle_data.record_decision(needs_approval.op, 'approve ' || needs_approval.decision, needs_approval.operator,
        needs_approval.reason, (needs_approval.op).status, needs_approval.detail);
    end if;
    return true;
end $$;
revoke all on function settle_data.needs_approval(settle_data.operation, text, text, text, jsonb) from public;

-- Has an operation in review, or a failed one whose kind says `review.rerun_failed`, run again under its key, due now.
-- Outcomes: `done` (status pending), `approved` (in review, and the kind asks for two people: this was the first),
-- `refused` with the reason. A success is never run again: the wish is recorded as a replay. `request` is the whole
-- revised request; its identity fields must be the stored ones.
create or replace function settle.rerun(key text, operator text, reason text, request jsonb default null,
    namespace text default 'default')
returns settle.operator_answer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    op settle_data.operation;
    answer settle.operator_answer;
    detail jsonb;
begin
    op := settle_data.lock_for_operator(rerun.namespace, rerun.key, rerun.operator, rerun.reason);
    answer.status := op.status;
    if op.status = 'review' or (op.status = 'failed'
        and (settle_data.kind_at(op.kind, op.revision)).declaration #>> '{review,rerun_failed}' = 'true') then
        perform settle_data.check_revision(op, rerun.request);
        detail := settle_data.revision_detail(op, rerun.request);
        if op.status = 'review' and settle_data.needs_approval(op, 'rerun', rerun.operator, rerun.reason, detail) then
            answer.outcome := 'approved';
            return answer;
        end if;
        perform settle_data.record_decision(op, 'rerun', rerun.operator, rerun.reason, 'pending', detail);
        perform settle_data.reopen(op, rerun.request);
        answer.outcome := 'done';
        answer.status := 'pending';
        return answer;
    end if;
    if op.status in ('succeeded', 'failed', 'cancelled') then
        perform settle_data.note_repeat(op, 'replayed', 'manual', rerun.operator, rerun.operator, rerun.reason);
    end if;
    answer.outcome := 'refused';
    answer.reason := case op.status
        when 'succeeded' then 'it has succeeded, and a success is never run again; the replay is recorded'
        when 'failed' then 'it was refused, and its kind does not say review.rerun_failed'
        when 'cancelled' then 'it is cancelled'
        when 'running' then 'it is running under ' || coalesce(op.owner, 'its holder')
        when 'unknown' then 'its outcome is unknown: settle it with review decide'
        else 'it waits for its next attempt' end;
    return answer;
end $$;
revoke all on function settle.rerun(text, text, text, jsonb, text) from public;
grant execute on function settle.rerun(text, text, text, jsonb, text) to settle_operator;

-- As begin_operation with trigger `manual`, and has a failed or reviewed operation run again under its key, at once and
-- by the caller; a success is replayed, an unknown one stays unknown until someone decides, and one in review whose kind
-- asks for two people stays `frozen` until the second.
create or replace function settle.begin_rerun(key text, kind text, request jsonb, operator text, reason text,
    namespace text default 'default', owner text default null, lease interval default null, effect text default null)
returns settle.begin_operation_answer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    op settle_data.operation;
    lock_id bigint := hashtextextended(begin_rerun.namespace || chr(31) || begin_rerun.key, 1);
begin
    perform settle_data.check_operator(begin_rerun.operator, begin_rerun.reason);
    perform settle_data.check_key(begin_rerun.key);
    if (pg_try_advisory_xact_lock(lock_id) or settle_data.wait_for_key(lock_id))
        and settle_data.wait_for_row(begin_rerun.namespace, begin_rerun.key) then
        select o.* into op from settle_data.operation o
        where o.namespace = begin_rerun.namespace and o.key = begin_rerun.key;
        if op.status in ('failed', 'review') and settle_data.same_request(op, begin_rerun.kind, begin_rerun.request)
            and not (op.status = 'review'
                     and settle_data.needs_approval(op, 'rerun', begin_rerun.operator, begin_rerun.reason, null)) then
            perform settle_data.record_decision(op, 'rerun', begin_rerun.operator, begin_rerun.reason, 'pending');
            perform settle_data.reopen(op, null);
        end if;
    end if;
    return settle_data.enter(begin_rerun.namespace, begin_rerun.key, begin_rerun.kind, begin_rerun.request, 'manual',
        coalesce(begin_rerun.owner, session_user), begin_rerun.lease, begin_rerun.effect, null,
        begin_rerun.operator, begin_rerun.reason);
end $$;
revoke all on function settle.begin_rerun(text, text, jsonb, text, text, text, text, interval, text) from public;
grant execute on function settle.begin_rerun(text, text, jsonb, text, text, text, text, interval, text) to settle_operator;

-- Settles an operation in review or unknown, for good: `rerun` (again under its key), `succeeded` (it was applied;
-- `result_ref` says where), `failed`, `cancelled` (it was not applied, and shall not be), `compensate` (it was applied,
-- and is to be undone by the kind's compensation). Outcomes: `done`; `approved` (the kind asks for two people: this was
-- the first); `already_decided` (final: who came too late); `refused` with the reason.
create or replace function settle.decide(key text, decision text, operator text, reason text,
    result_ref text default null, request jsonb default null, namespace text default 'default')
returns settle.operator_answer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    op settle_data.operation;
    answer settle.operator_answer;
    detail jsonb;
    undo_kind text;
    now_at timestamptz;
begin
    if decide.decision is null or decide.decision not in ('rerun', 'succeeded', 'failed', 'cancelled', 'compensate') then
        perform settle_data.invalid('decision', 'is none of rerun, succeeded, failed, cancelled, compensate');
    end if;
    if decide.result_ref is not null then
        perform settle_data.check_name('result_ref', decide.result_ref, 255);
    end if;
    if decide.request is not null and decide.decision <> 'rerun' then
        perform settle_data.invalid('request', 'is revised only by the decision rerun');
    end if;
    op := settle_data.lock_for_operator(decide.namespace, decide.key, decide.operator, decide.reason);
    answer.status := op.status;
    if op.status not in ('review', 'unknown') then
        answer.outcome := case when op.finished_at is not null
            or exists (select from settle_data.decision d where d.namespace = op.namespace and d.key = op.key)
            then 'already_decided' else 'refused' end;
        answer.reason := 'it is ' || op.status || ': only an operation in review or unknown can be decided';
        return answer;
    end if;
    perform settle_data.check_revision(op, decide.request);
    undo_kind := (settle_data.kind_at(op.kind, op.revision)).declaration #>> '{compensation,kind}';
    if decide.decision = 'compensate' and (undo_kind is null or op.compensates is not null) then
        answer.outcome := 'refused';
        answer.reason := 'its kind declares no compensation: decide succeeded, then use begin_compensation';
        return answer;
    end if;
    detail := coalesce(settle_data.revision_detail(op, decide.request),
        case when decide.result_ref is not null then jsonb_build_object('result_ref', decide.result_ref) end);
    if settle_data.needs_approval(op, decide.decision, decide.operator, decide.reason, detail) then
        answer.outcome := 'approved';
        return answer;
    end if;

    answer.outcome := 'done';
    answer.status := case decide.decision when 'rerun' then 'pending' when 'compensate' then 'succeeded'
                                          else decide.decision end;
    perform settle_data.record_decision(op, decide.decision, decide.operator, decide.reason, answer.status, detail);
    now_at := clock_timestamp();
    if decide.decision = 'rerun' then
        perform settle_data.reopen(op, decide.request);
        return answer;
    end if;
    update settle_data.operation o
    set status = answer.status, finished_at = now_at, open_since = null, next_attempt_at = null,
        result_ref = coalesce(decide.result_ref, o.result_ref), review_reason = null,
        failure_code = case answer.status when 'failed' then 'DECIDED' when 'cancelled' then 'CANCELLED' end,
        failure_detail = case when answer.status in ('failed', 'cancelled')
            then jsonb_build_object('operator', decide.operator, 'reason', decide.reason) end
    where o.namespace = op.namespace and o.key = op.key and o.token = op.token;
    if decide.decision = 'compensate' then
        op.result_ref := coalesce(decide.result_ref, op.result_ref);
        perform settle_data.queue_compensation(op, undo_kind, decide.operator, decide.reason, now_at);
    end if;
    return answer;
end $$;
revoke all on function settle.decide(text, text, text, text, text, jsonb, text) from public;
grant execute on function settle.decide(text, text, text, text, text, jsonb, text) to settle_operator;

-- The compensation of a success, waiting to be begun.
create or replace function settle_data.queue_compensation(op settle_data.operation, kind text, operator text, reason text,
                                                          at timestamptz)
returns void language plpgsql as $$
declare
    revision settle_data.kind_revision := settle_data.kind_in_force(queue_compensation.kind);
    wanted jsonb := settle_data.compensation_request(queue_compensation.op);
begin
    insert into settle_data.operation (namespace, key, kind, status, effect, token, revision, attempt_count, counter,
        request, digest, created_at, next_attempt_at, open_since, compensates, operator, reason)
    values ((queue_compensation.op).namespace, (queue_compensation.op).key || '~undo', queue_compensation.kind, 'pending',
        coalesce(revision.effect, 'local'), 0, coalesce(revision.revision, 0), 0, coalesce(revision.counter, 0),
        case when revision.secret then null else wanted end,
        case when revision.secret or octet_length(wanted::text) > 8192
            then settle_data.digest_under(revision, wanted) end,
        queue_compensation.at, queue_compensation.at, queue_compensation.at, (queue_compensation.op).key,
        queue_compensation.operator, queue_compensation.reason)
    on conflict on constraint operation_pkey do nothing;
end $$;
revoke all on function settle_data.queue_compensation(settle_data.operation, text, text, text, timestamptz) from public;

-- Cancels an operation that waits or is in review; asks for it where one is running. Outcomes: `done` (cancelled: it
-- never ran, or not again), `approved` (in review, and the kind asks for two people: this was the first), `requested`
-- (its holder sees cancel_requested at the next renewal), `already_decided` (final), `refused` (unknown: what may have
-- happened cannot be called cancelled).
create or replace function settle.cancel(key text, operator text, reason text, namespace text default 'default')
returns settle.operator_answer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    op settle_data.operation;
    answer settle.operator_answer;
begin
    op := settle_data.lock_for_operator(cancel.namespace, cancel.key, cancel.operator, cancel.reason);
    answer.status := op.status;
    if op.status = 'review' and settle_data.needs_approval(op, 'cancelled', cancel.operator, cancel.reason, null) then
        answer.outcome := 'approved';
    elsif op.status in ('pending', 'review') then
        perform settle_data.record_decision(op, 'cancel', cancel.operator, cancel.reason, 'cancelled');
        update settle_data.operation o
        set status = 'cancelled', finished_at = clock_timestamp(), open_since = null, next_attempt_at = null,
            next_trigger = null, review_reason = null, failure_code = 'CANCELLED',
            failure_detail = jsonb_build_object('operator', cancel.operator, 'reason', cancel.reason)
        where o.namespace = op.namespace and o.key = op.key and o.token = op.token;
        answer.outcome := 'done';
        answer.status := 'cancelled';
    elsif op.status = 'running' then
        perform settle_data.record_decision(op, 'cancel requested', cancel.operator, cancel.reason, 'running');
        update settle_data.operation o set cancel_requested = true
        where o.namespace = op.namespace and o.key = op.key and o.token = op.token;
        answer.outcome := 'requested';
    elsif op.status = 'unknown' then
        answer.outcome := 'refused';
        answer.reason := 'its outcome is unknown: settle it with review decide';
    else
        answer.outcome := 'already_decided';
        answer.reason := 'it is ' || op.status;
    end if;
    return answer;
end $$;
revoke all on function settle.cancel(text, text, text, text) from public;
grant execute on function settle.cancel(text, text, text, text) to settle_operator;
