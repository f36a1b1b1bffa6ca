-- Checks of names and requests, the digest, and the comparison of requests.

create or replace function settle_data.invalid(field text, why text)
returns void language plpgsql as $$
begin
    raise exception using errcode = 'ST007',
        message = 'INVALID_ARGUMENT: ' || invalid.field || ' ' || invalid.why,
        detail = jsonb_build_object('code', 'INVALID_ARGUMENT', 'field', invalid.field, 'why', invalid.why)::text;
end $$;
revoke all on function settle_data.invalid(text, text) from public;

-- The rules of keys, which names share: no normalisation, no truncation, nothing that looks like another key.
create or replace function settle_data.check_name(field text, name text, max_bytes integer)
returns void language plpgsql as $$
begin
    if check_name.name is null then
        perform settle_data.invalid(check_name.field, 'is required');
    elsif check_name.name = '' then
        perform settle_data.invalid(check_name.field, 'is empty');
    elsif octet_length(check_name.name) > check_name.max_bytes then
        perform settle_data.invalid(check_name.field, format('is %s bytes long; the limit is %s',
            octet_length(check_name.name), check_name.max_bytes));
    elsif check_name.name ~ E'[\u0001-\u001F\u007F-\u009F]' then
        perform settle_data.invalid(check_name.field, 'holds a control character');
    elsif left(check_name.name, 1) = ' ' or right(check_name.name, 1) = ' ' then
        perform settle_data.invalid(check_name.field, 'begins or ends with a space');
    end if;
end $$;
revoke all on function settle_data.check_name(text, text, integer) from public;

-- The same rules as one expression: a function the planner inlines, for the path that every new operation takes.
create or replace function settle_data.is_name(name text, max_bytes integer)
returns boolean language sql immutable as $$
    select octet_length(is_name.name) between 1 and is_name.max_bytes and left(is_name.name, 1) <> ' '
        and right(is_name.name, 1) <> ' ' and is_name.name !~ E'[\u0001-\u001F\u007F-\u009F]'
$$;
revoke all on function settle_data.is_name(text, integer) from public;

-- A key as a caller gives it: `~undo` belongs to compensations, which Settle names itself.
create or replace function settle_data.check_key(key text)
returns void language plpgsql as $$
begin
    perform settle_data.check_name('key', check_key.key, 255);
    if right(check_key.key, 5) = '~undo' then
        perform settle_data.invalid('key', 'ends with ~undo, which is kept for compensations: use begin_compensation');
    end if;
end $$;
revoke all on function settle_data.check_key(text) from public;

create or replace function settle_data.check_duration(field text, duration interval)
returns void language plpgsql as $$
begin
    if check_duration.duration is null then
        perform settle_data.invalid(check_duration.field, 'is required');
    elsif extract(epoch from check_duration.duration) not between 0.001 and 315576000 then
        perform settle_data.invalid(check_duration.field, 'is outside 1 ms to 10 years');
    end if;
end $$;
revoke all on function settle_data.check_duration(text, interval) from public;

-- A duration as seconds: what it adds to a time must not depend on the session's zone, as days and months do.
create or replace function settle_data.seconds_of(duration interval)
returns interval language sql immutable as $$
    select make_interval(secs => extract(epoch from seconds_of.duration)::double precision)
$$;
revoke all on function settle_data.seconds_of(interval) from public;

-- Whether a JSON number is below 1e309 and has at most 400 digits written out as a decimal.
create or replace function settle_data.number_fits(number text)
returns boolean language plpgsql immutable as $$
declare
    parts text[] := regexp_match(number_fits.number, '^-?([0-9]+)(?:[.]([0-9]+))?(?:[eE]([+-]?[0-9]+))?$');
    digits text;
    significant text;
    magnitude bigint;  -- the value is 0.<significant> times ten to this
