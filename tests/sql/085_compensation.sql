-- Undoing: at most once, only of a confirmed success, and never before what it undoes.
\ir support/check.psql

create function test.begun(of_key text, lease interval default '1h') returns settle.begin_operation_answer language sql as $$
    select settle.begin_operation(of_key, 'pay', '{"amount":5}', lease => lease)
$$;

-- Of a success: an operation of its own, linked, started once.
select test.begun('A'), settle.complete('A', 1, 'ledger:1', '{"paid":5}');
select test.same('started', to_jsonb(settle.begin_compensation('A', 'ann', 'customer called', lease => '1h', owner => 'w1')) - 'lease_until',
    '{"outcome":"started","token":1,"execution_id":"A~undo#1","status":"running","result_ref":null,"result":null,"failure":null,"next_attempt_at":null,"holder":null,"attempt_count":1}'::jsonb);
select test.same('linked both ways', jsonb_object_agg(key, jsonb_build_array(kind, status, compensates, compensated_by)),
    '{"A":["pay","succeeded",null,"A~undo"],"A~undo":["undo","running","A",null]}'::jsonb) from settle.operations where key like 'A%';
select test.same('its request', request, '{"key":"A","request":{"amount":5},"result":{"paid":5},"result_ref":"ledger:1"}'::jsonb) from settle.operations where key = 'A~undo';
select test.same('who and why', jsonb_build_array(trigger, worker, operator, reason), '["call","w1","ann","customer called"]'::jsonb) from settle.executions where key = 'A~undo';
select test.same('a second waits', to_jsonb(settle.begin_compensation('A', 'bob', 'again', lease => '1h')) - 'lease_until' - 'execution_id',
    '{"outcome":"in_progress","token":null,"status":"running","result_ref":null,"result":null,"failure":null,"next_attempt_at":null,"holder":"w1","attempt_count":1}'::jsonb);
select test.same('ended like any other', (settle.complete('A~undo', 1, 'refund:1', '{"back":5}')).outcome, 'completed');
select test.same('and once', to_jsonb(settle.begin_compensation('A', 'bob', 'again')) - 'lease_until',
    '{"outcome":"replayed","token":null,"execution_id":"A~undo#1","status":"succeeded","result_ref":"refund:1","result":{"back":5},"failure":null,"next_attempt_at":null,"holder":null,"attempt_count":1}'::jsonb);
select test.same('the original is as it was', to_jsonb(settle.begin_operation('A', 'pay', '{"amount":5}')) - 'lease_until',
    '{"outcome":"replayed","token":null,"execution_id":"A#1","status":"succeeded","result_ref":"ledger:1","result":{"paid":5},"failure":null,"next_attempt_at":null,"holder":null,"attempt_count":1}'::jsonb);
select test.same('a compensation is not compensated', (settle.begin_compensation('A~undo', 'bob', 'no')).outcome, 'not_compensable');
select test.invalid('nor begun by its key', $$select settle.begin_operation('A~undo', 'undo')$$, 'key', 'ends with ~undo%');
select test.invalid('nor one of it', $$select settle.begin_compensation('B~undo', 'bob', 'no')$$, 'key', 'ends with ~undo%');

-- In the caller's transaction, like any other: it cannot commit unended.
select test.begun('T'), settle.complete('T', 1);
begin;
select test.same('started', (settle.begin_compensation('T', 'ann', 'r')).outcome, 'started');
select test.raises('not ended', 'set constraints all immediate', 'ST012', 'OPERATION_NOT_ENDED: operation T~undo%');
select test.same('in progress to itself', (settle.begin_compensation('T', 'ann', 'r')).outcome, 'in_progress');
select test.same('ended', (settle.complete('T~undo', 1)).outcome, 'completed');
commit;

-- Under the kind that the original's own revision declares.
select settle.declare_kind('refund', '{"effect":"keyed"}'), settle.declare_kind('charge', '{"effect":"keyed","compensation":{"kind":"refund"}}');
select settle.begin_operation('C', 'charge', lease => '1h'), settle.complete('C', 1);
select settle.declare_kind('charge', '{"effect":"keyed","compensation":{"kind":"other"}}');
select settle.begin_compensation('C', 'ann', 'r', lease => '1h');
select test.same('the kind', kind || ' ' || effect, 'refund keyed') from settle.operations where key = 'C~undo';
select test.same('and the same again', (settle.begin_compensation('C', 'ann', 'r')).outcome, 'in_progress');

