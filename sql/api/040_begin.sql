-- The way in: begin_operation.

-- Answers for an operation that is there. The caller holds the key's lock, unless the operation stands; the row is
-- locked only where it must be written, and what was read before a lock is read again after it.
create or replace function settle_data.meet(given settle_data.operation, kind text, request jsonb, trigger text,
    owner text, lease interval, operator text, reason text)
returns settle.begin_operation_answer language plpgsql as $$
declare
    op settle_data.operation := meet.given;
    answer settle.begin_operation_answer;
    now_at timestamptz;
    outcome text;
begin
    -- The mark against a late original holds whatever its request: there is no request to compare.
    if op.failure_code = 'UNDONE_FIRST' then
        perform settle_data.note_repeat(op, 'replayed', meet.trigger, meet.owner, meet.operator, meet.reason);
        return settle_data.answer_of(op, 'replayed');
    end if;
    if settle_data.same_request(op, meet.kind, meet.request) is not true then
        perform settle_data.note_repeat(op, 'conflict', meet.trigger, meet.owner, meet.operator, meet.reason);
        answer.outcome := 'conflict';
        answer.status := op.status;
        answer.failure := settle_data.conflict_detail(op, meet.kind, meet.request);
        return answer;
    end if;

    now_at := clock_timestamp();
    if (op.status = 'running' and op.lease_until <= now_at) or (op.status = 'pending' and op.next_attempt_at <= now_at) then
        select o.* into op from settle_data.operation o
        where o.namespace = (meet.given).namespace and o.key = (meet.given).key for no key update skip locked;
        if not found then
            if not settle_data.wait_for_row((meet.given).namespace, (meet.given).key) then
                return settle_data.answer_of(meet.given, 'in_progress');
            end if;
            select o.* into op from settle_data.operation o
            where o.namespace = (meet.given).namespace and o.key = (meet.given).key;
        end if;
        now_at := clock_timestamp();
        if op.status = 'running' and op.lease_until <= now_at then
            op := settle_data.settle_loss(op, now_at);
        end if;
        if op.status = 'pending' and op.next_attempt_at <= now_at then
            return settle_data.start_again(op, 
                case when op.next_trigger in ('takeover', 'manual') then op.next_trigger else meet.trigger end,
                meet.owner, meet.lease, meet.operator, meet.reason, now_at);
        end if;
    end if;

    outcome := case op.status when 'review' then 'frozen' when 'unknown' then 'unknown'
                              when 'running' then 'in_progress' when 'pending' then 'in_progress' else 'replayed' end;
    -- An execution's outcome for a repeat that met an unknown operation is that it met one still under way.
    perform settle_data.note_repeat(op, case outcome when 'unknown' then 'in_progress' else outcome end,
                                    meet.trigger, meet.owner, meet.operator, meet.reason);
    return settle_data.answer_of(op, outcome);
end $$;
revoke all on function settle_data.meet(settle_data.operation, text, jsonb, text, text, interval, text, text) from public;

create or replace function settle_data.check_begin(key text, kind text, namespace text, trigger text, owner text,
                                                   lease interval, effect text)
returns boolean language plpgsql as $$
begin
    perform settle_data.check_name('key', check_begin.key, 511);
    perform settle_data.check_name('kind', check_begin.kind, 63);
    perform settle_data.check_name('namespace', check_begin.namespace, 63);
    if check_begin.owner is not null then
        perform settle_data.check_name('owner', check_begin.owner, 255);
    end if;
    if check_begin.trigger is null
        or check_begin.trigger not in ('call', 'schedule', 'retry', 'manual', 'takeover', 'event') then
        perform settle_data.invalid('trigger', 'is none of call, schedule, retry, manual, takeover, event');
    elsif check_begin.effect not in ('local', 'keyed', 'opaque') then
        perform settle_data.invalid('effect', 'is none of local, keyed, opaque');
    end if;
    if check_begin.lease is not null then
        perform settle_data.check_duration('lease', check_begin.lease);
    end if;
    return true;
end $$;
revoke all on function settle_data.check_begin(text, text, text, text, text, interval, text) from public;

-- Whether an operation stands as it is, so that who comes now does not start it.
create or replace function settle_data.stands(op settle_data.operation)
returns boolean language plpgsql as $$
begin
    return (stands.op).finished_at is not null or (stands.op).status in ('unknown', 'review')
        or ((stands.op).status = 'running' and (stands.op).lease_until > clock_timestamp());
