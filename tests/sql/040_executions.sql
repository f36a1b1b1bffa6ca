-- Executions: numbered, told apart, counted where they ran, and none of them lost.
\ir support/check.psql

select settle.declare_kind('m', '{"effect":"keyed","retry":{"max_attempts":100}}');
create function test.history(of_key text) returns jsonb language sql security definer as $$
    select jsonb_agg(jsonb_build_array(token, trigger, worker, outcome) order by token) from settle.executions where key = of_key
$$;

-- The first lives in the operation's row, and is seen like any other.
select settle.begin_operation('A', 'm', owner => 'w1', lease => '1h');
select test.same('running', test.history('A'), '[[1,"call","w1",null]]'::jsonb);
select test.same('no row of its own', count(*), 0::bigint) from settle_data.execution;
select settle.mark_sent('A', 1, 'remote:1');
create table test.first as select to_jsonb(e) as seen from settle.executions e where key = 'A';

-- Lost with a mark: unknown; a decision to run it again; and the first is in the history with nothing lost.
select test.lapse('A');
select test.same('unknown', (settle.begin_operation('A', 'm', owner => 'w2', lease => '1h')).outcome, 'unknown');
select settle.decide('A', 'rerun', 'ann', 'seen that nothing was sent');
select test.same('started', to_jsonb(settle.begin_operation('A', 'm', owner => 'w2', lease => '1h')) - 'lease_until',
    '{"outcome":"started","token":2,"execution_id":"A#2","status":"running","result_ref":null,"result":null,"failure":null,"next_attempt_at":null,"holder":null,"attempt_count":2}'::jsonb);
select test.same('both', test.history('A'), '[[1,"call","w1","unknown"],[2,"manual","w2",null]]'::jsonb);
select test.same('nothing of the first is lost', to_jsonb(e) - 'finished_at' - 'outcome' - 'error', first.seen - 'finished_at' - 'outcome' - 'error')
from settle.executions e, test.first where e.key = 'A' and e.token = 1;
select test.ok('nor how it ended', sent_at is not null and remote_ref = 'remote:1' and started_at <= sent_at and sent_at <= finished_at and error ->> 'code' = 'LEASE_LOST' and error ->> 'class' = 'unknown'
    and error ->> 'message' like 'the lease lapsed at ____-__-__T__:__:__.______Z with no answer from its holder') from settle.executions where key = 'A' and token = 1;
select test.ok('the second is unmarked', sent_at is null and remote_ref is null and error is null and finished_at is null) from settle.executions where key = 'A' and token = 2;
select settle.mark_sent('A', 2, 'remote:2');
select test.ok('and shows its mark while it runs', sent_at is not null and remote_ref = 'remote:2') from settle.executions where key = 'A' and token = 2;
select settle.complete('A', 2, 'ref');
select test.same('and at its end', jsonb_build_array(outcome, remote_ref, sent_at is not null, finished_at is not null, error), '["succeeded","remote:2",true,true,null]'::jsonb) from settle.executions where key = 'A' and token = 2;

-- Repeats by schedule or manual that do not run are recorded with what they met, under numbers of their own; a call leaves none.
select settle.begin_operation('B', 'm', '{"a":1}', owner => 'w1', lease => '1h');
select test.same('in progress', (settle.begin_operation('B', 'm', '{"a":1}', trigger => 'schedule', owner => 's')).outcome, 'in_progress');
select test.same('conflict', (settle.begin_operation('B', 'm', '{"a":2}', trigger => 'manual', owner => 'p')).outcome, 'conflict');
select test.same('a call', (settle.begin_operation('B', 'm', '{"a":1}', owner => 'c')).outcome, 'in_progress');
select test.same('an event', (settle.begin_operation('B', 'm', '{"a":1}', trigger => 'event', owner => 'c')).outcome, 'in_progress');
select test.same('the holder is not disturbed', (settle.renew('B', 1, '1h', 'w1')).outcome, 'renewed');
-- Taken over after them: the next number that is free, and a token like any other.
select test.lapse('B');
select test.same('takeover', to_jsonb(settle.begin_operation('B', 'm', '{"a":1}', owner => 'w2', lease => '1h')) - 'lease_until',
    '{"outcome":"started","token":4,"execution_id":"B#4","status":"running","result_ref":null,"result":null,"failure":null,"next_attempt_at":null,"holder":null,"attempt_count":2}'::jsonb);
