-- While an execution is under way: marking its effect as sent, renewing its lease, sweeping what was lost.

-- A holder whose lease lapsed by the database's clock may still report what happened, but may not go on acting: it can
-- neither mark nor renew, taken over or not. Begun without a lease, an execution has nothing to mark or renew.
create or replace function settle_data.hold(namespace text, key text, token bigint)
returns settle_data.operation language plpgsql as $$
declare
    op settle_data.operation;
begin
    perform settle_data.check_token(hold.token);
    op := settle_data.lock_operation(hold.namespace, hold.key);
    if op.token = hold.token and op.status = 'running' and op.lease_until is null then
        perform settle_data.invalid('token', 'is of an execution begun without a lease, which lives in one transaction');
    end if;
    return op;
end $$;
revoke all on function settle_data.hold(text, text, bigint) from public;

-- Writes down, before an effect leaves the process, that from here on its outcome may be unknown; `remote_ref` is what
-- the remote can be asked by. Commit before sending. Outcomes: `marked` (again: the reference is replaced, the first
-- time of sending stays), `stale` (also once the lease has lapsed).
create or replace function settle.mark_sent(key text, token bigint, remote_ref text default null,
    namespace text default 'default')
returns settle.mark_sent_answer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    op settle_data.operation := settle_data.hold(mark_sent.namespace, mark_sent.key, mark_sent.token);
    answer settle.mark_sent_answer;
    now_at timestamptz := clock_timestamp();
begin
    if mark_sent.remote_ref is not null then
        perform settle_data.check_name('remote_ref', mark_sent.remote_ref, 511);
    end if;
    answer.current_token := op.token;
    answer.holder := op.owner;
    if op.token <> mark_sent.token or op.status <> 'running' or op.lease_until <= now_at then
        answer.outcome := 'stale';
        return answer;
    end if;
    update settle_data.operation o
    set sent_at = coalesce(o.sent_at, now_at), remote_ref = coalesce(mark_sent.remote_ref, o.remote_ref)
    where o.namespace = mark_sent.namespace and o.key = mark_sent.key and o.token = mark_sent.token;
    answer.outcome := 'marked';
    return answer;
end $$;
revoke all on function settle.mark_sent(text, bigint, text, text) from public;
grant execute on function settle.mark_sent(text, bigint, text, text) to settle_app, settle_worker;

-- Moves the lease's end to `lease` from now, by the database's clock. `owner` is compared when given. Outcomes:
-- `renewed` (with `lease_until`, and whether a cancel was asked for), `stale` (also once the lease has lapsed).
create or replace function settle.renew(key text, token bigint, lease interval default interval '30 seconds',
    owner text default null, namespace text default 'default')
returns settle.renew_answer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    op settle_data.operation := settle_data.hold(renew.namespace, renew.key, renew.token);
    answer settle.renew_answer;
    now_at timestamptz := clock_timestamp();
begin
    perform settle_data.check_duration('lease', renew.lease);
    answer.current_token := op.token;
    answer.holder := op.owner;
    if op.token <> renew.token or op.status <> 'running' or op.lease_until <= now_at
        or op.owner is distinct from coalesce(renew.owner, op.owner) then
        answer.outcome := 'stale';
        return answer;
    end if;
    answer.lease_until := now_at + settle_data.seconds_of(renew.lease);
    update settle_data.operation o set lease_until = answer.lease_until
    where o.namespace = renew.namespace and o.key = renew.key and o.token = renew.token;
    answer.outcome := 'renewed';
    answer.cancel_requested := coalesce(op.cancel_requested, false);
    return answer;
end $$;
revoke all on function settle.renew(text, bigint, interval, text, text) from public;
grant execute on function settle.renew(text, bigint, interval, text, text) to settle_app, settle_worker;

-- Settles lapsed leases nobody has met yet: at most `max_rows` in one call, each row locked and looked at again. What
-- has no mark waits to be taken over, what has one is unknown; an unknown one of an opaque kind without a resolver goes
-- to review, for nothing but a person can tell. Returns how many were settled.
create or replace function settle.sweep(max_rows integer default 100, namespace text default null)
returns integer language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    op settle_data.operation;
    settled integer := 0;
begin
    if sweep.max_rows is null or sweep.max_rows not between 1 and 1000 then
        perform settle_data.invalid('max_rows', 'is outside 1 to 1000');
    end if;
    for op in
        select o.* from settle_data.operation o
        where o.open_since is not null and o.status = 'running' and o.lease_until <= clock_timestamp()
            and o.namespace = coalesce(sweep.namespace, o.namespace)
        order by o.open_since limit sweep.max_rows for no key update skip locked
    loop
        if op.status = 'running' and op.lease_until <= clock_timestamp() then
            op := settle_data.settle_loss(op, clock_timestamp());
            settled := settled + 1;
        end if;
    end loop;
    for op in
        select o.* from settle_data.operation o
        where o.open_since is not null and o.status = 'unknown' and o.effect = 'opaque'
            and o.namespace = coalesce(sweep.namespace, o.namespace)
            and not exists (select from settle_data.kind_revision r
                            where r.kind = o.kind and r.revision = o.revision and r.declaration ? 'resolve')
        order by o.open_since limit sweep.max_rows - settled for no key update skip locked
    loop
        if op.status = 'unknown' then
            update settle_data.operation o set status = 'review', review_reason = 'unknown'
            where o.namespace = op.namespace and o.key = op.key and o.token = op.token;
            settled := settled + 1;
        end if;
    end loop;
    return settled;
end $$;
revoke all on function settle.sweep(integer, text) from public;
grant execute on function settle.sweep(integer, text) to settle_worker, settle_operator;
