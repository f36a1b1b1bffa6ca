-- The operator's acts: what a person decides, recorded with who, why, and what was changed.
\ir support/check.psql

select settle.declare_kind('pay', '{"effect":"keyed","identity":["/account","/amount"],"compensation":{"kind":"refund"},"review":{"rerun_failed":true}}'),
    settle.declare_kind('refund', '{"effect":"keyed"}'), settle.declare_kind('two', '{"effect":"keyed","compensation":{"kind":"refund"},"review":{"approvals":2}}'), settle.declare_kind('plain', '{"effect":"keyed"}'),
    settle.declare_kind('card', '{"effect":"keyed","secret":true}');
create function test.in_review(of_key text, of_kind text default 'pay', request jsonb default '{"account":"A","amount":5,"note":"x"}') returns void language plpgsql as $$
begin
    perform settle.begin_operation(of_key, of_kind, request, owner => 'w1', lease => '1h'), settle.fail(of_key, 1, 'defect', 'D', 'broken');
end $$;
create function test.decisions(of_key text) returns jsonb language sql security definer as $$
    select jsonb_agg(jsonb_build_array(act, operator, from_status, to_status, detail) order by number) from settle.decisions where key = of_key
$$;
create table test.before (state text);
insert into test.before values ('');

-- decide, each way.
select test.in_review(of_key) from unnest(array['succeeded', 'failed', 'cancelled', 'rerun', 'compensate']) as of_key;
select test.same(of_key, to_jsonb(settle.decide(of_key, of_key, 'ann', 'looked', case when of_key in ('succeeded', 'compensate') then 'ref:' || of_key end)), jsonb_build_object('outcome', 'done', 'status', wanted, 'reason', null))
from (values ('succeeded', 'succeeded'), ('failed', 'failed'), ('cancelled', 'cancelled'), ('rerun', 'pending'), ('compensate', 'succeeded')) as d (of_key, wanted);
select test.same('as decided', jsonb_object_agg(key, jsonb_build_array(status, result_ref, failure, finished_at is not null, review_reason)), '{
    "succeeded":["succeeded","ref:succeeded",null,true,null], "failed":["failed",null,{"code":"DECIDED","detail":{"operator":"ann","reason":"looked"}},true,null],
    "cancelled":["cancelled",null,{"code":"CANCELLED","detail":{"operator":"ann","reason":"looked"}},true,null], "rerun":["pending",null,null,false,null],
    "compensate":["succeeded","ref:compensate",null,true,null], "compensate~undo":["pending",null,null,false,null]}'::jsonb) from settle.operations;
select test.same('recorded', test.decisions('succeeded') || test.decisions('rerun'), '[["succeeded","ann","review","succeeded",{"result_ref":"ref:succeeded"}],["rerun","ann","review","pending",null]]'::jsonb);
select test.ok('when, and as which role', decided_at <= clock_timestamp() and db_user = session_user and reason = 'looked') from settle.decisions where key = 'failed';
select test.same('replayed', to_jsonb(settle.begin_operation('failed', 'pay', '{"account":"A","amount":5}')) - 'lease_until',
    '{"outcome":"replayed","token":null,"execution_id":"failed#1","status":"failed","result_ref":null,"result":null,"failure":{"code":"DECIDED","detail":{"operator":"ann","reason":"looked"}},"next_attempt_at":null,"holder":null,"attempt_count":1}'::jsonb);
select test.same('the execution stays what it was', jsonb_build_array(outcome, error), '["failed",{"class":"defect","code":"D","message":"broken"}]'::jsonb) from settle.executions where key = 'succeeded';
select test.same('run again at once, as manual', (settle.begin_operation('rerun', 'pay', '{"account":"A","amount":5}', lease => '1h')).token, 2::bigint);
select test.same('as manual', trigger, 'manual') from settle.executions where key = 'rerun' and token = 2;
select test.same('the compensation is its kind''s, of the reference decided', jsonb_build_array(kind, effect, compensates, request, open_since is not null), '["refund","keyed","compensate",{"key":"compensate","request":{"account":"A","amount":5,"note":"x"},"result":null,"result_ref":"ref:compensate"},true]'::jsonb)
from settle.operations where key = 'compensate~undo';
select test.same('begun as any', (settle.begin_compensation('compensate', 'bob', 'r', lease => '1h')).token, 1::bigint);
-- Too late.
update test.before set state = test.everything();
select test.same('too late: ' || of_key, (settle.decide(of_key, 'failed', 'bob', 'r')).outcome, 'already_decided') from unnest(array['succeeded', 'failed', 'cancelled', 'rerun', 'compensate']) as of_key;
select test.ok('nothing changed', state = test.everything()) from test.before;
-- Of an unknown one; the fence is up from then on.
select settle.begin_operation('unknown', 'pay', '{"account":"A","amount":5}', owner => 'w1', lease => '1h'), settle.fail('unknown', 1, 'unknown', 'U', 'u'), settle.decide('unknown', 'rerun', 'ann', 'r');
select test.same('the late holder', (settle.complete('unknown', 1)).outcome || (settle.refuse('unknown', 1, 'NO')).outcome, 'stalestale');
-- What cannot be decided so.
select test.in_review('bare', 'plain'), test.in_review('undeclared', 'never');
select test.same('no compensation declared', to_jsonb(settle.decide(of_key, 'compensate', 'ann', 'r')), '{"outcome":"refused","status":"review","reason":"its kind declares no compensation: decide succeeded, then use begin_compensation"}'::jsonb)
from unnest(array['bare', 'undeclared']) as of_key;

