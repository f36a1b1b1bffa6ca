-- Leases on resources, and the fence that makes an old holder's write impossible.

-- Lock strengths at a lease's row: check_fence takes KEY SHARE, renewal NO KEY UPDATE, so that a holder's own renewal
-- never waits for its own guarded transaction; takeover and release take UPDATE, so that they wait for both.

create or replace function settle_data.check_lease(namespace text, resource text, holder text, ttl interval)
returns void language plpgsql as $$
begin
    perform settle_data.check_name('namespace', check_lease.namespace, 63);
    perform settle_data.check_name('resource', check_lease.resource, 255);
    perform settle_data.check_name('holder', check_lease.holder, 255);
    perform settle_data.check_duration('ttl', check_lease.ttl);
end $$;
revoke all on function settle_data.check_lease(text, text, text, interval) from public;

create or replace function settle_data.wait_for_lease(namespace text, resource text)
returns boolean language plpgsql as $$
begin
    perform from settle_data.lease l
    where l.namespace = wait_for_lease.namespace and l.resource = wait_for_lease.resource for update;
    return true;
exception when lock_not_available then
    return false;
end $$;
revoke all on function settle_data.wait_for_lease(text, text) from public;

-- Grants the resource to `holder` for `ttl` from now, by the database's clock, where nobody's lease on it is live.
-- Outcomes: `granted` (under a token higher than any before of this resource), `held` (`token`, `holder` and
-- `lease_until` are the current ones; also where another transaction holds the row for longer than lock_timeout). The
-- same holder asking again is told `held` with its own name and token, and goes on with renew_lease.
create or replace function settle.acquire_lease(resource text, holder text, ttl interval, namespace text default 'default')
returns settle.acquire_lease_answer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    row_of settle_data.lease;
    answer settle.acquire_lease_answer;
    waited boolean := true;
    now_at timestamptz;
    span interval := settle_data.seconds_of(acquire_lease.ttl);
    lock_id bigint := hashtextextended(acquire_lease.namespace || chr(31) || acquire_lease.resource, 2);
begin
    perform settle_data.check_lease(acquire_lease.namespace, acquire_lease.resource, acquire_lease.holder, acquire_lease.ttl);
    while answer.outcome is null loop
        select l.* into row_of from settle_data.lease l
        where l.namespace = acquire_lease.namespace and l.resource = acquire_lease.resource;
        now_at := clock_timestamp();
        if row_of.lease_until > now_at or not waited then
            answer.outcome := 'held';
        elsif row_of.token is null then
            waited := pg_try_advisory_xact_lock(lock_id) or settle_data.wait_for_key(lock_id);
            continue when not waited;
            now_at := clock_timestamp();
            insert into settle_data.lease (namespace, resource, token, holder, granted_at, lease_until)
            values (acquire_lease.namespace, acquire_lease.resource, 1, acquire_lease.holder, now_at, now_at + span)
            on conflict on constraint lease_pkey do nothing
            returning * into row_of;
            continue when not found;
            answer.outcome := 'granted';
        else
            perform from settle_data.lease l
            where l.namespace = acquire_lease.namespace and l.resource = acquire_lease.resource for update skip locked;
            if not found then
                waited := settle_data.wait_for_lease(acquire_lease.namespace, acquire_lease.resource);
                continue when not waited;
            end if;
            -- locked now, and looked at again: who held it may have renewed or given it to another meanwhile
            select l.* into row_of from settle_data.lease l
            where l.namespace = acquire_lease.namespace and l.resource = acquire_lease.resource;
            now_at := clock_timestamp();
            continue when row_of.lease_until > now_at;
            update settle_data.lease l
            set token = row_of.token + 1, holder = acquire_lease.holder, granted_at = now_at,
                lease_until = now_at + span, released_at = null
            where l.namespace = acquire_lease.namespace and l.resource = acquire_lease.resource and l.token = row_of.token
            returning * into row_of;
            answer.outcome := 'granted';
        end if;
    end loop;
    answer.token := row_of.token;
    answer.holder := row_of.holder;
    answer.lease_until := row_of.lease_until;
    return answer;
end $$;
revoke all on function settle.acquire_lease(text, text, interval, text) from public;
grant execute on function settle.acquire_lease(text, text, interval, text) to settle_app, settle_worker;