end $$;
revoke all on function settle_data.stands(settle_data.operation) from public;

-- Meets an operation that stands, for one whose repeat is not recorded: nothing is to be written, so nothing is locked,
-- and the repeat waits for no other transaction's.
create or replace function settle_data.meet_standing(op settle_data.operation, kind text, request jsonb, trigger text,
    owner text, lease interval, effect text)
returns settle.begin_operation_answer language plpgsql as $$
begin
    if settle_data.check_begin((meet_standing.op).key, meet_standing.kind, (meet_standing.op).namespace,
            meet_standing.trigger, meet_standing.owner, meet_standing.lease, meet_standing.effect)
        and settle_data.check_request('request', meet_standing.request) then
        return settle_data.meet(meet_standing.op, meet_standing.kind, meet_standing.request, meet_standing.trigger,
                                meet_standing.owner, meet_standing.lease, null, null);
    end if;
    return null;
end $$;
revoke all on function settle_data.meet_standing(settle_data.operation, text, jsonb, text, text, interval, text) from public;

-- The same rules for the common case, as one expression that the planner inlines.
create or replace function settle_data.is_plain_begin(key text, kind text, namespace text, trigger text, owner text,
                                                      lease interval, effect text)
returns boolean language sql stable as $$
    select is_plain_begin.trigger = 'call' and is_plain_begin.lease is null and is_plain_begin.effect is null
        and octet_length(is_plain_begin.key) <= 511 and octet_length(is_plain_begin.kind) <= 63
        and is_plain_begin.key ~ E'^[^\u0001- \u007F-\u009F]([^\u0001-\u001F\u007F-\u009F]*[^\u0001- \u007F-\u009F])?$'
        and is_plain_begin.kind ~ '^[a-z][a-z0-9_.-]*$'
        and (is_plain_begin.namespace = 'default' or settle_data.is_name(is_plain_begin.namespace, 63))
        and (is_plain_begin.owner = session_user or settle_data.is_name(is_plain_begin.owner, 255))
$$;
revoke all on function settle_data.is_plain_begin(text, text, text, text, text, interval, text) from public;

-- Creates or meets an operation under its key's lock.
create or replace function settle_data.enter(namespace text, key text, kind text, request jsonb, trigger text,
    owner text, lease interval, effect text default null, compensates text default null, operator text default null,
    reason text default null)
returns settle.begin_operation_answer language plpgsql as $$
declare
    op settle_data.operation;
    revision settle_data.kind_revision;
    answer settle.begin_operation_answer;
    lock_id bigint := hashtextextended(enter.namespace || chr(31) || enter.key, 1);
    started_at timestamptz;
    until_at timestamptz;
    already boolean;
    hashed boolean;