-- A revised request is the same operation.
select test.in_review('revise'), test.in_review('revise2'), test.in_review('hidden', 'card'), test.in_review('whole', 'plain');
update test.before set state = test.everything();
select test.invalid('an identity field', $$select settle.decide('revise', 'rerun', 'ann', 'r', request => '{"account":"B","amount":5,"note":"y"}')$$, 'request', 'changes the identity at ["/account"]: that is a new operation, under a key of its own');
select test.invalid('two', $$select settle.rerun('revise', 'ann', 'r', '{"account":"B"}')$$, 'request', 'changes the identity at ["/account", "/amount"]:%');
select test.invalid('the whole is identity', $$select settle.rerun('whole', 'ann', 'r', '{"account":"A","amount":5,"note":"y"}')$$, 'request', 'changes the identity at ["/note"]:%');
select test.invalid('secret', $$select settle.rerun('hidden', 'ann', 'r', '{"account":"A","amount":5,"note":"x"}')$$, 'request', 'cannot be revised: the kind is secret%');
select test.invalid('only a rerun', $$select settle.decide('revise', 'succeeded', 'ann', 'r', request => '{"account":"A","amount":5}')$$, 'request', 'is revised only by the decision rerun');
select test.invalid('not sound', $$select settle.rerun('revise', 'ann', 'r', '{"account":"A","amount":5,"n":1e400}')$$, 'request', '%1e309%');
select test.ok('nothing changed', state = test.everything()) from test.before;
select test.same('another note', (settle.decide('revise', 'rerun', 'ann', 'r', request => '{"account":"A","amount":5.0,"note":"y"}')).outcome, 'done');
select test.same('what was changed', test.decisions('revise') #> '{0,4}', '{"revised_from":{"account":"A","amount":5,"note":"x"},"revised_to":{"account":"A","amount":5.0,"note":"y"}}'::jsonb);
select test.same('whole', request, '{"account":"A","amount":5.0,"note":"y"}'::jsonb) from settle.operations where key = 'revise';
select test.same('by rerun', (settle.rerun('revise2', 'ann', 'r', '{"account":"A","amount":5}')).outcome, 'done');
select test.same('still the same operation', (settle.begin_operation('revise2', 'pay', '{"account":"A","amount":5,"note":"z"}', lease => '1h')).outcome, 'started');

-- rerun of a refused one, where its kind says so: what it was refused with stays with its execution.
select settle.begin_operation('no', 'pay', '{"account":"A","amount":5}', owner => 'w1', lease => '1h'), settle.refuse('no', 1, 'NO_FUNDS', '{"short":1}');
select test.same('again', to_jsonb(settle.rerun('no', 'ann', 'funds came')), '{"outcome":"done","status":"pending","reason":null}'::jsonb);
select test.same('no failure now', jsonb_build_array(status, failure, finished_at), '["pending",null,null]'::jsonb) from settle.operations where key = 'no';
select test.same('started', (settle.begin_operation('no', 'pay', '{"account":"A","amount":5}', owner => 'w2', lease => '1h')).token, 2::bigint);
select settle.refuse('no', 2, 'CLOSED', '"text"'), settle.rerun('no', 'ann', 'r'), settle.begin_operation('no', 'pay', '{"account":"A","amount":5}', owner => 'w3', lease => '1h'), settle.complete('no', 3, 'ref');
select test.same('the history', jsonb_agg(jsonb_build_array(token, trigger, outcome, error) order by token), '[[1,"call","refused",{"class":"refused","code":"NO_FUNDS","message":null,"detail":{"short":1}}],
    [2,"manual","refused",{"class":"refused","code":"CLOSED","message":"text","detail":"text"}],[3,"manual","succeeded",null]]'::jsonb) from settle.executions where key = 'no';
select settle.begin_operation('no2', 'plain', lease => '1h'), settle.refuse('no2', 1, 'NO');
select test.same('where it does not', to_jsonb(settle.rerun('no2', 'ann', 'r')), '{"outcome":"refused","status":"failed","reason":"it was refused, and its kind does not say review.rerun_failed"}'::jsonb);
select test.same('the wish is recorded', jsonb_build_array(trigger, outcome, worker, operator, reason), '["manual","replayed","ann","ann","r"]'::jsonb) from settle.executions where key = 'no2' and token = 2;

-- begin_rerun, as exec uses it: at once and by the caller, also of a refused one whose kind does not say so.
select test.same('of a refused one', to_jsonb(settle.begin_rerun('no2', 'plain', '{}', 'ann', 'fixed', owner => 'w9', lease => '1h')) - 'lease_until',
    '{"outcome":"started","token":3,"execution_id":"no2#3","status":"running","result_ref":null,"result":null,"failure":null,"next_attempt_at":null,"holder":null,"attempt_count":2}'::jsonb);
select test.same('who', jsonb_build_array(trigger, worker, operator, reason), '["manual","w9","ann","fixed"]'::jsonb) from settle.executions where key = 'no2' and token = 3;
select test.same('decided', test.decisions('no2'), '[["rerun","ann","failed","pending",null]]'::jsonb);
select test.same('of one never seen', to_jsonb(settle.begin_rerun('fresh', 'plain', '{}', 'ann', 'first', lease => '1h', effect => 'opaque')) - 'lease_until',
    '{"outcome":"started","token":1,"execution_id":"fresh#1","status":"running","result_ref":null,"result":null,"failure":null,"next_attempt_at":null,"holder":null,"attempt_count":1}'::jsonb);
select test.same('of a success', (settle.begin_rerun('succeeded', 'pay', '{"account":"A","amount":5}', 'ann', 'r', lease => '1h')).outcome, 'replayed');
select test.same('recorded as a replay', jsonb_build_array(trigger, outcome, operator), '["manual","replayed","ann"]'::jsonb) from settle.executions where key = 'succeeded' and token = 2;
select test.invalid('no operator', $$select settle.begin_rerun('no2', 'plain', '{}', null, 'r')$$, 'operator', 'is required');
select test.invalid('no reason', $$select settle.begin_rerun('no2', 'plain', '{}', 'ann', '')$$, 'reason', 'is required');
select test.invalid('no key', $$select settle.begin_rerun(null, 'plain', '{}', 'ann', 'r')$$, 'key', 'is required');
select test.invalid('~undo', $$select settle.begin_rerun('x~undo', 'plain', '{}', 'ann', 'r')$$, 'key', 'ends with ~undo%');
select test.invalid('lease', $$select settle.begin_rerun('no3', 'plain', '{}', 'ann', 'r', lease => '0')$$, 'lease', 'is outside 1 ms to 10 years');

-- Two people, where the kind asks for them: two names, one decision, by whatever door.
select test.in_review('T' || i, 'two') from generate_series(1, 9) as i;
select test.same('the first', to_jsonb(settle.decide('T1', 'succeeded', 'ann', 'r', 'ref')), '{"outcome":"approved","status":"review","reason":null}'::jsonb);
select test.same('still in review, with one approval', jsonb_build_array(status, approvals), '["review",1]'::jsonb) from settle.reviews where key = 'T1';
select test.same('not the same person twice', (settle.decide('T1', 'succeeded', 'ann', 'r', 'ref')).outcome, 'approved');
select test.same('not another decision', (settle.decide('T1', 'failed', 'bob', 'r')).outcome, 'approved');
select test.same('not another reference', (settle.decide('T1', 'succeeded', 'bob', 'r', 'other')).outcome, 'approved');
select test.same('the second', (settle.decide('T1', 'succeeded', 'bob', 'r', 'ref')).outcome || ' ' || test.status('T1'), 'done succeeded');
select test.same('all of it', test.decisions('T1'), '[["approve succeeded","ann","review","review",{"result_ref":"ref"}],["approve failed","bob","review","review",null],
    ["approve succeeded","bob","review","review",{"result_ref":"other"}],["succeeded","bob","review","succeeded",{"result_ref":"ref"}]]'::jsonb);
select test.same('rerun', (settle.rerun('T2', 'ann', 'r')).outcome || (settle.rerun('T2', 'ann', 'r')).outcome || (settle.decide('T2', 'rerun', 'bob', 'r')).outcome, 'approvedapproveddone');
select test.same('cancel', (settle.cancel('T3', 'ann', 'r')).outcome || (settle.cancel('T3', 'ann', 'r')).outcome || (settle.decide('T3', 'cancelled', 'bob', 'r')).outcome, 'approvedapproveddone');
select test.same('exec', (settle.begin_rerun('T4', 'two', '{"account":"A","amount":5,"note":"x"}', 'ann', 'r', lease => '1h')).outcome || (settle.begin_rerun('T4', 'two', '{"account":"A","amount":5,"note":"x"}', 'bob', 'r', lease => '1h')).outcome, 'frozenstarted');
select test.same('one revision is not another', (settle.decide('T5', 'rerun', 'ann', 'r', request => '{"account":"A","amount":5,"note":"x"}')).outcome || (settle.decide('T5', 'rerun', 'bob', 'r')).outcome
    || (settle.rerun('T5', 'bob', 'r', '{"account":"A","amount":5,"note":"x"}')).outcome, 'approvedapproveddone');
select test.same('compensate', (settle.decide('T6', 'compensate', 'ann', 'r')).outcome || (settle.decide('T6', 'compensate', 'bob', 'r')).outcome || ' ' || test.status('T6~undo'), 'approveddone pending');
-- An approval is of this review, not of the next.
select settle.decide('T7', 'failed', 'ann', 'r'), settle.decide('T7', 'rerun', 'ann', 'r'), settle.decide('T7', 'rerun', 'bob', 'r'), settle.begin_operation('T7', 'two', '{"account":"A","amount":5,"note":"x"}', lease => '1h'), settle.fail('T7', 2, 'defect', 'D', 'd');
select test.same('a new review', (settle.decide('T7', 'failed', 'bob', 'r')).outcome, 'approved');
select test.same('approvals', approvals, 1::bigint) from settle.reviews where key = 'T7';

-- cancel.
select settle.begin_operation('C1', 'plain', owner => 'w1', lease => '1h');
select test.same('asked of a running one', to_jsonb(settle.cancel('C1', 'ann', 'r')), '{"outcome":"requested","status":"running","reason":null}'::jsonb);
select test.ok('seen', cancel_requested) from settle.operations where key = 'C1';
select settle.fail('C1', 1, 'cancelled', 'STOPPED', 's');
select test.same('cancelled', jsonb_build_array(status, failure ->> 'code', cancel_requested), '["cancelled","CANCELLED",true]'::jsonb) from settle.operations where key = 'C1';
select test.same('its execution', outcome, 'cancelled') from settle.executions where key = 'C1';

-- A lapsed lease is settled first: a person decides on what is so now.
select settle.begin_operation('L1', 'plain', lease => '1h'), settle.mark_sent('L1', 1), test.lapse('L1');
select test.same('lost with its mark', (settle.decide('L1', 'succeeded', 'ann', 'r', 'ref')).outcome || ' ' || test.status('L1'), 'done succeeded');
select test.same('from', test.decisions('L1') #>> '{0,2}', 'unknown');
select settle.begin_operation('L2', 'plain', lease => '1h'), test.lapse('L2');
select test.same('lost', (settle.cancel('L2', 'ann', 'r')).outcome || ' ' || test.status('L2'), 'done cancelled');

-- Bad input.
select test.in_review('bad');
update test.before set state = test.everything();
create function test.bad(call text, field text, why text) returns void language plpgsql as $$ begin perform test.invalid(call, 'select settle.' || call, field, why); end $$;
select test.bad(replace(call, 'OP', bad), 'operator', why) from unnest(array[$$rerun('bad', OP, 'r')$$, $$cancel('bad', OP, 'r')$$, $$decide('bad', 'failed', OP, 'r')$$]) as call,
    (values ('null', 'is required'), ($$''$$, 'is empty'), ($$' '$$, 'begins or ends with a space'), ($$repeat('o', 256)$$, 'is 256 bytes long; the limit is 255')) as b (bad, why);
select test.bad(replace(call, 'WHY', bad), 'reason', why) from unnest(array[$$rerun('bad', 'ann', WHY)$$, $$cancel('bad', 'ann', WHY)$$, $$decide('bad', 'failed', 'ann', WHY)$$]) as call,
    (values ('null', 'is required'), ($$''$$, 'is required'), ($$'  '$$, 'is required'), ($$repeat('r', 65537)$$, 'is over the limit of 65536 bytes')) as b (bad, why);
select test.bad(format('decide(''bad'', %s, ''ann'', ''r'')', bad), 'decision', 'is none of rerun, succeeded, failed, cancelled, compensate') from unnest(array['null', '''''', '''maybe''', '''SUCCEEDED''']) as bad;
select test.bad($$decide('bad', 'succeeded', 'ann', 'r', '')$$, 'result_ref', 'is empty');
select test.bad($$decide('bad', 'succeeded', 'ann', 'r', repeat('x', 256))$$, 'result_ref', 'is 256 bytes long; the limit is 255');
select test.bad($$decide(null, 'succeeded', 'ann', 'r')$$, 'key', 'is required');
select test.bad($$rerun('', 'ann', 'r')$$, 'key', 'is empty');
select test.ok('nothing changed', state = test.everything()) from test.before;
