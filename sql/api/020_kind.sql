-- Kinds: declared, checked to the last member, kept as numbered revisions.

-- "30s", "200ms", "24h", "7d" as an interval; the same form in every declaration.
create or replace function settle_data.parse_duration(field text, duration jsonb)
returns interval language plpgsql immutable as $$
declare
    parts text[];
begin
    if jsonb_typeof(parse_duration.duration) = 'string' then
        parts := regexp_match(parse_duration.duration #>> '{}', '^([0-9]{1,12})(ms|s|m|h|d)$');
    end if;
    if parts is null then
        perform settle_data.invalid(parse_duration.field, 'is no duration: write a whole number and ms, s, m, h or d, as "30s"');
    end if;
    return settle_data.checked_duration(parse_duration.field, parts[1]::numeric * case parts[2]
        when 'ms' then 1 when 's' then 1000 when 'm' then 60000 when 'h' then 3600000 else 86400000 end);
end $$;
revoke all on function settle_data.parse_duration(text, jsonb) from public;

create or replace function settle_data.checked_duration(field text, duration_ms numeric)
returns interval language plpgsql immutable as $$
begin
    if checked_duration.duration_ms < 1 or checked_duration.duration_ms > 315360000000 then
        perform settle_data.invalid(checked_duration.field, 'is outside 1 ms to 10 years');
    end if;
    return make_interval(secs => (checked_duration.duration_ms / 1000)::double precision);
end $$;
revoke all on function settle_data.checked_duration(text, numeric) from public;

-- Every member a declaration may have, and what it must be. Forms: text, boolean, duration, name (a name of Settle's),
-- pointers, object, choice:a|b, list:a|b, integer:low..high, number:low..high.
create or replace view settle_data.kind_member as
select * from (values
    ('effect', 'choice:local|keyed|opaque'), ('handler', 'object'), ('identity', 'pointers'),
    ('resource', 'text'), ('secret', 'boolean'), ('null_is_absent', 'boolean'), ('queue', 'name'),
    ('lease', 'duration'), ('timeout', 'duration'), ('key_window', 'forever'),
    ('events', 'list:succeeded|failed|cancelled|unknown|review|compensated'),
    ('retry', 'object'), ('resolve', 'object'), ('compensation', 'object'), ('limits', 'object'), ('review', 'object'),
    ('retention', 'object'),
    ('handler.sql', 'text'), ('handler.http', 'text'), ('handler.command', 'texts'), ('handler.native', 'boolean'),
    ('handler.key_header', 'text'), ('handler.result_ref', 'text'), ('handler.state', 'any'),
    ('retry.max_attempts', 'integer:1..1000000'), ('retry.deadline', 'duration'), ('retry.base_delay', 'duration'),
    ('retry.max_delay', 'duration'), ('retry.in_flight', 'integer:1..100000'), ('retry.budget', 'number:0..100'),
    ('retry.classes', 'any'),
    ('resolve.handler', 'any'), ('resolve.settle_window', 'duration'), ('resolve.base_delay', 'duration'),
    ('resolve.max_delay', 'duration'), ('resolve.deadline', 'duration'), ('resolve.compare', 'pointers'),
    ('compensation.kind', 'name'),
    ('limits.running', 'integer:1..1000000'), ('limits.lane_running', 'integer:1..1000000'),
    ('limits.lane_order', 'choice:any|strict'),
    ('review.approvals', 'integer:1..2'), ('review.rerun_failed', 'boolean'), ('review.hold_lane', 'boolean'),
    ('retention.detail', 'forever'), ('retention.key', 'forever'), ('retention.rerun_window', 'duration'),
    ('retention.redelivery_window', 'duration')
) as member (path, form);
revoke all on settle_data.kind_member from public;

create or replace function settle_data.check_member(path text, form text, value jsonb)
returns void language plpgsql as $$
declare
    kind_of text := split_part(check_member.form, ':', 1);
    choices text := split_part(check_member.form, ':', 2);
    type_of text := jsonb_typeof(check_member.value);
    number numeric := case when jsonb_typeof(check_member.value) = 'number' then (check_member.value #>> '{}')::numeric end;
    why text;
begin
    why := case kind_of
        when 'object' then case when type_of <> 'object' then 'is no table' end
        when 'boolean' then case when type_of <> 'boolean' then 'is not true or false' end
        when 'text' then case when type_of <> 'string' or check_member.value #>> '{}' = '' then 'is no text' end
        when 'name' then case when type_of <> 'string' then 'is no text' end
        when 'texts' then case when type_of <> 'array' or check_member.value = '[]'
            or jsonb_path_exists(check_member.value, 'strict $[*] ? (@.type() <> "string")') then 'is no list of texts' end
        when 'pointers' then case when type_of <> 'array' or check_member.value = '[]'
            or jsonb_path_exists(check_member.value, 'strict $[*] ? (@.type() <> "string")')
            or exists (select from jsonb_array_elements_text(check_member.value) as p where p !~ '^(/([^~/]|~[01])*)+$')
            then 'is no list of JSON Pointers, as ["/account", "/amount"]' end
        when 'choice' then case when type_of <> 'string'
            or not (check_member.value #>> '{}') = any (string_to_array(choices, '|'))
            then 'is none of ' || replace(choices, '|', ', ') end
        when 'list' then case when type_of <> 'array' or exists (
                select from jsonb_array_elements(check_member.value) as item
                where jsonb_typeof(item) <> 'string' or not (item #>> '{}') = any (string_to_array(choices, '|')))
            then 'is no list of ' || replace(choices, '|', ', ') end
        when 'integer' then case when number is null or scale(number) > 0
            or number not between split_part(choices, '..', 1)::numeric and split_part(choices, '..', 2)::numeric
            then 'is no whole number from ' || replace(choices, '..', ' to ') end
        when 'number' then case when number is null
            or number not between split_part(choices, '..', 1)::numeric and split_part(choices, '..', 2)::numeric
            then 'is no number from ' || replace(choices, '..', ' to ') end
        end;
    if why is not null then
        perform settle_data.invalid(check_member.path, why);
    end if;
    if kind_of = 'name' then
        perform settle_data.check_name(check_member.path, check_member.value #>> '{}', 63);
    elsif kind_of = 'duration' or (kind_of = 'forever' and check_member.value <> '"forever"') then
        perform settle_data.parse_duration(check_member.path, check_member.value);
    end if;
end $$;
revoke all on function settle_data.check_member(text, text, jsonb) from public;

create or replace function settle_data.check_declaration(declaration jsonb)
returns void language plpgsql as $$
declare
    member record;
    form text;
    handlers integer;
begin
    if check_declaration.declaration is null or jsonb_typeof(check_declaration.declaration) <> 'object' then
        perform settle_data.invalid('declaration', 'is no object');
    end if;
    for member in
        -- a dot in a name would make it look like the member of a table
        select replace(m.key, '.', chr(92) || '.') as path, m.value from jsonb_each(check_declaration.declaration) m
        union all
        select t.key || '.' || replace(m.key, '.', chr(92) || '.'), m.value
        from jsonb_each(check_declaration.declaration) t
        cross join jsonb_each(case when jsonb_typeof(t.value) = 'object' then t.value end) m
    loop
        select k.form into form from settle_data.kind_member k where k.path = member.path;
        if not found then
            perform settle_data.invalid(member.path, 'is unknown');
        end if;
        perform settle_data.check_member(member.path, form, member.value);
    end loop;
    if not check_declaration.declaration ? 'effect' then
        perform settle_data.invalid('effect', 'is required: local, keyed or opaque');
    end if;
    handlers := (select count(*) from jsonb_object_keys(coalesce(check_declaration.declaration -> 'handler', '{}')) h
                 where h in ('sql', 'http', 'command', 'native'));
    if check_declaration.declaration ? 'handler' and handlers <> 1 then
        perform settle_data.invalid('handler', 'names not exactly one of sql, http, command and native');
    end if;
    if check_declaration.declaration #>> '{handler,sql}' !~
        E'^(([A-Za-z_\u0080-\U0010FFFF][A-Za-z0-9_$\u0080-\U0010FFFF]*|"([^"]|"")+")([.](?!$)|$)){1,2}$' then
        perform settle_data.invalid('handler.sql', 'is no name of a function, as bank.debit');
    end if;
    if check_declaration.declaration ->> 'effect' = 'local' and check_declaration.declaration -> 'handler' ?| '{http,command}' then
        perform settle_data.invalid('effect', 'is local, but an http or command handler acts outside the database');
    end if;
    if check_declaration.declaration ->> 'effect' = 'keyed' and check_declaration.declaration -> 'handler' ? 'http'
        and not check_declaration.declaration ? 'resolve' and not check_declaration.declaration ? 'key_window' then
        perform settle_data.invalid('key_window', 'is required of a keyed http kind without a resolver: how long the remote '
            || 'remembers a key, or "forever"');
    end if;
    perform settle_data.check_retention(check_declaration.declaration);
end $$;
revoke all on function settle_data.check_declaration(jsonb) from public;

-- A key must outlive everything that may still repeat it.
create or replace function settle_data.check_retention(declaration jsonb)
returns void language plpgsql as $$
declare
    kept jsonb := coalesce(check_retention.declaration #> '{retention,key}', '"forever"');
    horizon interval;
    seconds bigint;
    spelt text;
begin
    if kept = '"forever"' then
        return;
    end if;
    horizon := settle_data.parse_duration('retry.deadline', coalesce(check_retention.declaration #> '{retry,deadline}', '"15m"'))
        + settle_data.parse_duration('retention.redelivery_window',
            coalesce(check_retention.declaration #> '{retention,redelivery_window}', '"7d"'))
        + settle_data.parse_duration('retention.rerun_window',
            coalesce(check_retention.declaration #> '{retention,rerun_window}', '"90d"'));
    if settle_data.parse_duration('retention.key', kept) < horizon then
        seconds := ceil(extract(epoch from horizon));
        spelt := concat_ws(' ', nullif(seconds / 86400, 0)::text || 'd', nullif(seconds % 86400 / 3600, 0)::text || 'h',
            nullif(seconds % 3600 / 60, 0)::text || 'm', nullif(seconds % 60, 0)::text || 's');
        raise exception using errcode = 'ST009',
            message = 'RETENTION_TOO_SHORT: retention.key is ' || (kept #>> '{}') || ', but something may repeat a key for '
                || spelt || ' (retry.deadline, redelivery_window and rerun_window together)',
            detail = jsonb_build_object('code', 'RETENTION_TOO_SHORT', 'field', 'retention.key',
                                        'horizon', spelt)::text;
    end if;
end $$;
revoke all on function settle_data.check_retention(jsonb) from public;

-- Declares a kind, as a new revision where anything changed. Outcome `declared` or `unchanged`: applying twice is a
-- no-op. Operations keep the revision they began with; effect, identity and secret do not change while any is unfinished.
create or replace function settle.declare_kind(kind text, declaration jsonb, namespace text default 'default')
returns settle.declare_kind_answer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    answer settle.declare_kind_answer;
    old settle_data.kind_revision;
    new settle_data.kind_revision;
    field text;
    secret_key bytea;
begin
    perform settle_data.check_name('kind', declare_kind.kind, 63);
    perform settle_data.check_declaration(declare_kind.declaration);
    -- Two declarations at once: the second sees the first. One lock for all kinds, as each takes a counter of its own.
    perform pg_advisory_xact_lock(hashtextextended('settle declare_kind', 3));
    old := settle_data.kind_in_force(declare_kind.kind);
    answer.kind := declare_kind.kind;
    if old.declaration = declare_kind.declaration then
        answer.outcome := 'unchanged';
        answer.revision := old.revision;
        return answer;
    end if;

    new.kind := declare_kind.kind;
    new.revision := coalesce(old.revision, 0) + 1;
    new.effect := declare_kind.declaration ->> 'effect';
    new.handler_sql := declare_kind.declaration #>> '{handler,sql}';
    new.identity := (select array_agg(p order by n)
                     from jsonb_array_elements_text(declare_kind.declaration -> 'identity') with ordinality as i (p, n));
    new.null_is_absent := coalesce((declare_kind.declaration ->> 'null_is_absent')::boolean, false);
    new.secret := coalesce((declare_kind.declaration ->> 'secret')::boolean, false);
    new.lease := settle_data.parse_duration('lease', coalesce(declare_kind.declaration -> 'lease', '"30s"'));
    field := case when old.effect <> new.effect then 'effect'
                  when old.revision is not null and (old.identity is distinct from new.identity
                                                     or old.null_is_absent <> new.null_is_absent) then 'identity'
                  when old.secret <> new.secret then 'secret' end;
    if field is not null and exists (select from settle_data.operation o
                                     where o.open_since is not null and o.kind = declare_kind.kind) then
        perform settle_data.invalid(field, 'cannot change while operations of the kind are unfinished');
    end if;
    if new.secret then
        new.inner_pad := old.inner_pad;
        new.outer_pad := old.outer_pad;
        if new.inner_pad is null then
            -- 256 bits of the server's strong randomness
            secret_key := sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'));
            new.inner_pad := settle_data.pad_key(secret_key, 54);
            new.outer_pad := settle_data.pad_key(secret_key, 92);
        end if;
    end if;
    new.counter := coalesce(old.counter,
        (select case when count(distinct r.kind) < 31 then count(distinct r.kind) + 1 else 0 end
         from settle_data.kind_revision r));
    new.declaration := declare_kind.declaration;
    new.declared_at := clock_timestamp();
    new.declared_by := session_user;
    new.in_force := true;
    update settle_data.kind_revision r set in_force = false where r.kind = new.kind and r.in_force;
    -- At the stronger levels a declaration outside the snapshot raises 40001 here; at READ COMMITTED the lock has shown it.
    insert into settle_data.kind_revision select new.* on conflict do nothing;
    answer.outcome := 'declared';
    answer.revision := new.revision;
    return answer;
end $$;
revoke all on function settle.declare_kind(text, jsonb, text) from public;
grant execute on function settle.declare_kind(text, jsonb, text) to settle_admin;

-- RFC 2104: the key, filled with zeros to a block of 64 bytes, exclusive-ored with one byte.
create or replace function settle_data.pad_key(secret_key bytea, byte integer)
returns bytea language plpgsql immutable as $$
declare
    padded bytea := pad_key.secret_key || decode(repeat('00', 64 - length(pad_key.secret_key)), 'hex');
begin
    for i in 0 .. 63 loop
        padded := set_byte(padded, i, get_byte(padded, i) # pad_key.byte);
    end loop;
    return padded;
end $$;
revoke all on function settle_data.pad_key(bytea, integer) from public;
