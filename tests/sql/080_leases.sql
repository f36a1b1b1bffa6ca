-- Leases on resources: tokens that only grow, and never a lapsed one renewed.
\ir support/check.psql

select test.same('granted', to_jsonb(settle.acquire_lease('r', 'w1', '1h')) - 'lease_until', '{"outcome":"granted","token":1,"holder":"w1"}'::jsonb);
select test.ok('by the clock of the database', lease_until - clock_timestamp() between interval '59 min' and interval '1 h') from settle.leases where resource = 'r';
select test.same('held', to_jsonb(settle.acquire_lease('r', 'w2', '1h')) - 'lease_until', '{"outcome":"held","token":1,"holder":"w1"}'::jsonb);
select test.same('held by oneself', to_jsonb(settle.acquire_lease('r', 'w1', '1h')) - 'lease_until', '{"outcome":"held","token":1,"holder":"w1"}'::jsonb);
select test.same('renewed', to_jsonb(settle.renew_lease('r', 'w1', 1, '2h')) - 'lease_until', '{"outcome":"renewed","token":1,"holder":"w1"}'::jsonb);
create table test.answer as select * from settle.renew_lease('r', 'w1', 1, '3h');
select test.ok('until', a.lease_until = l.lease_until and a.lease_until - clock_timestamp() between interval '2 h 59 min' and interval '3 h')
from test.answer a, settle.leases l where l.resource = 'r';

-- Who has not the current token, or another name, has lost; it is told who holds, and nothing changes.
create table test.before as select test.everything() as state;
select test.same('lost: ' || holder || token, to_jsonb(settle.renew_lease('r', holder, token, '1h')) - 'lease_until', '{"outcome":"lost","token":1,"holder":"w1"}'::jsonb)
from (values ('w2', 1::bigint), ('w1', 2), ('w1', 9223372036854775807)) as loser (holder, token);
select test.same('lost: ' || holder || token, to_jsonb(settle.release_lease('r', holder, token)) - 'lease_until', '{"outcome":"lost","token":1,"holder":"w1"}'::jsonb)
from (values ('w2', 1::bigint), ('w1', 2), ('w1', 9223372036854775807)) as loser (holder, token);
select test.same('never seen', to_jsonb(settle.renew_lease('other', 'w1', 1, '1h')), '{"outcome":"lost","token":null,"holder":null,"lease_until":null}'::jsonb);
select test.same('never seen', to_jsonb(settle.release_lease('other', 'w1', 1)), '{"outcome":"lost","token":null,"holder":null,"lease_until":null}'::jsonb);
select test.ok('nothing changed', state = test.everything()) from test.before;

-- Released: it lapses now; the token stays behind.
select test.same('released', to_jsonb(settle.release_lease('r', 'w1', 1)) - 'lease_until', '{"outcome":"released","token":1,"holder":"w1"}'::jsonb);
select test.same('state', state, 'released') from settle.leases where resource = 'r';
update test.before set state = test.everything();
select test.same('released again', (settle.release_lease('r', 'w1', 1)).outcome, 'released');
select test.same('not renewed', (settle.renew_lease('r', 'w1', 1, '1h')).outcome, 'lost');
select test.ok('nothing changed', state = test.everything()) from test.before;
select test.same('granted under the next', to_jsonb(settle.acquire_lease('r', 'w2', '1h')) - 'lease_until', '{"outcome":"granted","token":2,"holder":"w2"}'::jsonb);
select test.same('the old release is lost', to_jsonb(settle.release_lease('r', 'w1', 1)) - 'lease_until', '{"outcome":"lost","token":2,"holder":"w2"}'::jsonb);

-- Lapsed: neither renewed nor released, taken over or not.
select test.lapse_resource('r');
update test.before set state = test.everything();
select test.same('lost', (settle.renew_lease('r', 'w2', 2, '1h')).outcome || (settle.release_lease('r', 'w2', 2)).outcome, 'lostlost');
select test.ok('nothing changed', state = test.everything()) from test.before;
select test.same('state', state, 'lapsed') from settle.leases where resource = 'r';
select test.same('the same holder is granted a new token', to_jsonb(settle.acquire_lease('r', 'w2', '1h')) - 'lease_until', '{"outcome":"granted","token":3,"holder":"w2"}'::jsonb);
select test.same('state', state, 'live') from settle.leases where resource = 'r';
do $$
declare
    last_token bigint := 3;
    answer settle.acquire_lease_answer;
