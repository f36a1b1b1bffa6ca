-- begin_operation: what it answers, what it refuses, and that a refusal changes nothing.
\ir support/check.psql

-- The whole of an answer.
select test.same('started', to_jsonb(settle.begin_operation('A', 'debit', '{"amount":1}', owner => 'w1', lease => '1h')) - 'lease_until',
    '{"outcome":"started","token":1,"execution_id":"A#1","status":"running","result_ref":null,"result":null,"failure":null,
      "next_attempt_at":null,"holder":null,"attempt_count":1}'::jsonb);
select test.same('in progress', to_jsonb(settle.begin_operation('A', 'debit', '{"amount":1.0}', owner => 'w2', lease => '1h')) - 'lease_until',
    '{"outcome":"in_progress","token":null,"execution_id":"A#1","status":"running","result_ref":null,"result":null,"failure":null,
      "next_attempt_at":null,"holder":"w1","attempt_count":1}'::jsonb);
select test.ok('until when', (settle.begin_operation('A', 'debit', '{"amount":1}')).lease_until = (select lease_until from settle.operations where key = 'A'));
select test.ok('by the clock of the database', lease_until - clock_timestamp() between interval '59 min' and interval '1 h') from settle.operations where key = 'A';
select test.same('completed', to_jsonb(settle.complete('A', 1, 'ledger:7', '{"paid":1.50,"big":9007199254740993}')),
    '{"outcome":"completed","current_token":1,"holder":"w1"}'::jsonb);
select test.same('replayed', to_jsonb(settle.begin_operation('A', 'debit', '{"amount":1}')),
    '{"outcome":"replayed","token":null,"execution_id":"A#1","status":"succeeded","result_ref":"ledger:7",
      "result":{"paid":1.50,"big":9007199254740993},"failure":null,"lease_until":null,"next_attempt_at":null,"holder":null,"attempt_count":1}'::jsonb);
select test.same('byte for byte', (settle.begin_operation('A', 'debit', '{"amount":1}')).result::text, '{"big": 9007199254740993, "paid": 1.50}');

-- A refusal is an answer like any other.
select settle.begin_operation('R', 'debit', '{"amount":1}', lease => '1h');
select test.same('refused', (settle.refuse('R', 1, 'NO_FUNDS', '{"short":5}')).outcome, 'refused');
select test.same('replayed too', to_jsonb(settle.begin_operation('R', 'debit', '{"amount":1}')),
    '{"outcome":"replayed","token":null,"execution_id":"R#1","status":"failed","result_ref":null,"result":null,
      "failure":{"code":"NO_FUNDS","detail":{"short":5}},"lease_until":null,"next_attempt_at":null,"holder":null,"attempt_count":1}'::jsonb);

-- A conflict tells what differs, by pointer, and nothing of the answer; in every status, and it changes nothing.
create table test.before as select test.everything() as state;
select test.same('conflict', to_jsonb(settle.begin_operation('A', 'debit', '{"amount":2,"x/y":[1]}')),
    jsonb_build_object('outcome', 'conflict', 'token', null, 'execution_id', null, 'status', 'succeeded', 'result_ref', null, 'result', null,
        'lease_until', null, 'next_attempt_at', null, 'holder', null, 'attempt_count', null,
        'failure', jsonb_build_object('code', 'IDEMPOTENCY_PARAMETER_CONFLICT', 'detail', jsonb_build_object(
            'stored_kind', 'debit', 'given_kind', 'debit', 'stored_digest', settle.digest('debit', '{"amount":1}'),
            'given_digest', settle.digest('debit', '{"amount":2,"x/y":[1]}'), 'pointers', '["/amount","/x~1y"]'::jsonb,
            'advice', 'correct the request or start a new legitimate operation; do not send the same one under another key'))));
