-- Meeting an operation that is there already: comparing, replaying, recording the repeat, taking over.

-- Order of locks, everywhere: key (advisory) -> operation row -> execution row -> lease row.

-- Waits for another transaction's key; false at lock_timeout, with the caller's transaction still usable. Only a
-- contended call comes here: a block with an exception is a subtransaction, and costs.
create or replace function settle_data.wait_for_key(lock_id bigint)
returns boolean language plpgsql as $$
begin
    perform pg_advisory_xact_lock(wait_for_key.lock_id);
    return true;
exception when lock_not_available then
    return false;
end $$;
revoke all on function settle_data.wait_for_key(bigint) from public;

create or replace function settle_data.wait_for_row(namespace text, key text)
returns boolean language plpgsql as $$
begin
    perform from settle_data.operation o
    where o.namespace = wait_for_row.namespace and o.key = wait_for_row.key for no key update;
    return true;
exception when lock_not_available then
    return false;
end $$;
revoke all on function settle_data.wait_for_row(text, text) from public;

-- Stable, as jsonb_build_object is: one that calls itself immutable would not be inlined, and cost a third of a replay.
create or replace function settle_data.failure_of(op settle_data.operation)
returns jsonb language sql stable as $$
    select case when (failure_of.op).failure_code is not null then
        pg_catalog.jsonb_build_object('code', (failure_of.op).failure_code, 'detail', (failure_of.op).failure_detail) end
$$;
revoke all on function settle_data.failure_of(settle_data.operation) from public;

-- The answer to one who does not run. It names no token: only a holder has one to use.
create or replace function settle_data.answer_of(op settle_data.operation, outcome text)
returns settle.begin_operation_answer language plpgsql stable as $$
declare
    answer settle.begin_operation_answer;
begin
    answer.outcome := answer_of.outcome;
    answer.execution_id := case when (answer_of.op).token > 0 then (answer_of.op).key || '#' || (answer_of.op).token end;
    answer.status := (answer_of.op).status;
    answer.result_ref := (answer_of.op).result_ref;
    answer.result := (answer_of.op).result;
    answer.failure := settle_data.failure_of(answer_of.op);
    answer.lease_until := (answer_of.op).lease_until;
    answer.next_attempt_at := (answer_of.op).next_attempt_at;
    answer.holder := case when (answer_of.op).status = 'running' then (answer_of.op).owner end;
    answer.attempt_count := (answer_of.op).attempt_count;
    return answer;
end $$;
revoke all on function settle_data.answer_of(settle_data.operation, text) from public;

-- Whether a request is the stored one: compared under the revision the operation began with. Where the request is
-- kept, the identity fields are compared as jsonb values, the same relation as the digest and far cheaper.
create or replace function settle_data.same_request(op settle_data.operation, kind text, request jsonb)
returns boolean language plpgsql stable as $$
declare
    revision settle_data.kind_revision;
begin
    if (same_request.op).kind is distinct from same_request.kind then
        return false;
    elsif (same_request.op).digest is null and (same_request.op).request = same_request.request then
        return true;
    end if;
    revision := settle_data.kind_at((same_request.op).kind, (same_request.op).revision);
    if (same_request.op).digest is not null then
        return (same_request.op).digest = settle_data.digest_under(revision, same_request.request);
    end if;
    return settle_data.identity_of((same_request.op).request, revision.identity, coalesce(revision.null_is_absent, false))
         = settle_data.identity_of(same_request.request, revision.identity, coalesce(revision.null_is_absent, false));
end $$;
revoke all on function settle_data.same_request(settle_data.operation, text, jsonb) from public;

create or replace function settle_data.stored_digest(op settle_data.operation)
returns text language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    if (stored_digest.op).digest is not null or (stored_digest.op).request is null then
        return (stored_digest.op).digest;
    end if;
    return settle_data.digest_under(settle_data.kind_at((stored_digest.op).kind, (stored_digest.op).revision),
                                    (stored_digest.op).request);
end $$;
revoke all on function settle_data.stored_digest(settle_data.operation) from public;

-- What a conflict tells: both digests and the pointers that differ, never a value.
create or replace function settle_data.conflict_detail(op settle_data.operation, kind text, request jsonb)
returns jsonb language plpgsql stable as $$
declare
    revision settle_data.kind_revision := settle_data.kind_at((conflict_detail.op).kind, (conflict_detail.op).revision);
    absent boolean := coalesce(revision.null_is_absent, false);
    pointers jsonb := '[]'::jsonb;
