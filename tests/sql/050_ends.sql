-- The ways out: complete, refuse, fail. Repeats of an end, results that cannot be stored, retries, bad input.
\ir support/check.psql

create function test.begun(of_key text, of_kind text default 'k', lease interval default '1h') returns void language plpgsql as $$
begin perform settle.begin_operation(of_key, of_kind, owner => 'w1', lease => lease); end $$;
create table test.before (state text);
insert into test.before values ('');

-- A repeat of the same end, whose first answer was lost, is answered like the first, and changes nothing.
select test.begun('A'), settle.complete('A', 1, 'ref', '{"r":1.50}');
update test.before set state = test.everything();
select test.same('again', to_jsonb(settle.complete('A', 1, 'ref', '{"r":1.5}')), '{"outcome":"completed","current_token":1,"holder":"w1"}'::jsonb);
select test.same('otherwise', (settle.complete('A', 1, ref, result)).outcome, 'stale')
from (values ('other', '{"r":1.5}'::jsonb), ('ref', '{"r":2}'), ('ref', null), (null, '{"r":1.5}'), (null, null)) as end_of (ref, result);
select test.same('refused', (settle.refuse('A', 1, 'NO')).outcome, 'stale');
select test.same('failed', (settle.fail('A', 1, 'transient', 'T', 't')).outcome, 'stale');
select test.ok('nothing changed', state = test.everything()) from test.before;
select test.begun('B'), settle.refuse('B', 1, 'NO', '{"d":1}');
update test.before set state = test.everything();
select test.same('again', to_jsonb(settle.refuse('B', 1, 'NO', '{"d":1.0}')), '{"outcome":"refused","current_token":1,"holder":"w1"}'::jsonb);
select test.same('otherwise', (settle.refuse('B', 1, code, detail)).outcome, 'stale') from (values ('NOT', '{"d":1}'::jsonb), ('NO', '{"d":2}'), ('NO', null)) as end_of (code, detail);
select test.same('completed', (settle.complete('B', 1)).outcome, 'stale');
select test.ok('nothing changed', state = test.everything()) from test.before;
select test.begun('C'), settle.complete('C', 1);
select test.same('of nothing, again', (settle.complete('C', 1)).outcome, 'completed');
-- A decision is no end of the holder's: his own words are no repeat of it.
select test.begun('D'), settle.fail('D', 1, 'unknown', 'U', 'u'), settle.decide('D', 'succeeded', 'ann', 'r', 'ref');
select test.same('late', (settle.complete('D', 1, 'ref')).outcome, 'stale');
select test.same('nor after it ran again', (settle.complete('D', 1, 'ref')).outcome, 'stale');

-- The end of one that was lost, while nobody took over, unknown or swept.
select test.begun('E'), settle.mark_sent('E', 1, 'remote'), test.lapse('E'), settle.begin_operation('E', 'k');
select test.same('unknown', test.status('E'), 'unknown');
select test.same('its holder knows', (settle.complete('E', 1, 'ref')).outcome || ' ' || test.status('E'), 'completed succeeded');
select test.same('one execution, ended well', jsonb_agg(jsonb_build_array(outcome, error, remote_ref)), '[["succeeded",null,"remote"]]'::jsonb) from settle.executions where key = 'E';
select test.begun('F'), test.lapse('F'), settle.sweep();
select test.same('swept', (settle.complete('F', 1, 'ref')).outcome, 'completed');
select test.same('as if never lost', to_jsonb(o) -> 'next_attempt_at', 'null'::jsonb) from settle_data.operation o where key = 'F';
select test.begun('G'), test.lapse('G'), settle.sweep(), settle.begin_operation('G', 'k', owner => 'w2', lease => '1h');
select test.same('taken over', to_jsonb(settle.complete('G', 1, 'ref')), '{"outcome":"stale","current_token":2,"holder":"w2"}'::jsonb);
-- Not of one that had failed and waits: that execution is over.
select test.begun('H'), settle.fail('H', 1, 'transient', 'T', 't');
select test.same('over', (settle.complete('H', 1)).outcome || (settle.refuse('H', 1, 'NO')).outcome || (settle.fail('H', 1, 'transient', 'T', 't')).outcome, 'stalestalestale');