-- Moves the end of a live lease to `ttl` from now. Outcomes: `renewed`; `lost` (another token or holder, released, or
-- lapsed by the database's clock: a lapsed lease is never renewed, taken over or not). A resource never seen is `lost`.
create or replace function settle.renew_lease(resource text, holder text, token bigint, ttl interval,
    namespace text default 'default')
returns settle.renew_lease_answer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    row_of settle_data.lease;
    answer settle.renew_lease_answer;
    now_at timestamptz;
begin
    perform settle_data.check_lease(renew_lease.namespace, renew_lease.resource, renew_lease.holder, renew_lease.ttl);
    perform settle_data.check_token(renew_lease.token);
    select l.* into row_of from settle_data.lease l
    where l.namespace = renew_lease.namespace and l.resource = renew_lease.resource for no key update;
    now_at := clock_timestamp();
    answer.token := row_of.token;
    answer.holder := row_of.holder;
    answer.lease_until := row_of.lease_until;
    if row_of.token is distinct from renew_lease.token or row_of.holder <> renew_lease.holder
        or row_of.lease_until <= now_at then
        answer.outcome := 'lost';
        return answer;
    end if;
    answer.lease_until := now_at + settle_data.seconds_of(renew_lease.ttl);
    update settle_data.lease l set lease_until = answer.lease_until
    where l.namespace = renew_lease.namespace and l.resource = renew_lease.resource and l.token = renew_lease.token;
    answer.outcome := 'renewed';
    return answer;
end $$;
revoke all on function settle.renew_lease(text, text, bigint, interval, text) from public;
grant execute on function settle.renew_lease(text, text, bigint, interval, text) to settle_app, settle_worker;

-- Gives the lease back: it lapses now, and its token stays behind as the fence. Outcomes: `released` (again: the same
-- answer, while nobody else was granted it), `lost`.
create or replace function settle.release_lease(resource text, holder text, token bigint, namespace text default 'default')
returns settle.release_lease_answer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    row_of settle_data.lease;
    answer settle.release_lease_answer;
    now_at timestamptz;
begin
    perform settle_data.check_lease(release_lease.namespace, release_lease.resource, release_lease.holder, interval '1 second');
    perform settle_data.check_token(release_lease.token);
    select l.* into row_of from settle_data.lease l
    where l.namespace = release_lease.namespace and l.resource = release_lease.resource for update;
    now_at := clock_timestamp();
    answer.token := row_of.token;
    answer.holder := row_of.holder;
    answer.lease_until := row_of.lease_until;
    if row_of.token is distinct from release_lease.token or row_of.holder <> release_lease.holder
        or (row_of.lease_until <= now_at and row_of.released_at is null) then
        answer.outcome := 'lost';
        return answer;
    end if;
    answer.outcome := 'released';
    if row_of.released_at is null then
        answer.lease_until := now_at;
        update settle_data.lease l set lease_until = now_at, released_at = now_at
        where l.namespace = release_lease.namespace and l.resource = release_lease.resource
            and l.token = release_lease.token;
    end if;
    return answer;
end $$;
revoke all on function settle.release_lease(text, text, bigint, text) from public;
grant execute on function settle.release_lease(text, text, bigint, text) to settle_app, settle_worker;

create or replace function settle_data.stale_token(namespace text, resource text, token bigint, current settle_data.lease)
returns void language plpgsql as $$
begin
    raise exception using errcode = 'ST005',
        message = 'STALE_TOKEN: token ' || coalesce(stale_token.token::text, 'NULL') || ' of ' || stale_token.resource
            || case when (stale_token.current).token is null then ' was never granted'
                    when (stale_token.current).token is distinct from stale_token.token
                        then ' is not the current one: ' || (stale_token.current).holder || ' holds token '
                             || (stale_token.current).token
                    when (stale_token.current).released_at is not null then ' was released'
                    else ' has lapsed' end,
        detail = jsonb_build_object('code', 'STALE_TOKEN', 'namespace', stale_token.namespace,
            'resource', stale_token.resource, 'token', stale_token.token, 'current_token', (stale_token.current).token,
            'holder', (stale_token.current).holder, 'lease_until', (stale_token.current).lease_until)::text;
end $$;
revoke all on function settle_data.stale_token(text, text, bigint, settle_data.lease) from public;

-- Passes only a token that is the resource's current one, with its lease not lapsed, and holds it current until the
-- transaction ends: a takeover waits for it. Raises STALE_TOKEN otherwise, which ends the transaction's writes.
create or replace function settle.check_fence(resource text, token bigint, namespace text default 'default')
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    row_of settle_data.lease;
    passed text := current_setting('settle.fences', true);
begin
    select l.* into row_of from settle_data.lease l
    where l.namespace = check_fence.namespace and l.resource = check_fence.resource for key share;
    if row_of.token is distinct from check_fence.token or row_of.lease_until <= clock_timestamp()
        or row_of.token is null then
        perform settle_data.check_name('resource', check_fence.resource, 255);
        perform settle_data.stale_token(check_fence.namespace, check_fence.resource, check_fence.token, row_of);
    end if;
    -- For fence_guard. Transaction-local, and gone with its savepoint, as the lock is.
    perform set_config('settle.fences', (coalesce(nullif(passed, ''), '{}')::jsonb || jsonb_build_object(
        check_fence.namespace || chr(31) || check_fence.resource, check_fence.token))::text, true);
end $$;
revoke all on function settle.check_fence(text, bigint, text) from public;
grant execute on function settle.check_fence(text, bigint, text) to settle_app, settle_worker, settle_handler;

-- What fence_guard asks with the writer's rights. Not for callers.
create or replace function settle.require_fence(resource text, namespace text default 'default')
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    token bigint;
    row_of settle_data.lease;
begin
    token := (coalesce(nullif(current_setting('settle.fences', true), ''), '{}')::jsonb
              ->> (require_fence.namespace || chr(31) || require_fence.resource))::bigint;
    select l.* into row_of from settle_data.lease l
    where l.namespace = require_fence.namespace and l.resource = require_fence.resource for key share;
    if token is null then
        raise exception using errcode = 'ST005',
            message = 'STALE_TOKEN: this transaction has passed no check_fence for ' || coalesce(require_fence.resource, 'NULL'),
            detail = jsonb_build_object('code', 'STALE_TOKEN', 'namespace', require_fence.namespace,
                'resource', require_fence.resource, 'token', null, 'current_token', row_of.token,
                'holder', row_of.holder)::text;
    elsif row_of.token is distinct from token or row_of.lease_until <= clock_timestamp() then
        perform settle_data.stale_token(require_fence.namespace, require_fence.resource, token, row_of);
    end if;
end $$;
revoke all on function settle.require_fence(text, text) from public;
grant execute on function settle.require_fence(text, text) to settle_app, settle_worker, settle_handler;

-- A trigger for any table: refuses a write of a transaction that has not passed check_fence for the resource in the
-- trigger's first argument: a literal, or `column:NAME`, the row's own, for one resource a row (the old row's and the
-- new one's). The optional second argument is the namespace. It stops mistakes and stale holders; a role that forges
-- the setting `settle.fences` must still name the token that is current. It runs with the writer's rights: to_jsonb
-- calls the casts that a column's type declares, and a definer would run anybody's as Settle's owner.
--     create trigger guard before insert or update or delete on bank.account
--         for each row execute function settle.fence_guard('column:account_id');
create or replace function settle.fence_guard()
returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    argument text := tg_argv[0];
    namespace_of text := coalesce(tg_argv[1], 'default');
    member text := substr(argument, 8);
    touched jsonb[] := array[]::jsonb[];
    place jsonb;
    why text;
begin
    if argument is null then
        why := 'needs a resource or column:NAME as the trigger''s first argument';
    elsif argument not like 'column:%' then
        perform settle.require_fence(argument, namespace_of);
    elsif tg_level = 'STATEMENT' then
        why := 'with column:NAME guards rows: declare the trigger for each row';
    else
        if tg_op in ('UPDATE', 'DELETE') then
            touched := array_append(touched, to_jsonb(old));
        end if;
        if tg_op in ('INSERT', 'UPDATE') then
            touched := array_append(touched, to_jsonb(new));
        end if;
        foreach place in array touched loop
            if place ? member then
                perform settle.require_fence(place ->> member, namespace_of);
            else
                why := 'names column ' || member || ', which the table does not have';
            end if;
        end loop;
    end if;
    if why is not null then
        raise exception using errcode = 'ST007', message = 'INVALID_ARGUMENT: fence_guard ' || why,
            detail = jsonb_build_object('code', 'INVALID_ARGUMENT', 'field', 'fence_guard', 'why', why)::text;
    end if;
    return case tg_op when 'DELETE' then old else new end;
end $$;
revoke all on function settle.fence_guard() from public;
grant execute on function settle.fence_guard() to settle_app, settle_worker, settle_admin;