select test.same('history', test.history('B'), '[[1,"call","w1","lost"],[2,"schedule","s","in_progress"],[3,"manual","p","conflict"],[4,"takeover","w2",null]]'::jsonb);
-- The loser is told who came, at each call, and its execution keeps that.
select test.same('stale', to_jsonb(settle.complete('B', 1)), '{"outcome":"stale","current_token":4,"holder":"w2"}'::jsonb);
select test.same('stale', to_jsonb(settle.refuse('B', 1, 'NO')), '{"outcome":"stale","current_token":4,"holder":"w2"}'::jsonb);
select test.same('stale', to_jsonb(settle.mark_sent('B', 1)), '{"outcome":"stale","current_token":4,"holder":"w2"}'::jsonb);
select test.same('stale', to_jsonb(settle.renew('B', 1)), '{"outcome":"stale","lease_until":null,"cancel_requested":null,"current_token":4,"holder":"w2"}'::jsonb);
select test.same('stale', to_jsonb(settle.fail('B', 1, 'transient', 'T', 't')), '{"outcome":"stale","next_attempt_at":null,"status":"running","current_token":4,"holder":"w2"}'::jsonb);
select test.same('kept', error -> 'detail', '{"holder":"w2","current_token":4}'::jsonb) from settle.executions where key = 'B' and token = 1;
-- Nor is a repeat's number a token.
select test.same('stale', (settle.complete('B', 2)).outcome || (settle.complete('B', 3)).outcome || (settle.complete('B', 5)).outcome, 'stalestalestale');
select settle.complete('B', 4, 'ref');
select test.same('replayed', (settle.begin_operation('B', 'm', '{"a":1}', trigger => 'schedule', owner => 's')).outcome, 'replayed');
select test.same('replayed', (settle.begin_operation('B', 'm', '{"a":1}', trigger => 'manual', owner => 'p')).outcome, 'replayed');
select test.same('history', test.history('B') - 0 - 0 - 0, '[[4,"takeover","w2","succeeded"],[5,"schedule","s","replayed"],[6,"manual","p","replayed"]]'::jsonb);
select test.same('only what ran counts', attempt_count, 2) from settle.operations where key = 'B';
select test.same('still complete, to its holder', (settle.complete('B', 4, 'ref')).outcome, 'completed');

-- Frozen, and unknown (one still under way to who meets it).
select settle.begin_operation('C', 'm', owner => 'w1', lease => '1h'), settle.fail('C', 1, 'unknown', 'U', 'u');
select test.same('unknown', (settle.begin_operation('C', 'm', trigger => 'schedule', owner => 's')).outcome, 'unknown');
select settle.begin_operation('D', 'm', owner => 'w1', lease => '1h'), settle.fail('D', 1, 'defect', 'X', 'x');
select test.same('frozen', (settle.begin_operation('D', 'm', trigger => 'manual', owner => 'p')).outcome, 'frozen');
select test.same('history', test.history('C') || test.history('D'), '[[1,"call","w1","unknown"],[2,"schedule","s","in_progress"],[1,"call","w1","failed"],[2,"manual","p","frozen"]]'::jsonb);