-- Results: any JSON as it was given; a reference in it; one that cannot be stored ends the operation all the same.
select test.same(result::text, (settle.complete('R' || n, 1, result => result)).outcome, 'completed')
from (values (1, 'null'::jsonb), (2, '7'), (3, '"x"'), (4, '[]'), (5, '{"result_ref":"inside"}'), (6, '{"result_ref":7}'), (7, '{"a":{"result_ref":"deep"}}'), (8, '{"n":1e400}'),
    (9, (repeat('[', 100) || repeat(']', 100))::jsonb), (10, jsonb_build_object('result_ref', repeat('r', 300)))) as r (n, result), lateral (select test.begun('R' || n) offset 0) as b;
select test.same('references', jsonb_object_agg(key, result_ref) filter (where result_ref is not null), jsonb_build_object('R5', 'inside', 'R10', repeat('r', 255))) from settle.operations where key like 'R%';
select test.same('as given', result, '{"n":1e400}'::jsonb) from settle.operations where key = 'R8';
select test.begun('R11');
select test.same('the one given wins', (settle.complete('R11', 1, 'given', '{"result_ref":"inside"}')).outcome || (select result_ref from settle.operations where key = 'R5'), 'completedinside');
select test.same('the one given wins', result_ref, 'given') from settle.operations where key = 'R11';
select test.begun('L'), settle.complete('L', 1, 'ref', jsonb_build_object('body', (select string_agg(md5(i::text), '') from generate_series(1, 33000) as i)));
select test.ok('too large', o.status = 'succeeded' and o.result is null and o.result_ref = 'ref' and o.attempt_count = 1 and e.outcome = 'succeeded'
    and e.error ->> 'code' = 'RESULT_TOO_LARGE' and e.error ->> 'message' like 'the result of 10560__ bytes is over the limit of 1048576 and was not stored') from settle.operations o join settle.executions e using (key) where key = 'L';
select test.same('replayed without it', to_jsonb(settle.begin_operation('L', 'k')) - 'lease_until',
    '{"outcome":"replayed","token":null,"execution_id":"L#1","status":"succeeded","result_ref":"ref","result":null,"failure":null,"next_attempt_at":null,"holder":null,"attempt_count":1}'::jsonb);