-- Its ends: refused, failed, unknown, taken over.
select test.begun('F'), settle.complete('F', 1), settle.begin_compensation('F', 'ann', 'r', lease => '1h'), settle.refuse('F~undo', 1, 'CLOSED');
select test.same('a refusal is replayed', (settle.begin_compensation('F', 'ann', 'r')).failure, '{"code":"CLOSED","detail":null}'::jsonb);
select test.begun('U'), settle.complete('U', 1), settle.begin_compensation('U', 'ann', 'r', lease => '1h'), settle.mark_sent('U~undo', 1), test.lapse('U~undo');
select test.same('sent and lost: unknown', to_jsonb(settle.begin_compensation('U', 'ann', 'r')) ->> 'outcome', 'unknown');
select test.same('of which the status tells', status, 'unknown') from settle.operations where key = 'U~undo';
select test.begun('V'), settle.complete('V', 1), settle.begin_compensation('V', 'ann', 'r', lease => '1h'), test.lapse('V~undo');
select test.same('lost: taken over', (settle.begin_compensation('V', 'bob', 'r', lease => '1h')).token, 2::bigint);
select test.same('by', jsonb_agg(jsonb_build_array(token, trigger, operator, outcome) order by token), '[[1,"call","ann","lost"],[2,"takeover","bob",null]]'::jsonb) from settle.executions where key = 'V~undo';
select settle.fail('V~undo', 2, 'defect', 'D', 'd');
select test.same('frozen', (settle.begin_compensation('V', 'bob', 'r')).outcome, 'frozen');

-- What is no success is not compensated, and what is unknown not on a guess.
select test.begun('P'), settle.fail('P', 1, 'transient', 'T', 't');
select test.begun('R');
select test.begun('X'), settle.refuse('X', 1, 'NO');
select test.begun('W'), settle.fail('W', 1, 'defect', 'D', 'd');
select test.begun('K'), settle.fail('K', 1, 'defect', 'D', 'd'), settle.cancel('K', 'ann', 'r');
select test.begun('Q'), settle.fail('Q', 1, 'unknown', 'U', 'u');
select test.begun('L'), settle.mark_sent('L', 1), test.lapse('L');
select test.same(of_key || ' ' || wanted, (settle.begin_compensation(of_key, 'ann', 'r')).outcome || ' ' || test.status(of_key), wanted)
from (values ('P', 'not_compensable pending'), ('R', 'not_compensable running'), ('X', 'not_compensable failed'), ('W', 'not_compensable review'), ('K', 'not_compensable cancelled'),
    ('Q', 'unknown unknown'), ('L', 'unknown unknown')) as case_of (of_key, wanted);
select test.same('nothing was begun', count(*), 0::bigint) from settle.operations where key in ('P~undo', 'R~undo', 'X~undo', 'W~undo', 'K~undo', 'Q~undo', 'L~undo');
select test.begun('M'), test.lapse('M');
select test.same('lapsed', (settle.begin_compensation('M', 'ann', 'r')).outcome || ' ' || test.status('M'), 'not_compensable pending');

-- Before its operation: the operation never runs, whatever its request, and however often.
select test.same('not applied', to_jsonb(settle.begin_compensation('Z', 'ann', 'too late')),
    '{"outcome":"not_applied","token":null,"execution_id":null,"status":"cancelled","result_ref":null,"result":null,"failure":{"code":"UNDONE_FIRST","detail":null},
      "lease_until":null,"next_attempt_at":null,"holder":null,"attempt_count":0}'::jsonb);
create table test.before as select test.everything() as state;
select test.same('again', (settle.begin_compensation('Z', 'bob', 'again')).outcome, 'not_applied');
select test.same('the late original', to_jsonb(settle.begin_operation('Z', 'pay', '{"amount":5}', lease => '1h')),
    '{"outcome":"replayed","token":null,"execution_id":null,"status":"cancelled","result_ref":null,"result":null,"failure":{"code":"UNDONE_FIRST","detail":null},
      "lease_until":null,"next_attempt_at":null,"holder":null,"attempt_count":0}'::jsonb);
select test.same('whatever its request', (settle.begin_operation('Z', 'other', '[7]')).outcome, 'replayed');
select settle.declare_kind('h', '{"effect":"local","handler":{"sql":"h"}}');
update test.before set state = test.everything();
select test.same('by run', to_jsonb(settle.run('Z', 'h')) ->> 'outcome', 'replayed');
select test.same('nor by an operator', (settle.rerun('Z', 'ann', 'r')).outcome, 'refused');
select test.same('recorded, though', jsonb_agg(jsonb_build_array(execution_id, trigger, outcome, operator)), '[["Z#2","manual","replayed","ann"]]'::jsonb) from settle.executions where key = 'Z';
select test.same('nor by exec', (settle.begin_rerun('Z', 'pay', '{}', 'ann', 'r', lease => '1h')).outcome, 'replayed');
select test.same('nor decided', (settle.decide('Z', 'rerun', 'ann', 'r')).outcome, 'already_decided');
select test.same('nor ended', (settle.complete('Z', 1)).outcome, 'stale');
select test.same('it stands', jsonb_build_array(status, attempt_count, failure), '["cancelled",0,{"code":"UNDONE_FIRST","detail":null}]'::jsonb) from settle.operations where key = 'Z';
select test.invalid('the code is kept for it', $$select settle.refuse('P', 1, 'UNDONE_FIRST')$$, 'code', 'UNDONE_FIRST%');