-- A repeat before the first run does not take the first one's number: a compensation waits in the queue.
select settle.declare_kind('undo_me', '{"effect":"keyed","compensation":{"kind":"undoing"}}'), settle.declare_kind('undoing', '{"effect":"keyed"}');
select settle.begin_operation('E', 'undo_me', lease => '1h'), settle.fail('E', 1, 'unknown', 'U', 'u'), settle.decide('E', 'compensate', 'ann', 'r');
select test.same('queued', jsonb_build_array(status, attempt_count, token, kind), '["pending",0,null,"undoing"]'::jsonb) from settle.operations where key = 'E~undo';
select test.same('none ran', test.history('E~undo'), null);
select test.same('started', (settle.begin_compensation('E', 'bob', 'r', owner => 'w', lease => '1h')).token, 1::bigint);
select test.same('history', test.history('E~undo'), '[[1,"call","w",null]]'::jsonb);

-- Many: fail, again, recorded repeats between; numbers are all different, in time order, and nothing is missing.
do $$
declare
    current_token bigint := 1;
    answer settle.begin_operation_answer;
begin
    perform settle.begin_operation('many', 'm', owner => 'w1', lease => '1h');
    for i in 2 .. 30 loop
        if i % 3 = 0 then
            perform settle.begin_operation('many', 'm', trigger => 'schedule', owner => 's' || i);
        end if;
        if i % 2 = 0 then
            perform test.same('retry', (settle.fail('many', current_token, 'transient', 'T' || i, 't')).outcome, 'retry');
            perform test.make_due('many');
        else
            perform test.lapse('many');
        end if;
        answer := settle.begin_operation('many', 'm', owner => 'w' || i, lease => '1h');
        perform test.same('started', answer.outcome, 'started');
        perform test.ok('a token higher than all before', answer.token > current_token);
        perform test.same('counted', answer.attempt_count, i);
        current_token := answer.token;
    end loop;
    perform settle.complete('many', current_token, 'ref');
end $$;
select test.same('all are there', count(*), 30 + 10::bigint) from settle.executions where key = 'many';
select test.same('numbered without a gap', array_agg(token order by token), (select array_agg(i::bigint) from generate_series(1, 40) as i)) from settle.executions where key = 'many';
select test.same('by how they ended', jsonb_object_agg(outcome, n), '{"failed":15,"lost":14,"in_progress":10,"succeeded":1}'::jsonb)
from (select outcome, count(*) as n from settle.executions where key = 'many' group by outcome) as o;
select test.ok('in time order', bool_and(started_at >= before)) from (select started_at, lag(started_at, 1, started_at) over (order by token) as before from settle.executions where key = 'many') as t;
select test.same('each with its error', count(*), 29::bigint) from settle.executions where key = 'many' and (error ->> 'code' like 'T_%' or error ->> 'code' = 'LEASE_LOST');

-- A sweep meets the loss before anyone takes over; the takeover is one all the same.
select settle.begin_operation('S', 'm', owner => 'w1', lease => '1h'), test.lapse('S');
select test.same('swept', settle.sweep(), 1);
select test.same('pending', jsonb_build_array(status, last_error ->> 'code'), '["pending","LEASE_LOST"]'::jsonb) from settle.operations where key = 'S';
select settle.begin_operation('S', 'm', owner => 'w2', lease => '1h');
select test.same('history', test.history('S'), '[[1,"call","w1","lost"],[2,"takeover","w2",null]]'::jsonb);
select test.same('the loser keeps who', error -> 'detail', '{"holder":"w2","current_token":2}'::jsonb) from settle.executions where key = 'S' and token = 1;

-- The attempts that the kind allows: the last one lost goes to a person.
select settle.declare_kind('twice', '{"effect":"keyed","retry":{"max_attempts":2}}');
select settle.begin_operation('T', 'twice', lease => '1h'), test.lapse('T'), settle.begin_operation('T', 'twice', lease => '1h'), test.lapse('T');
select test.same('frozen', (settle.begin_operation('T', 'twice', lease => '1h')).outcome, 'frozen');
select test.same('exhausted', jsonb_build_array(status, review_reason, attempt_count), '["review","exhausted",2]'::jsonb) from settle.operations where key = 'T';