select test.same('the same end again', (settle.complete('L', 1, 'ref', jsonb_build_object('body', (select string_agg(md5(i::text), '') from generate_series(1, 33000) as i)))).outcome, 'completed');
select test.begun('L1'), settle.complete('L1', 1, result => to_jsonb(repeat('x', 1048574)));
select test.same('1 MiB', length(result #>> '{}'), 1048574) from settle.operations where key = 'L1';
select test.begun('L2'), test.lapse('L2'), settle.begin_operation('L2', 'k', lease => '1h'), settle.complete('L2', 2, result => to_jsonb(repeat('x', 1048575)));
select test.same('too large, of a second execution', error ->> 'code', 'RESULT_TOO_LARGE') from settle.executions where key = 'L2' and token = 2;

-- fail: what it answers by class, what becomes due when.
select settle.declare_kind('slow', '{"effect":"keyed","retry":{"base_delay":"1s","max_delay":"1h","max_attempts":1000}}');
select test.begun('fail ' || class, 'slow') from unnest(array['transient', 'serialization', 'unknown', 'configuration', 'stale', 'cancelled', 'defect']) as class;
select test.same(class, (settle.fail('fail ' || class, 1, class, 'CODE', 'message')).outcome, wanted)
from (values ('transient', 'retry'), ('serialization', 'retry'), ('unknown', 'unknown'), ('configuration', 'review'), ('stale', 'retry'), ('cancelled', 'retry'), ('defect', 'review')) as c (class, wanted);
select test.same('statuses', jsonb_object_agg(substr(key, 6), jsonb_build_array(status, review_reason, last_error)), '{
    "transient":["pending",null,{"class":"transient","code":"CODE","message":"message"}], "serialization":["pending",null,{"class":"serialization","code":"CODE","message":"message"}],
    "unknown":["unknown",null,{"class":"unknown","code":"CODE","message":"message"}], "configuration":["review","configuration",{"class":"configuration","code":"CODE","message":"message"}],
    "stale":["pending",null,{"class":"stale","code":"CODE","message":"message"}], "cancelled":["pending",null,{"class":"cancelled","code":"CODE","message":"message"}],
    "defect":["review","defect",{"class":"defect","code":"CODE","message":"message"}]}'::jsonb) from settle.operations where key like 'fail %';
select test.same('outcomes', jsonb_object_agg(substr(key, 6), outcome), '{"transient":"failed","serialization":"failed","unknown":"unknown","configuration":"failed","stale":"failed","cancelled":"failed","defect":"failed"}'::jsonb)
from settle.executions where key like 'fail %';
select test.begun('maybe'), test.begun('asked');
select test.invalid('retry_after ' || bad, format($$select settle.fail('asked', 1, 'transient', 'T', 't', retry_after => %L)$$, bad), 'retry_after', 'is outside 0 to 10 years')
from unnest(array['-1 ms', '11 years', '100000000 years']) as bad;
select test.same('may have applied', to_jsonb(settle.fail('maybe', 1, 'defect', 'D', 'd', true)), '{"outcome":"unknown","next_attempt_at":null,"status":"unknown","current_token":1,"holder":"w1"}'::jsonb);
select test.ok('the answer is what is stored', (answer).outcome = 'retry' and (answer).status = 'pending' and (answer).next_attempt_at > clock_timestamp() + interval '59 s')
from settle.fail('asked', 1, 'transient', 'T', 't', retry_after => '60 s') as answer;
select test.ok('until when', next_attempt_at between clock_timestamp() + interval '59 s' and clock_timestamp() + interval '61 s') from settle.operations where key = 'asked';
select test.same('not before', (settle.begin_operation('asked', 'k', lease => '1h')).next_attempt_at, next_attempt_at) from settle.operations where key = 'asked';
select test.make_due('asked');
select test.same('then', to_jsonb(settle.begin_operation('asked', 'k', owner => 'w2', lease => '1h')) - 'lease_until',
    '{"outcome":"started","token":2,"execution_id":"asked#2","status":"running","result_ref":null,"result":null,"failure":null,"next_attempt_at":null,"holder":null,"attempt_count":2}'::jsonb);
-- Five attempts where nothing says otherwise; then a person.
do $$
declare
    outcomes text[];
begin
    perform test.begun('five');
    for i in 1 .. 5 loop
        outcomes := outcomes || (settle.fail('five', i, 'transient', 'T', 't')).outcome;
        exit when i = 5;
        perform test.make_due('five'), settle.begin_operation('five', 'k', lease => '1h');
    end loop;
    perform test.same('five', outcomes, array['retry', 'retry', 'retry', 'retry', 'review']);
end $$;
select test.same('exhausted', jsonb_build_array(status, review_reason, attempt_count), '["review","exhausted",5]'::jsonb) from settle.operations where key = 'five';
select settle.declare_kind('short', '{"effect":"keyed","retry":{"deadline":"1h","max_attempts":1000}}');
select test.begun('late', 'short');
update settle_data.operation set created_at = created_at - interval '1 h' where key = 'late';
select test.same('over its deadline', (settle.fail('late', 1, 'transient', 'T', 't')).outcome, 'review');
-- A cancel that was asked for ends it at its next failure.
select test.begun('cancel'), settle.cancel('cancel', 'ann', 'r');
select test.same('cancelled', (settle.fail('cancel', 1, 'transient', 'T', 't')).outcome || ' ' || test.status('cancel'), 'cancelled cancelled');
select test.same('replayed', (settle.begin_operation('cancel', 'k')).failure ->> 'code', 'CANCELLED');
select test.begun('cancel2'), settle.cancel('cancel2', 'ann', 'r');
select test.same('or is too late', (settle.complete('cancel2', 1)).outcome || ' ' || test.status('cancel2'), 'completed succeeded');
select test.begun('cancel3'), settle.cancel('cancel3', 'ann', 'r');
select test.same('what is unknown is not cancelled', (settle.fail('cancel3', 1, 'unknown', 'U', 'u')).outcome, 'unknown');

-- The wait before a retry: base times two to the attempts before, never past the cap, never overflowing.
create function test.longest_wait(declaration jsonb, attempt integer) returns double precision language plpgsql as $$
declare
    at timestamptz := '2026-01-01';
    longest interval := '0';
begin
    for i in 1 .. 300 loop
        longest := greatest(longest, settle_data.retry_at(declaration, attempt, null, at) - at);
        perform test.ok('never in the past', settle_data.retry_at(declaration, attempt, null, at) >= at);
    end loop;
    return extract(epoch from longest);
end $$;
select test.ok('attempt ' || attempt || ': ' || longest, longest <= cap and longest > cap * 0.9)
from (values (1, 1.0), (2, 2.0), (12, 2048.0), (13, 3600.0), (22, 3600.0), (23, 3600.0), (24, 3600.0), (34, 3600.0), (35, 3600.0), (54, 3600.0), (55, 3600.0), (63, 3600.0), (64, 3600.0), (1000, 3600.0), (2147483647, 3600.0)) as a (attempt, cap),
    lateral test.longest_wait('{"retry":{"base_delay":"1s","max_delay":"1h"}}', attempt) as longest;
select test.ok('by default', test.longest_wait('{}', 1) <= 0.2 and test.longest_wait('{}', 100) between 27 and 30);
select test.same('as the remote asked: ' || coalesce(asked::text, 'NULL'), settle_data.retry_at('{"retry":{"base_delay":"1ms","max_delay":"1ms"}}', 1, asked, '2026-01-01') - '2026-01-01' <= wanted + interval '1 ms'
    and settle_data.retry_at('{"retry":{"base_delay":"1ms","max_delay":"1ms"}}', 1, asked, '2026-01-01') - '2026-01-01' >= wanted, true)
from (values (null::interval, interval '0'), ('60 s', '60 s'), ('90 s', '90 s'), ('-1 s', '0'), ('999999999 s', '24 h'), ('0', '0'), ('25 h', '24 h')) as a (asked, wanted);
select test.same('a longer cap', settle_data.retry_at('{"retry":{"base_delay":"1ms","max_delay":"3d"}}', 1, '70 h', '2026-01-01') - '2026-01-01' between '70 h' and '70 h 1 s', true);

-- Text is cut at 64 KiB, with a mark, at a character.
select test.begun('text'), settle.fail('text', 1, 'defect', 'D', repeat('é', 40000));
select test.ok('cut', length(error ->> 'message') < 17000 and error ->> 'message' like 'éé%é [settle: cut, 80000 bytes in all]') from settle.executions where key = 'text';
select test.begun('text2'), settle.fail('text2', 1, 'defect', 'D', repeat('x', 65536));
select test.same('whole', length(error ->> 'message'), 65536) from settle.executions where key = 'text2';

-- Bad input names the field, and changes nothing.
select test.begun('bad');
update test.before set state = test.everything();
create function test.bad(call text, field text, why text) returns void language plpgsql as $$ begin perform test.invalid(call, 'select settle.' || call, field, why); end $$;
select test.bad(replace(call, 'TOKEN', bad), 'token', 'is no token: the lowest is 1')
from unnest(array['complete(''bad'', TOKEN)', 'refuse(''bad'', TOKEN, ''NO'')', 'fail(''bad'', TOKEN, ''transient'', ''T'', ''t'')', 'mark_sent(''bad'', TOKEN)', 'renew(''bad'', TOKEN)']) as call,
    unnest(array['null', '0', '-1', '(-9223372036854775808)']) as bad;
select test.same('the greatest token is stale', (settle.complete('bad', 9223372036854775807)).outcome || (settle.refuse('bad', 9223372036854775807, 'NO')).outcome || (settle.renew('bad', 9223372036854775807)).outcome
    || (settle.mark_sent('bad', 9223372036854775807)).outcome || (settle.fail('bad', 9223372036854775807, 'transient', 'T', 't')).outcome, 'stalestalestalestalestale');
select test.bad(replace(call, 'KEY', bad), 'key', why)
from unnest(array['complete(KEY, 1)', 'refuse(KEY, 1, ''NO'')', 'fail(KEY, 1, ''transient'', ''T'', ''t'')', 'mark_sent(KEY, 1)', 'renew(KEY, 1)']) as call,
    (values ('null', 'is required'), ('''''', 'is empty'), ($$' '$$, 'begins or ends with a space'), ('repeat(''k'', 512)', 'is 512 bytes long; the limit is 511')) as b (bad, why);
select test.bad(replace('refuse(''bad'', 1, CODE)', 'CODE', bad), 'code', why) from (values ('null', 'is required'), ('''''', 'is empty'), ('repeat(''c'', 256)', 'is 256 bytes long; the limit is 255'), ('E''a\nb''', 'holds a control character'), ('''UNDONE_FIRST''', 'UNDONE_FIRST is the mark%')) as b (bad, why);
select test.bad('refuse(''bad'', 1, ''NO'', to_jsonb(repeat(''x'', 1048575)))', 'detail', 'is over the limit of 1048576 bytes');
select test.bad('complete(''bad'', 1, repeat(''r'', 256))', 'result_ref', 'is 256 bytes long; the limit is 255');
select test.bad('complete(''bad'', 1, '''')', 'result_ref', 'is empty');
select test.bad(replace('fail(''bad'', 1, CLASS, ''T'', ''t'')', 'CLASS', bad), 'error_class', why) from (values ('null', 'is none of%'), ('''''', 'is none of%'), ('''fatal''', 'is none of%'), ('''refused''', 'refused is an answer: use refuse'), ('''TRANSIENT''', 'is none of%')) as b (bad, why);
select test.bad('fail(''bad'', 1, ''transient'', null, ''t'')', 'code', 'is required');
select test.bad('fail(''bad'', 1, ''transient'', repeat(''c'', 256), ''t'')', 'code', 'is 256 bytes long; the limit is 255');
select test.bad('fail(''bad'', 1, ''transient'', ''T'', null)', 'message', 'is required');
select test.bad(replace('renew(''bad'', 1, LEASE)', 'LEASE', bad), 'lease', why) from (values ('null', 'is required'), ('''0''', 'is outside 1 ms to 10 years'), ('''-1 s''', 'is outside 1 ms to 10 years'), ('''11 years''', 'is outside 1 ms to 10 years')) as b (bad, why);
select test.bad('mark_sent(''bad'', 1, '''')', 'remote_ref', 'is empty');
select test.bad('mark_sent(''bad'', 1, repeat(''r'', 512))', 'remote_ref', 'is 512 bytes long; the limit is 511');
select test.ok('nothing changed', state = test.everything()) from test.before;

-- A number of few bytes and many digits: the limit is of the text.
select settle.begin_operation('digits', 'plain', '{}', lease => '1h');
select test.same('completed', (settle.complete('digits', 1, result => (select jsonb_agg('1e130000'::jsonb) from generate_series(1, 10)))).outcome, 'completed');
select test.ok('not stored', result is null and last_error ->> 'code' = 'RESULT_TOO_LARGE') from settle.operations where key = 'digits';

-- A reference that a result brings along is made to fit.
select settle.begin_operation('spelt', 'plain', '{}', lease => '1h'), settle.begin_operation('wide', 'plain', '{}', lease => '1h');
select settle.complete('spelt', 1, result => jsonb_build_object('result_ref', E' a\u001b[31m\nb ')), settle.complete('wide', 1, result => jsonb_build_object('result_ref', repeat('é', 255)));
select test.same('no control characters', result_ref, 'a [31m b') from settle.operations where key = 'spelt';
select test.same('at most 255 bytes', result_ref, repeat('é', 63)) from settle.operations where key = 'wide';