-- An effect does not become impossible to undo by the size or the shape of its request or answer.
select settle.begin_operation('deep', 'pay', (repeat('[', 32) || repeat(']', 32))::jsonb, lease => '1h'), settle.complete('deep', 1);
select test.same('32 deep', (settle.begin_compensation('deep', 'ann', 'r', lease => '1h')).outcome, 'started');
select test.same('and again', (settle.begin_compensation('deep', 'ann', 'r')).outcome, 'in_progress');
select settle.begin_operation('deeper', 'pay', lease => '1h'), settle.complete('deeper', 1, 'ref', (repeat('[', 3000) || '"' || repeat('x', 9000) || '"' || repeat(']', 3000))::jsonb);
select test.same('an answer 3000 deep', (settle.begin_compensation('deeper', 'ann', 'r', lease => '1h')).outcome, 'started');
select test.same('the reference is left', request, '{"key":"deeper","request":null,"result":null,"result_ref":"ref"}'::jsonb) from settle.operations where key = 'deeper~undo';
select settle.begin_operation('number', 'pay', lease => '1h'), settle.complete('number', 1, result => '1e400');
select test.same('a number beyond', (settle.begin_compensation('number', 'ann', 'r', lease => '1h')).outcome, 'started');
select settle.begin_operation('large', 'pay', to_jsonb(repeat('x', 600000)), lease => '1h'), settle.complete('large', 1, 'ref', to_jsonb(repeat('x', 600000)));
select test.same('1.2 MB', (settle.begin_compensation('large', 'ann', 'r', lease => '1h')).outcome, 'started');
select test.same('and again', (settle.begin_compensation('large', 'ann', 'r')).outcome, 'in_progress');
select settle.begin_operation('half', 'pay', to_jsonb(repeat('x', 500000)), lease => '1h'), settle.complete('half', 1, 'ref', to_jsonb(repeat('x', 500000)));
select test.same('1 MB: whole', (settle.begin_compensation('half', 'ann', 'r', lease => '1h')).outcome, 'started');
select test.same('its request', length(request ->> 'result'), 500000) from settle.operations where key = 'half~undo';
select test.same(repeat('k', 255), (settle.begin_operation(repeat('k', 255), 'pay', lease => '1h')).outcome || (settle.complete(repeat('k', 255), 1)).outcome, 'startedcompleted');
select test.same('the longest key', (settle.begin_compensation(repeat('k', 255), 'ann', 'r', lease => '1h')).execution_id, repeat('k', 255) || '~undo#1');
select settle.declare_kind('hidden', '{"effect":"local","secret":true,"compensation":{"kind":"hidden"}}');
select settle.begin_operation('hid', 'hidden', '{"pin":1}', lease => '1h'), settle.complete('hid', 1, 'ref');
select test.same('secret', (settle.begin_compensation('hid', 'ann', 'r', lease => '1h')).outcome || (settle.begin_compensation('hid', 'ann', 'r')).outcome, 'startedin_progress');

-- Namespaces, and bad input, which changes nothing.
select test.same('another namespace has none', (settle.begin_compensation('A', 'ann', 'r', namespace => 'T2')).outcome, 'not_applied');
update test.before set state = test.everything();
select test.invalid('no operator', $$select settle.begin_compensation('n', null, 'r')$$, 'operator', 'is required');
select test.invalid('empty operator', $$select settle.begin_compensation('n', '', 'r')$$, 'operator', 'is empty');
select test.invalid('long operator', $$select settle.begin_compensation('n', repeat('o', 256), 'r')$$, 'operator', '%the limit is 255');
select test.invalid('no reason', $$select settle.begin_compensation('n', 'o', null)$$, 'reason', 'is required');
select test.invalid('blank reason', $$select settle.begin_compensation('n', 'o', '  ')$$, 'reason', 'is required');
select test.invalid('long reason', $$select settle.begin_compensation('n', 'o', repeat('r', 65537))$$, 'reason', 'is over the limit of 65536 bytes');
select test.invalid('no key', $$select settle.begin_compensation(null, 'o', 'r')$$, 'key', 'is required');
select test.invalid('long key', $$select settle.begin_compensation(repeat('k', 256), 'o', 'r')$$, 'key', '%the limit is 255');
select test.invalid('no namespace', $$select settle.begin_compensation('n', 'o', 'r', null)$$, 'namespace', 'is required');
select test.invalid('lease 0', $$select settle.begin_compensation('number', 'o', 'r', lease => '0')$$, 'lease', 'is outside 1 ms to 10 years');
select test.invalid('lease 0, unseen', $$select settle.begin_compensation('n', 'o', 'r', lease => '0')$$, 'lease', 'is outside 1 ms to 10 years');
select test.invalid('trigger', $$select settle.begin_compensation('n', 'o', 'r', trigger => 'x')$$, 'trigger', 'is none of%');
select test.ok('nothing changed', state = test.everything()) from test.before;