begin
    if settle_data.is_plain_begin(enter.key, enter.kind, enter.namespace, enter.trigger, enter.owner, enter.lease,
                                  enter.effect) is not true then
        already := settle_data.check_begin(enter.key, enter.kind, enter.namespace, enter.trigger, enter.owner,
                                           enter.lease, enter.effect);
    end if;
    -- A compensation's request is Settle's own, one deeper than the one it undoes.
    if enter.compensates is null and settle_data.is_plain_request(enter.request) is not true then
        already := settle_data.check_request('request', enter.request);
    end if;

    if not pg_try_advisory_xact_lock(lock_id) and not settle_data.wait_for_key(lock_id) then
        select o.* into op from settle_data.operation o where o.namespace = enter.namespace and o.key = enter.key;
        if settle_data.stands(op) then
            -- A repeat that could not be recorded in time is answered all the same, a conflict as a conflict.
            return settle_data.meet(op, enter.kind, enter.request, 'call', enter.owner, enter.lease, null, null);
        end if;
        answer := settle_data.answer_of(op, 'in_progress');
        answer.status := coalesce(answer.status, 'running');
        return answer;
    end if;

    loop
        -- One statement for both looks; the whole revision only where it is needed.
        select o.key is not null, r.revision, r.effect, r.counter, coalesce(r.secret, false)
        into already, revision.revision, revision.effect, revision.counter, hashed
        from (values (1)) as one (n)
        left join settle_data.operation o on o.namespace = enter.namespace and o.key = enter.key
        left join settle_data.kind_revision r on r.kind = enter.kind and r.in_force;
        if already then
            select o.* into op from settle_data.operation o where o.namespace = enter.namespace and o.key = enter.key;
            return settle_data.meet(op, enter.kind, enter.request, enter.trigger, enter.owner, enter.lease,
                                    enter.operator, enter.reason);
        elsif current_setting('settle.running', true) like '%/' || lock_id || '/%' then
            -- begun by `run` in this very transaction, whose handler asks now
            answer.outcome := 'in_progress';
            answer.status := 'running';
            answer.holder := session_user;
            return answer;
        end if;
        if hashed or pg_column_size(enter.request) > 4000 then
            revision := settle_data.kind_in_force(enter.kind);
            hashed := coalesce(revision.secret, false) or octet_length(enter.request::text) > 8192;
        end if;
        started_at := clock_timestamp();
        if enter.lease is not null then
            until_at := started_at + settle_data.seconds_of(enter.lease);
        end if;
        insert into settle_data.operation (namespace, key, kind, status, effect, trigger, owner, token, revision,
            attempt_count, counter, request, digest, created_at, started_at, lease_until, open_since, compensates,
            operator, reason)
        values (enter.namespace, enter.key, enter.kind, 'running', coalesce(revision.effect, enter.effect, 'local'),
            enter.trigger, enter.owner, 1, coalesce(revision.revision, 0), 1, coalesce(revision.counter, 0),
            case when revision.secret then null else enter.request end,
            case when hashed then settle_data.digest_under(revision, enter.request) end,
            started_at, started_at, until_at, case when enter.lease is not null then started_at end,
            enter.compensates, enter.operator, enter.reason)
        -- Those who create without the key's lock (batches) meet us here. A stronger isolation level raises 40001 by
        -- itself where the winner lies outside its snapshot.
        on conflict on constraint operation_pkey do nothing;
        exit when found;
    end loop;
    answer.outcome := 'started';
    answer.token := 1;
    answer.execution_id := enter.key || '#1';
    answer.status := 'running';
    answer.lease_until := until_at;
    answer.attempt_count := 1;
    return answer;
end $$;
revoke all on function settle_data.enter(text, text, text, jsonb, text, text, interval, text, text, text, text) from public;