begin
    if (conflict_detail.op).request is not null then
        -- The identity object's members are pointers already; one step of them is taken apart again.
        pointers := case when revision.identity is null
            then settle_data.differing_pointers(settle_data.identity_of((conflict_detail.op).request, null, absent),
                                                settle_data.identity_of(conflict_detail.request, null, absent))
            else (select coalesce(jsonb_agg(p order by n), '[]') from unnest(revision.identity) with ordinality as i (p, n)
                  where settle_data.identity_of((conflict_detail.op).request, array[p], absent)
                     <> settle_data.identity_of(conflict_detail.request, array[p], absent)) end;
    end if;
    return jsonb_build_object('code', 'IDEMPOTENCY_PARAMETER_CONFLICT', 'detail', jsonb_build_object(
        'stored_kind', (conflict_detail.op).kind, 'given_kind', conflict_detail.kind,
        'stored_digest', settle_data.stored_digest(conflict_detail.op),
        'given_digest', settle_data.digest_under(revision, conflict_detail.request),
        'pointers', pointers,
        'advice', 'correct the request or start a new legitimate operation; '
                  'do not send the same one under another key'));
end $$;
revoke all on function settle_data.conflict_detail(settle_data.operation, text, jsonb) from public;

-- The next number of an operation's executions. 1 is kept for the first run; the caller holds the key's lock.
create or replace function settle_data.next_number(op settle_data.operation)
returns bigint language plpgsql as $$
begin
    return (select greatest(1, (next_number.op).token, max(e.number)) + 1 from settle_data.execution e
            where e.namespace = (next_number.op).namespace and e.key = (next_number.op).key);
end $$;
revoke all on function settle_data.next_number(settle_data.operation) from public;

-- Counts a repeat that is answered without a write; not where nothing may be written. 0 is the count that most share.
create or replace function settle_data.count_repeat(counter smallint)
returns bigint language sql volatile as $$
    select case when current_setting('transaction_read_only') = 'off' then case count_repeat.counter
        when 0 then nextval('settle.duplicates_0'::regclass)
        else nextval(('settle.duplicates_' || count_repeat.counter)::regclass) end end
$$;
revoke all on function settle_data.count_repeat(smallint) from public;

-- A repeat that does not run: a scheduled or manual one leaves an execution, any other raises a count that survives
-- its transaction.
create or replace function settle_data.note_repeat(op settle_data.operation, outcome text, trigger text, owner text,
                                                   operator text, reason text)
returns void language plpgsql as $$
begin
    if note_repeat.trigger not in ('schedule', 'manual') then
        perform settle_data.count_repeat((note_repeat.op).counter);
        return;
    end if;
    loop
        insert into settle_data.execution (namespace, key, number, revision, trigger, worker, outcome, operator, reason,
                                           started_at, finished_at)
        values ((note_repeat.op).namespace, (note_repeat.op).key, settle_data.next_number(note_repeat.op),
                (note_repeat.op).revision, note_repeat.trigger, note_repeat.owner, note_repeat.outcome,
                note_repeat.operator, note_repeat.reason, clock_timestamp(), clock_timestamp())
        on conflict on constraint execution_pkey do nothing;
        exit when found;
    end loop;
end $$;
revoke all on function settle_data.note_repeat(settle_data.operation, text, text, text, text, text) from public;

-- Ends the operation's current execution in the history. The first one is still in the operation's row, which the
-- caller is about to write.
create or replace function settle_data.end_execution(op settle_data.operation, outcome text, at timestamptz,
    error_class text default null, error_code text default null, error_message text default null,
    error_detail jsonb default null)
returns void language plpgsql as $$
begin
    if (end_execution.op).token > 1 then
        update settle_data.execution e
        set outcome = end_execution.outcome, finished_at = end_execution.at, error_class = end_execution.error_class,
            error_code = end_execution.error_code, error_message = end_execution.error_message,
            error_detail = end_execution.error_detail,
            sent_at = (end_execution.op).sent_at, remote_ref = (end_execution.op).remote_ref
        where e.namespace = (end_execution.op).namespace and e.key = (end_execution.op).key
            and e.number = (end_execution.op).token;
    end if;
end $$;
revoke all on function settle_data.end_execution(settle_data.operation, text, timestamptz, text, text, text, jsonb)
    from public;

-- Starts another execution of an operation whose row the caller has locked. The execution before it, if it was the
-- first, moves from the operation's row to the history.
create or replace function settle_data.start_again(given settle_data.operation, trigger text, owner text, lease interval,
    operator text, reason text, at timestamptz)
returns settle.begin_operation_answer language plpgsql as $$
declare
    op settle_data.operation := start_again.given;
    answer settle.begin_operation_answer;
    new_number bigint;
    until_at timestamptz := start_again.at + settle_data.seconds_of(start_again.lease);