begin
    if length(coalesce(parts[3], '')) > 7 then
        return false;
    end if;
    digits := parts[1] || coalesce(parts[2], '');
    significant := ltrim(digits, '0');
    if significant = '' then
        return length(digits) <= 400;
    end if;
    magnitude := length(parts[1]) - (length(digits) - length(significant)) + coalesce(parts[3], '0')::bigint;
    significant := rtrim(significant, '0');
    return magnitude < 310
        and greatest(magnitude, 1) + greatest(length(significant) - magnitude, 0) <= 400;
end $$;
revoke all on function settle_data.number_fits(text) from public;

-- Whether a request is too short to break any of the limits that check_request looks for: an expression, which the
-- planner inlines, for the path of every new operation. 33 opening brackets are 33 nestings at the most, and fewer
-- than 309 characters hold no number of 1e309.
create or replace function settle_data.is_plain_request(request jsonb)
returns boolean language sql stable as $$
    select octet_length(is_plain_request.request::text) <= 65
        or (octet_length(is_plain_request.request::text) <= 308
            and octet_length(translate(is_plain_request.request::text, '{[', '')) > octet_length(is_plain_request.request::text) - 33)
$$;
revoke all on function settle_data.is_plain_request(jsonb) from public;

-- What a function that is given jsonb can still see of the limits of a request. The cheap looks come first: most
-- requests are too short to break any of the rules.
create or replace function settle_data.check_request(field text, request jsonb)
returns boolean language plpgsql as $$
declare
    spelt text := check_request.request::text;
begin
    if spelt is null then
        perform settle_data.invalid(check_request.field, 'is null; an empty one is {}');
    elsif octet_length(spelt) > 1048576 then
        perform settle_data.invalid(check_request.field, format('is %s bytes long; the limit is 1048576',
            octet_length(spelt)));
    end if;
    if octet_length(spelt) >= 66 and octet_length(translate(spelt, '{[', '')) <= octet_length(spelt) - 33
        and jsonb_path_exists(check_request.request,
            'strict $.**{32 to last} ? (@.type() == "object" || @.type() == "array")') then
        perform settle_data.invalid(check_request.field, 'is nested deeper than 32');
    end if;
    if octet_length(spelt) > 308 and spelt ~ '[0-9]{150}[0-9.]{150}'
        and exists (
            select from jsonb_path_query(check_request.request, 'strict $.** ? (@.type() == "number")') as found (number)
            where not settle_data.number_fits(found.number::text)) then
        perform settle_data.invalid(check_request.field, 'holds a number of 1e309 or beyond, or of more than 400 digits');
    end if;
    return true;
end $$;
revoke all on function settle_data.check_request(text, jsonb) from public;

-- JSON Pointer (RFC 6901) to a path of jsonb. "/" is one step, the member without a name.
create or replace function settle_data.pointer_path(pointer text)
returns text[] language sql immutable as $$
    select coalesce(array_agg(replace(replace(step, '~1', '/'), '~0', '~') order by place), array[''])
    from unnest(string_to_array(substr(pointer_path.pointer, 2), '/')) with ordinality as steps (step, place)
$$;
revoke all on function settle_data.pointer_path(text) from public;

-- What a pointer finds; null where it finds nothing. jsonb itself would take -1, +1 and 01 for items of an array.
create or replace function settle_data.at_pointer(value jsonb, pointer text)
returns jsonb language plpgsql immutable as $$
declare
    path text[] := settle_data.pointer_path(at_pointer.pointer);
    place jsonb := at_pointer.value;
    step text;
begin
    if at_pointer.pointer !~ '/([-+[:space:]]|0[0-9])' then
        return place #> path;
    end if;
    foreach step in array path loop
        if jsonb_typeof(place) = 'array' and step !~ '^(0|[1-9][0-9]*)$' then
            return null;
        end if;
        place := place #> array[step];
    end loop;
    return place;
end $$;
revoke all on function settle_data.at_pointer(jsonb, text) from public;