-- What a look at a key answers, and whether the answer is a plain repeat's: of a finished operation whose very request
-- is kept to compare. A view, so that begin_operation and run can look with their caller's own rights and no change of
-- search_path (measured: a definer's costs a replay 10 us of 90).
create or replace view settle.keys as
select o.namespace, o.key, o.kind, o.request, o.status, o.key || '#' || o.token as execution_id, o.result_ref, o.result,
    case when o.failure_code is not null
        then jsonb_build_object('code', o.failure_code, 'detail', o.failure_detail) end as failure,
    o.attempt_count, o.counter,
    o.finished_at is not null and o.digest is null and o.compensates is null as is_plain
from settle_data.operation o;
revoke all on settle.keys from public;
grant select on settle.keys to settle_viewer;

-- The second look of begin_operation, with the rights of Settle's owner. Not for callers.
create or replace function settle.begin_locked(key text, kind text, request jsonb, namespace text, trigger text,
    owner text, lease interval, effect text, seen boolean)
returns settle.begin_operation_answer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    op settle_data.operation;
begin
    if right(begin_locked.key, 5) = '~undo' or octet_length(begin_locked.key) > 255 then
        perform settle_data.check_key(begin_locked.key);
    end if;
    -- What stands as it is answers without the key's lock, so that its repeats wait for nobody and hold up nobody.
    if begin_locked.seen and begin_locked.trigger not in ('schedule', 'manual') then
        select o.* into op from settle_data.operation o
        where o.namespace = begin_locked.namespace and o.key = begin_locked.key;
        if found and settle_data.stands(op) then
            return settle_data.meet_standing(op, begin_locked.kind, begin_locked.request, begin_locked.trigger,
                coalesce(begin_locked.owner, session_user), begin_locked.lease, begin_locked.effect);
        end if;
    end if;
    return settle_data.enter(begin_locked.namespace, begin_locked.key, begin_locked.kind, begin_locked.request,
        begin_locked.trigger, coalesce(begin_locked.owner, session_user), begin_locked.lease, begin_locked.effect);
end $$;
revoke all on function settle.begin_locked(text, text, jsonb, text, text, text, interval, text, boolean) from public;
grant execute on function settle.begin_locked(text, text, jsonb, text, text, text, interval, text, boolean)
    to settle_app, settle_worker;

-- Begins operation (namespace, key), or says what became of it.
--
-- Outcomes: `started` (the caller holds it under `token` and ends it with complete, refuse or fail); `replayed` (final:
-- the stored status, result and failure); `in_progress` (another holds it, or it waits until next_attempt_at, or its
-- key is another's uncommitted one for longer than lock_timeout); `conflict` (another request or kind under this key:
-- `failure` tells what differs; nothing changed); `frozen` (with a person); `unknown` (being looked up).
--
-- Without `lease` the execution lives and dies with the caller's transaction, which cannot commit before it was ended
-- (OPERATION_NOT_ENDED). With one it is granted, by the database's clock, from now; the caller commits and comes back.
-- A lapsed lease is taken over (trigger `takeover`), or is `unknown` where an effect had been marked as sent.
-- `effect` is what an undeclared kind does: local (the default), keyed or opaque; a declared kind's own wins.
--
-- A repeat by trigger schedule or manual that does not run leaves an execution; any other writes nothing. In REPEATABLE
-- READ and SERIALIZABLE 40001 is raised where a committed winner lies outside the snapshot.
create or replace function settle.begin_operation(key text, kind text, request jsonb default '{}',
    namespace text default 'default', trigger text default 'call', owner text default null, lease interval default null,
    effect text default null)
returns settle.begin_operation_answer language plpgsql as $$
declare
    answer settle.begin_operation_answer;
begin
    -- The common repeat, of a finished operation with the very same request: one look, no lock, no transaction id, no
    -- write but the count. Everything else, and what is seen to need a second look, goes by the key's lock.
    select case when k.is_plain and k.kind = begin_operation.kind and k.request = begin_operation.request
            and begin_operation.trigger = 'call' and begin_operation.owner is null and begin_operation.lease is null
            and begin_operation.effect is null
        then case when pg_catalog.current_setting('transaction_read_only') <> 'off' then 'replayed'
            when case k.counter when 0 then pg_catalog.nextval('settle.duplicates_0'::regclass)
                else pg_catalog.nextval(('settle.duplicates_' || k.counter::text)::regclass) end > 0 then 'replayed' end
        else 'seen' end,
        null::bigint, k.execution_id, k.status, k.result_ref, k.result, k.failure, null::timestamptz, null::timestamptz,
        null::text, k.attempt_count
    into answer
    from settle.keys k where k.namespace = begin_operation.namespace and k.key = begin_operation.key;
    if answer.outcome = 'replayed' then
        return answer;
    end if;
    return settle.begin_locked(begin_operation.key, begin_operation.kind, begin_operation.request,
        begin_operation.namespace, begin_operation.trigger, begin_operation.owner, begin_operation.lease,
        begin_operation.effect, answer.outcome is not null);
end $$;
revoke all on function settle.begin_operation(text, text, jsonb, text, text, text, interval, text) from public;
grant execute on function settle.begin_operation(text, text, jsonb, text, text, text, interval, text)
    to settle_app, settle_worker;

-- At COMMIT: an execution begun without a lease must have been ended, or its effect would stand without a record.
create or replace function settle_data.require_end()
returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if exists (select from settle_data.operation o
               where o.namespace = new.namespace and o.key = new.key and o.token = new.token
                   and o.status = 'running' and o.lease_until is null) then
        raise exception using errcode = 'ST012',
            message = 'OPERATION_NOT_ENDED: operation ' || new.key || ' was begun in this transaction and not ended: '
                || 'call complete, refuse or fail before COMMIT, or begin it with a lease',
            detail = jsonb_build_object('code', 'OPERATION_NOT_ENDED', 'namespace', new.namespace, 'key', new.key,
                                        'token', new.token)::text;
    end if;
    return null;
end $$;
revoke all on function settle_data.require_end() from public;

do $$
begin
    if not exists (select from pg_trigger where tgname = 'operation_ended' and tgrelid = 'settle_data.operation'::regclass) then
        create constraint trigger operation_ended after insert or update on settle_data.operation
            deferrable initially deferred for each row
            when (new.status = 'running' and new.lease_until is null)
            execute function settle_data.require_end();
    end if;
end $$;