select test.same('another kind', (settle.begin_operation('A', 'credit', '{"amount":1}')).failure #>> '{detail,given_kind}', 'credit');
select test.same('differences', (settle.begin_operation('A', 'debit', given::jsonb)).failure #> '{detail,pointers}', wanted::jsonb)
from (values ('{}', '["/amount"]'), ('[]', '[""]'), ('{"amount":null}', '["/amount"]'), ('{"amount":"1"}', '["/amount"]'),
    ('{"amount":1,"b":null}', '["/b"]'), ('{"amount":{"v":1}}', '["/amount"]'), ('null', '[""]'), ('{"amount":1,"":1}', '["/"]')) as case_of (given, wanted);
select test.same('a refused one too', (settle.begin_operation('R', 'debit', '{"amount":2}')).outcome, 'conflict');
select test.ok('nothing changed', state = test.everything()) from test.before;
select settle.begin_operation('N', 'debit', '{"a":{"b":[1,{"c":1,"d":2}]},"e":[1,2,3]}', lease => '1h');
select test.same('deep differences', (settle.begin_operation('N', 'debit', '{"a":{"b":[1,{"c":2,"d":2}]},"e":[1,2]}')).failure #> '{detail,pointers}',
    '["/a/b/1/c","/e/2"]'::jsonb);
select test.same('at most twenty', jsonb_array_length((settle.begin_operation('N', 'debit',
    (select jsonb_object_agg('m' || i, i) from generate_series(1, 50) as i))).failure #> '{detail,pointers}'), 20);

-- The vectors, through begin: (2), (3) replay, (4), (5), (6) conflict, and the result stays.
select settle.begin_operation('K1', 'pay', '{"amount":100,"currency":"EUR","meta":{"a":1,"b":[2,1]}}', lease => '1h');
select settle.complete('K1', 1, result => '"R"');
select test.same(given, (settle.begin_operation('K1', 'pay', given::jsonb)).outcome || ' ' || coalesce((settle.begin_operation('K1', 'pay', given::jsonb)).result::text, '-'), wanted)
from (values ('{ "meta": {"b":[2,1], "a":1}, "currency": "\u0045UR", "amount":100}', 'replayed "R"'),
    ('{"amount":1e2,"currency":"EUR","meta":{"a":1,"b":[2,1]}}', 'replayed "R"'), ('{"amount":100.0,"currency":"EUR","meta":{"a":1,"b":[2,1]}}', 'replayed "R"'),
    ('{"amount":100,"currency":"EUR","meta":{"a":1,"b":[1,2]}}', 'conflict -'), ('{"amount":"100","currency":"EUR","meta":{"a":1,"b":[2,1]}}', 'conflict -'),
    ('{"amount":100,"currency":"EUR","meta":{"a":1,"b":[2,1],"c":null}}', 'conflict -')) as case_of (given, wanted);
select test.same('the result stays', result, '"R"'::jsonb) from settle.operations where key = 'K1';
select settle.begin_operation('K2', 'pay', '{"account":9007199254740993}', lease => '1h'), settle.complete('K2', 1, result => '"first"');
select test.same('2^53', (settle.begin_operation('K2', 'pay', '{"account":9007199254740992}')).outcome, 'conflict');
select test.same('shown digit for digit', request::text, '{"account": 9007199254740993}') from settle.operations where key = 'K2';

-- A request too large to be compared by value is compared by its digest; a secret one by its keyed digest, and never shown.
select settle.begin_operation('L', 'pay', jsonb_build_object('a', repeat('x', 9000), 'n', 100), lease => '1h'), settle.complete('L', 1, 'ref');
select test.same('large, the same', (settle.begin_operation('L', 'pay', jsonb_build_object('n', 1e2, 'a', repeat('x', 9000)))).outcome, 'replayed');
select test.same('large, another', (settle.begin_operation('L', 'pay', jsonb_build_object('n', 101, 'a', repeat('x', 9000)))).failure #> '{detail,pointers}', '["/n"]'::jsonb);
select test.same('large, and small', (settle.begin_operation('L', 'pay', '{}')).outcome, 'conflict');
select test.same('the digest is stored as it would be computed', digest, settle.digest('pay', request)) from settle.operations where key = 'L';
select settle.declare_kind('card', '{"effect":"local","secret":true,"identity":["/pan","/amount"]}');
select settle.begin_operation('S', 'card', '{"pan":"4111","amount":5,"note":"x"}', lease => '1h');
select test.same('secret, running', (settle.begin_operation('S', 'card', '{"pan":"4111","amount":5}')).outcome, 'in_progress');
select settle.complete('S', 1, result => '{"ok":true}');
select test.same('secret, the same', (settle.begin_operation('S', 'card', '{"amount":5.0,"pan":"4111"}')).result, '{"ok":true}'::jsonb);
select test.same('secret, another', (settle.begin_operation('S', 'card', '{"pan":"4112","amount":5}')).outcome, 'conflict');
select test.ok('no pointers, no values', answer.failure #> '{detail,pointers}' = '[]' and answer.failure::text not like '%411%'
    and answer.failure #>> '{detail,stored_digest}' = (select digest from settle.operations where key = 'S'))
from settle.begin_operation('S', 'card', '{"pan":"4112","amount":5}') as answer;
select test.ok('nothing of it is stored', to_jsonb(o)::text not like '%4111%' and o.request is null) from settle_data.operation o where key = 'S';

-- Namespaces do not see each other.
select test.same('another namespace', (settle.begin_operation('A', 'debit', '{"amount":2}', namespace => 'T2', lease => '1h')).outcome, 'started');
select test.same('and its own end', (settle.complete('A', 1, 't2', namespace => 'T2')).outcome, 'completed');
select test.same('nothing seen', (settle.begin_operation('A', 'debit', '{"amount":1}')).result_ref, 'ledger:7');
select test.raises('nothing there', $$select settle.complete('R', 1, namespace => 'T2')$$, 'ST006', 'NOT_FOUND: no operation R in namespace T2');

-- Keys: each has one fate, and none is another.
truncate test.before;
insert into test.before select test.everything();
select test.invalid('key ' || coalesce(left(bad, 20), 'NULL'), format('select settle.begin_operation(%L, %L, lease => %L)', bad, 'k', '1h'), 'key', why)
from (values (null, 'is required'), ('', 'is empty'), (' ', 'begins or ends with a space'), ('a ', 'begins or ends with a space'), (' a', 'begins or ends with a space'),
    (repeat('k', 256), 'is 256 bytes long; the limit is 255'), (repeat('a', 3000), 'is 3000 bytes long; the limit is 255'),
    ((select string_agg(substr('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/', 1 + (random() * 63)::integer, 1), '') from generate_series(1, 3000)),
        'is 3000 bytes long; the limit is 255'),
    (repeat('é', 128), 'is 256 bytes long; the limit is 255'), (E'a\rb', 'holds a control character'), (E'a\nb', 'holds a control character'), (E'\t', 'holds a control character'),
    ('a' || chr(127), 'holds a control character'), ('a' || chr(133), 'holds a control character'), (chr(1), 'holds a control character'),
    ('a~undo', 'ends with ~undo%'), ('~undo', 'ends with ~undo%'), (repeat('k', 250) || '~undoo', 'is 256 bytes%')) as bad_key (bad, why);
select test.ok('nothing changed', state = test.everything()) from test.before;
select test.same('key ' || good, (settle.begin_operation(good, 'k', lease => '1h')).outcome, 'started')
from unnest(array['a', 'a b', 'A ', '~', '~undo~', 'a~undo ', repeat('k', 255), repeat('k', 254), repeat('é', 127), 'é', 'e' || chr(769), 'Stra' || chr(223) || 'e',
    'STRASSE', '😀', '%', '''', '\', '#1', 'k/1', 'null', ' ', U&'\200B']) as good where right(good, 1) <> ' ';
select test.same('NFC and NFD are two', (settle.begin_operation('é', 'k')).execution_id || (settle.begin_operation('e' || chr(769), 'k')).execution_id, 'é#1e' || chr(769) || '#1');

-- Every other argument.
truncate test.before;
insert into test.before select test.everything();
create function test.bad(arguments text, field text, why text)
returns void language plpgsql as $$
begin
    perform test.invalid(arguments, 'select settle.begin_operation(' || arguments || ')', field, why);
end $$;
select test.bad($$'new', null$$, 'kind', 'is required');
select test.bad($$'new', ''$$, 'kind', 'is empty');
select test.bad($$'new', ' k'$$, 'kind', 'begins or ends with a space');
select test.bad($$'new', repeat('k', 64)$$, 'kind', 'is 64 bytes long; the limit is 63');
select test.bad($$'new', 'k', null$$, 'request', 'is null; an empty one is {}');
select test.bad($$'new', 'k', '1e400'$$, 'request', '%1e309%');
select test.bad($$'new', 'k', (repeat('[', 33) || repeat(']', 33))::jsonb$$, 'request', 'is nested deeper than 32');
select test.bad($$'new', 'k', to_jsonb(repeat('x', 1048575))$$, 'request', 'is 1048577 bytes long; the limit is 1048576');
select test.bad($$'new', 'k', namespace => null$$, 'namespace', 'is required');
select test.bad($$'new', 'k', namespace => ''$$, 'namespace', 'is empty');
select test.bad($$'new', 'k', namespace => 'a '$$, 'namespace', 'begins or ends with a space');
select test.bad($$'new', 'k', namespace => repeat('n', 64)$$, 'namespace', 'is 64 bytes long; the limit is 63');
select test.bad($$'new', 'k', namespace => E'\x01'$$, 'namespace', 'holds a control character');
select test.bad($$'new', 'k', trigger => null$$, 'trigger', 'is none of call, schedule, retry, manual, takeover, event');
select test.bad($$'new', 'k', trigger => 'cron'$$, 'trigger', 'is none of%');
select test.bad($$'new', 'k', trigger => 'CALL'$$, 'trigger', 'is none of%');
select test.bad($$'new', 'k', owner => ''$$, 'owner', 'is empty');
select test.bad($$'new', 'k', owner => repeat('o', 256)$$, 'owner', 'is 256 bytes long; the limit is 255');
select test.bad($$'new', 'k', owner => E'a\nb'$$, 'owner', 'holds a control character');
select test.bad($$'new', 'k', lease => '0'$$, 'lease', 'is outside 1 ms to 10 years');
select test.bad($$'new', 'k', lease => '999 microseconds'$$, 'lease', 'is outside 1 ms to 10 years');
select test.bad($$'new', 'k', lease => '-1 second'$$, 'lease', 'is outside 1 ms to 10 years');
select test.bad($$'new', 'k', lease => '11 years'$$, 'lease', 'is outside 1 ms to 10 years');
select test.bad($$'new', 'k', lease => '178000000 years'$$, 'lease', 'is outside 1 ms to 10 years');
select test.bad($$'new', 'k', effect => 'global'$$, 'effect', 'is none of local, keyed, opaque');
-- A repeat is held to the same: whether it is refused does not depend on what is there.
select test.bad($$'A', 'debit', '{"amount":1}', lease => '0'$$, 'lease', 'is outside 1 ms to 10 years');
select test.bad($$'A', 'debit', '{"amount":1}', owner => ''$$, 'owner', 'is empty');
select test.bad($$'A', 'debit', '{"amount":1}', effect => 'global'$$, 'effect', 'is none of local, keyed, opaque');
select test.bad($$'A', '', '{"amount":1}'$$, 'kind', 'is empty');
select test.ok('nothing changed', state = test.everything()) from test.before;
select test.same('the bounds are in', (settle.begin_operation('bound' || n, 'k', lease => bound)).outcome, 'started')
from (values (1, interval '1 ms'), (2, interval '10 years'), (3, interval '3650 days'), (4, interval '87600 hours')) as bounds (n, bound);
select test.same('a declared effect wins', (settle.declare_kind('mail', '{"effect":"keyed"}')).outcome || (settle.begin_operation('E1', 'mail', effect => 'opaque', lease => '1h')).outcome
    || (settle.begin_operation('E2', 'undeclared', effect => 'opaque', lease => '1h')).outcome || (settle.begin_operation('E3', 'undeclared', lease => '1h')).outcome,
    'declaredstartedstartedstarted');
select test.same('effects', string_agg(effect, ' ' order by key), 'keyed opaque local') from settle.operations where key in ('E1', 'E2', 'E3');
select test.same('who', (select array_agg(e.worker order by e.key) from settle.executions e where e.key in ('A', 'E1') and e.namespace = 'default'), array['w1', session_user::text]);