begin
    if op.token = 0 then
        new_number := 1;
    else
        if op.token = 1 then
            insert into settle_data.execution (namespace, key, number, revision, trigger, worker, outcome, error_class,
                error_code, error_message, error_detail, remote_ref, sent_at, operator, reason, started_at, finished_at)
            values (op.namespace, op.key, 1, op.revision, op.trigger, op.owner, op.outcome, op.error_class,
                op.error_code, op.error_message, op.error_detail, op.remote_ref, op.sent_at, op.operator, op.reason,
                op.started_at, op.ended_at);
        end if;
        loop
            new_number := settle_data.next_number(op);
            insert into settle_data.execution (namespace, key, number, revision, trigger, worker, operator, reason, started_at)
            values (op.namespace, op.key, new_number, op.revision, start_again.trigger, start_again.owner,
                    start_again.operator, start_again.reason, start_again.at)
            on conflict on constraint execution_pkey do nothing;
            exit when found;
        end loop;
        -- The loser's execution keeps who came after it: its own late answers will be refused with the same words.
        if start_again.trigger = 'takeover' then
            update settle_data.execution e
            set error_detail = jsonb_build_object('current_token', new_number, 'holder', start_again.owner)
            where e.namespace = op.namespace and e.key = op.key and e.number = op.token;
        end if;
    end if;
    update settle_data.operation o
    set status = 'running', token = new_number, attempt_count = o.attempt_count + 1, trigger = start_again.trigger,
        owner = start_again.owner, operator = start_again.operator, reason = start_again.reason,
        started_at = start_again.at, ended_at = null, outcome = null, next_trigger = null, next_attempt_at = null,
        sent_at = null, remote_ref = null, review_reason = null, finished_at = null,
        failure_code = null, failure_detail = null, cancel_requested = null,
        lease_until = until_at,
        open_since = case when start_again.lease is null then o.open_since else coalesce(o.open_since, start_again.at) end
    where o.namespace = op.namespace and o.key = op.key and o.token = op.token;
    answer.outcome := 'started';
    answer.token := new_number;
    answer.execution_id := op.key || '#' || new_number;
    answer.status := 'running';
    answer.lease_until := until_at;
    answer.attempt_count := op.attempt_count + 1;
    return answer;
end $$;
revoke all on function settle_data.start_again(settle_data.operation, text, text, interval, text, text, timestamptz)
    from public;

-- The lease of a locked row has lapsed: what is known decides. With a mark that an effect left the process the outcome
-- is unknown; where an operator had asked to cancel it, it is cancelled, as if he had come after the loss; on the last
-- attempt that the kind allows a person is asked; else it waits to be taken over.
create or replace function settle_data.settle_loss(given settle_data.operation, at timestamptz)
returns settle_data.operation language plpgsql as $$
declare
    op settle_data.operation := settle_loss.given;
    limit_of integer;
begin
    if op.revision > 0 then
        limit_of := coalesce(((settle_data.kind_at(op.kind, op.revision)).declaration #>> '{retry,max_attempts}')::integer, 5);
    end if;
    op.outcome := case when op.sent_at is not null then 'unknown' else 'lost' end;
    op.status := case when op.sent_at is not null then 'unknown'
                      when op.cancel_requested then 'cancelled'
                      when op.attempt_count >= limit_of then 'review' else 'pending' end;
    op.review_reason := case op.status when 'review' then 'exhausted' end;
    op.error_class := case when op.sent_at is not null then 'unknown' else 'transient' end;
    op.error_code := 'LEASE_LOST';
    op.error_message := 'the lease lapsed at ' || to_char(op.lease_until at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
        || ' with no answer from its holder';
    op.error_detail := null;
    op.ended_at := settle_loss.at;
    perform settle_data.end_execution(op, op.outcome, settle_loss.at, op.error_class, op.error_code, op.error_message);
    op.lease_until := null;
    op.next_attempt_at := case op.status when 'pending' then settle_loss.at end;
    op.next_trigger := case op.status when 'pending' then 'takeover' end;
    op.open_since := case op.status when 'pending' then op.open_since when 'cancelled' then null else settle_loss.at end;
    if op.status = 'cancelled' then
        op.finished_at := settle_loss.at;
        op.failure_code := 'CANCELLED';
    end if;
    update settle_data.operation o
    set status = op.status, outcome = op.outcome, error_class = op.error_class, error_code = op.error_code,
        error_message = op.error_message, error_detail = null, ended_at = op.ended_at, lease_until = null,
        next_attempt_at = op.next_attempt_at, next_trigger = op.next_trigger, review_reason = op.review_reason,
        open_since = op.open_since, finished_at = op.finished_at, failure_code = op.failure_code
    where o.namespace = op.namespace and o.key = op.key and o.token = op.token;
    return op;
end $$;
revoke all on function settle_data.settle_loss(settle_data.operation, timestamptz) from public;