create or replace function settle_data.pointer_step(step text)
returns text language sql immutable as $$
    select replace(replace(pointer_step.step, '~', '~0'), '/', '~1')
$$;
revoke all on function settle_data.pointer_step(text) from public;

-- What of a request makes it this request and no other: the members that the identity's pointers find, by pointer; the
-- whole request where the kind names none. A pointer that finds nothing adds no member, so that null and absent differ.
create or replace function settle_data.identity_of(request jsonb, identity text[], null_is_absent boolean)
returns jsonb language plpgsql immutable as $$
declare
    seen jsonb := case when identity_of.null_is_absent then jsonb_strip_nulls(identity_of.request)
                       else identity_of.request end;
begin
    if identity_of.identity is null then
        return seen;
    end if;
    return (select coalesce(jsonb_object_agg(found.pointer, found.value), '{}')
            from (select pointer, settle_data.at_pointer(seen, pointer) as value
                  from unnest(identity_of.identity) as pointer) as found
            where found.value is not null);
end $$;
revoke all on function settle_data.identity_of(jsonb, text[], boolean) from public;

-- The canonical text of a value: members sorted by UTF-16 code units (RFC 8785), numbers exact and without trailing
-- zeros or exponent, strings with the fewest escapes, no white space. UTF-8 order differs from that order only where a
-- character beyond U+FFFF meets one from U+E000 on: its lead surrogate sorts just after U+D7FF, which the key is given.
create or replace function settle_data.canonical(value jsonb)
returns text language plpgsql immutable as $$
begin
    case jsonb_typeof(canonical.value)
    when 'object' then
        return (select '{' || coalesce(string_agg(to_json(member.key)::text || ':' ||
                    case jsonb_typeof(member.value)
                        when 'object' then settle_data.canonical(member.value)
                        when 'array' then settle_data.canonical(member.value)
                        when 'number' then trim_scale((member.value #>> '{}')::numeric)::text
                        else member.value::text end, ','
                    order by regexp_replace(member.key, E'([\U00010000-\U0010FFFF])',
                        chr(55295) || chr(92) || '1', 'g') collate "C"), '') || '}'
                from jsonb_each(canonical.value) as member);
    when 'array' then
        return (select '[' || coalesce(string_agg(
                    case jsonb_typeof(item.value)
                        when 'object' then settle_data.canonical(item.value)
                        when 'array' then settle_data.canonical(item.value)
                        when 'number' then trim_scale((item.value #>> '{}')::numeric)::text
                        else item.value::text end, ',' order by item.place), '') || ']'
                from jsonb_array_elements(canonical.value) with ordinality as item (value, place));
    when 'number' then
        return trim_scale((canonical.value #>> '{}')::numeric)::text;
    else
        return canonical.value::text;
    end case;
end $$;
revoke all on function settle_data.canonical(jsonb) from public;

create or replace function settle_data.digest_under(revision settle_data.kind_revision, request jsonb)
returns text language plpgsql stable as $$
declare
    text_of bytea := convert_to(settle_data.canonical(settle_data.identity_of(digest_under.request,
        (digest_under.revision).identity, coalesce((digest_under.revision).null_is_absent, false))), 'UTF8');
begin
    if (digest_under.revision).secret then
        return '1:' || encode(sha256((digest_under.revision).outer_pad
            || sha256((digest_under.revision).inner_pad || text_of)), 'hex');
    end if;
    return '1:' || encode(sha256(text_of), 'hex');
end $$;
revoke all on function settle_data.digest_under(settle_data.kind_revision, jsonb) from public;

-- The revision of a kind that is in force; all null for a kind that was never declared.
create or replace function settle_data.kind_in_force(kind text)
returns settle_data.kind_revision language plpgsql stable as $$
declare
    revision settle_data.kind_revision;
begin
    select r.* into revision from settle_data.kind_revision r
    where r.kind = kind_in_force.kind and r.in_force;
    return revision;
end $$;
revoke all on function settle_data.kind_in_force(text) from public;

create or replace function settle_data.kind_at(kind text, revision integer)
returns settle_data.kind_revision language plpgsql stable as $$
declare
    found_revision settle_data.kind_revision;
begin
    select r.* into found_revision from settle_data.kind_revision r
    where r.kind = kind_at.kind and r.revision = kind_at.revision;
    return found_revision;
end $$;
revoke all on function settle_data.kind_at(text, integer) from public;

-- The digest of a request under the kind's revision in force: `1:` and SHA-256 of the canonical identity fields in
-- hexadecimal; keyed (HMAC) where the kind is secret. Version 1 of the rule; the version is part of the text. Not for
-- viewers: who sees a secret operation's digest must not be able to try requests against it.
create or replace function settle.digest(kind text, request jsonb, namespace text default 'default')
returns text language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform settle_data.check_name('kind', digest.kind, 63);
    if settle_data.check_request('request', digest.request) then null; end if;
    return settle_data.digest_under(settle_data.kind_in_force(digest.kind), digest.request);
end $$;
revoke all on function settle.digest(text, jsonb, text) from public;
grant execute on function settle.digest(text, jsonb, text)
    to settle_app, settle_worker, settle_operator, settle_admin;

-- One step further. A pointer of more than 1000 bytes is cut, with a mark that keeps it apart from others: each of a
-- hundred thousand items under one long name would else repeat that name.
create or replace function settle_data.pointer_to(pointer text, step text)
returns text language sql immutable as $$
    select case when octet_length(pointer_to.pointer) + octet_length(pointer_to.step) < 1000
        then pointer_to.pointer || '/' || settle_data.pointer_step(pointer_to.step)
        else left(pointer_to.pointer || '/' || settle_data.pointer_step(pointer_to.step), 200) || ' [settle: cut, sha256 '
            || encode(sha256(convert_to(pointer_to.pointer || '/' || pointer_to.step, 'UTF8')), 'hex') || ']' end
$$;
revoke all on function settle_data.pointer_to(text, text) from public;

-- Where two values differ, as JSON Pointers: at most twenty, the outermost place of each difference.
create or replace function settle_data.differing_pointers(stored jsonb, given jsonb)
returns jsonb language sql immutable as $$
    with recursive place (pointer, stored, given) as (
        select '', differing_pointers.stored, differing_pointers.given
        union all
        select settle_data.pointer_to(place.pointer, child.step), child.stored, child.given
        from place cross join lateral (
            select coalesce(s.key, g.key), s.value, g.value
            from jsonb_each(case when jsonb_typeof(place.stored) = 'object' then place.stored end) s
                 full join jsonb_each(case when jsonb_typeof(place.given) = 'object' then place.given end) g
                 on g.key = s.key
            where jsonb_typeof(place.stored) = 'object' and jsonb_typeof(place.given) = 'object'
            union all
            select (coalesce(s.n, g.n) - 1)::text, s.value, g.value
            from jsonb_array_elements(case when jsonb_typeof(place.stored) = 'array' then place.stored end)
                     with ordinality as s (value, n)
                 full join jsonb_array_elements(case when jsonb_typeof(place.given) = 'array' then place.given end)
                     with ordinality as g (value, n) on g.n = s.n
            where jsonb_typeof(place.stored) = 'array' and jsonb_typeof(place.given) = 'array'
        ) as child (step, stored, given)
        where place.stored is distinct from place.given and child.stored is distinct from child.given
    )
    select coalesce(jsonb_agg(pointer order by pointer collate "C"), '[]')
    from (select pointer from place
          where stored is distinct from given
              and (stored is null or given is null or jsonb_typeof(stored) <> jsonb_typeof(given)
                   or jsonb_typeof(stored) not in ('object', 'array'))
          order by pointer collate "C" limit 20) as leaf
$$;
revoke all on function settle_data.differing_pointers(jsonb, jsonb) from public;