begin
    for i in 1 .. 20 loop
        if i % 2 = 0 then perform settle.release_lease('r', 'w' || (i - 1), last_token); else perform test.lapse_resource('r'); end if;
        answer := settle.acquire_lease('r', 'w' || i, '1h');
        perform test.same('tokens only grow', answer.token, last_token + 1);
        last_token := answer.token;
    end loop;
end $$;

-- Rolled back, nothing was granted.
begin;
select test.same('granted', (settle.acquire_lease('rolled', 'w1', '1h')).token, 1::bigint);
rollback;
select test.same('and granted again', (settle.acquire_lease('rolled', 'w2', '1h')).token, 1::bigint);

-- Namespaces, and resources of any name.
select test.same('another namespace', (settle.acquire_lease('r', 'w9', '1h', namespace => 'T2')).token, 1::bigint);
select test.same('its own', (settle.renew_lease('r', 'w9', 1, '1h', namespace => 'T2')).outcome || (settle.release_lease('r', 'w9', 1, namespace => 'T2')).outcome, 'renewedreleased');
select test.same(name, (settle.acquire_lease(name, 'w', '1h')).outcome, 'granted') from unnest(array['R', 'column:x', 'a/b', repeat('r', 255), 'é', 'e' || chr(769)]) as name;

-- Bad input names the field, and changes nothing.
update test.before set state = test.everything();
create function test.bad(call text, field text, why text) returns void language plpgsql as $$ begin perform test.invalid(call, 'select settle.' || call, field, why); end $$;
select test.bad(replace(call, 'RES', bad), 'resource', why)
from unnest(array[$$acquire_lease(RES, 'w', '1h')$$, $$renew_lease(RES, 'w', 1, '1h')$$, $$release_lease(RES, 'w', 1)$$]) as call,
    (values ('null', 'is required'), ($$''$$, 'is empty'), ($$' r'$$, 'begins or ends with a space'), ($$E'a\x01'$$, 'holds a control character'), ($$repeat('r', 256)$$, 'is 256 bytes long; the limit is 255')) as b (bad, why);
select test.bad(replace(call, 'HOLDER', bad), 'holder', why)
from unnest(array[$$acquire_lease('r2', HOLDER, '1h')$$, $$renew_lease('r', HOLDER, 1, '1h')$$, $$release_lease('r', HOLDER, 1)$$]) as call,
    (values ('null', 'is required'), ($$''$$, 'is empty'), ($$repeat('h', 256)$$, 'is 256 bytes long; the limit is 255')) as b (bad, why);
select test.bad(replace(call, 'TTL', bad), 'ttl', why)
from unnest(array[$$acquire_lease('r2', 'w', TTL)$$, $$renew_lease('r', 'w', 1, TTL)$$]) as call,
    (values ('null', 'is required'), ($$'0'$$, 'is outside 1 ms to 10 years'), ($$'-1s'$$, 'is outside 1 ms to 10 years'), ($$'11 years'$$, 'is outside 1 ms to 10 years'), ($$'0.5 ms'$$, 'is outside 1 ms to 10 years')) as b (bad, why);
select test.bad(replace(call, 'TOKEN', bad), 'token', 'is no token: the lowest is 1')
from unnest(array[$$renew_lease('r', 'w', TOKEN, '1h')$$, $$release_lease('r', 'w', TOKEN)$$]) as call, unnest(array['null', '0', '-1', '(-9223372036854775808)']) as bad;
select test.bad(replace(call, 'NS', bad), 'namespace', why)
from unnest(array[$$acquire_lease('r', 'w', '1h', NS)$$, $$renew_lease('r', 'w', 1, '1h', NS)$$, $$release_lease('r', 'w', 1, NS)$$]) as call,
    (values ('null', 'is required'), ($$''$$, 'is empty'), ($$repeat('n', 64)$$, 'is 64 bytes long; the limit is 63')) as b (bad, why);
select test.ok('nothing changed', state = test.everything()) from test.before;
