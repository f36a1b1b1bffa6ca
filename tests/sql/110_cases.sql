-- Failures that users of other systems met, step by step, with their right values; where time passes it is moved by hand.
\ir support/check.psql

create function test.expire(of_key text) returns void language sql as $$ select test.lapse(of_key) $$;

-- A slow one outlives its lease; its successor's work is not ended, released or repeated by it.
select test.same('A starts', (settle.begin_operation('K5', 'pay', owner => 'A', lease => '10 s', effect => 'keyed')).token, 1::bigint);
select test.expire('K5');
select test.same('B takes over', (settle.begin_operation('K5', 'pay', owner => 'B', lease => '1 h')).token, 2::bigint);
create table test.kept as select test.stored('K5') as state;
select test.same('A ends, cleans up, lets go', array[(settle.complete('K5', 1, 'A''s')).outcome, (settle.refuse('K5', 1, 'ABORTED')).outcome, (settle.fail('K5', 1, 'cancelled', 'SHUTDOWN', 's')).outcome,
    (settle.renew('K5', 1, '1 ms', 'A')).outcome, (settle.mark_sent('K5', 1, 'x')).outcome], array['stale', 'stale', 'stale', 'stale', 'stale']);
select test.ok('nothing changed', state = test.stored('K5')) from test.kept;
select test.same('C meets B', (settle.begin_operation('K5', 'pay', owner => 'C', lease => '1 h')).outcome, 'in_progress');
select test.same('B''s it is', (settle.complete('K5', 2, 'B''s')).outcome || ' ' || (settle.begin_operation('K5', 'pay')).execution_id, 'completed K5#2');
select test.same('B''s it is', result_ref || ' ' || attempt_count, 'B''s 2') from settle.operations where key = 'K5';

-- The work was done and its record could not be written for a while: the record is never lost, nor the work repeated.
select settle.begin_operation('K5b', 'pay', owner => 'A', lease => '1 h', effect => 'opaque'), settle.mark_sent('K5b', 1, 'remote:9'), test.expire('K5b');
select test.same('meanwhile it is unknown', (settle.begin_operation('K5b', 'pay', owner => 'B', lease => '1 h')).outcome, 'unknown');
select test.same('then the write goes through', (settle.complete('K5b', 1, 'done')).outcome, 'completed');
select test.same('one effect', jsonb_build_array(status, result_ref, attempt_count, remote_ref), '["succeeded","done",1,"remote:9"]'::jsonb) from settle.operations where key = 'K5b';

-- A displaced worker reports all it can, again and again.
select settle.declare_kind('x', '{"effect":"keyed","retry":{"max_attempts":3}}');
select settle.begin_operation('X', 'x', owner => 'W1', lease => '30 s'), test.expire('X'), settle.begin_operation('X', 'x', owner => 'W2', lease => '1 h');
create function test.late() returns text[] language sql as $$
    select array[(settle.renew('X', 1, '30 s', 'W1')).outcome, (settle.mark_sent('X', 1, 'progress')).outcome, (settle.fail('X', 1, 'transient', 'LATE', 'late')).outcome,
        (settle.complete('X', 1, 'R1')).outcome, (settle.fail('X', 1, 'transient', 'AGAIN', 'again', retry_after => '0')).outcome]
$$;
update test.kept set state = test.stored('X');
select test.same('all stale', test.late(), array['stale', 'stale', 'stale', 'stale', 'stale']);
select test.ok('nothing changed', state = test.stored('X')) from test.kept;
select test.same('running, the second, W2''s', jsonb_build_array(status, attempt_count, token, lease_owner), '["running",2,2,"W2"]'::jsonb) from settle.operations where key = 'X';
select settle.complete('X', 2, 'R2');
update test.kept set state = test.stored('X');
select test.same('all stale', test.late(), array['stale', 'stale', 'stale', 'stale', 'stale']);
select test.ok('nothing changed', state = test.stored('X')) from test.kept;
select test.same('the end', jsonb_build_array(status, attempt_count, result_ref), '["succeeded",2,"R2"]'::jsonb) from settle.operations where key = 'X';
select test.same('one error, the lapse of the first', jsonb_agg(error ->> 'code'), '["LEASE_LOST"]'::jsonb) from settle.executions where key = 'X' and error is not null;

-- One key of two tenants, and of two kinds; and a key that is not there in the reader's namespace.
select test.same('T1', (settle.begin_operation('abc', 'charge', '{"x":1}', 'T1', lease => '1 h')).outcome, 'started');
select test.same('T2, not held up', (settle.begin_operation('abc', 'charge', '{"x":1}', 'T2', lease => '1 h')).outcome, 'started');
select settle.complete('abc', 1, 'secret of T1', namespace => 'T1');
select test.same('T2 sees its own', (settle.begin_operation('abc', 'charge', '{"x":1}', 'T2')).outcome, 'in_progress');
select test.same('another kind is a conflict', (settle.begin_operation('abc', 'refund', '{"x":1}', 'T1')).outcome, 'conflict');
select test.ok('which gives nothing away', to_jsonb(answer)::text not like '%secret of T1%') from settle.begin_operation('abc', 'refund', '{"x":1}', 'T1') as answer;
select test.same('in a third there is none', count(*), 0::bigint) from settle.operations where namespace = 'T3';
select test.raises('nor a hint of one', $$select settle.complete('abc', 1, namespace => 'T3')$$, 'ST006', 'NOT_FOUND: no operation abc in namespace T3');

-- Text that cannot be stored is refused at the door, by the server itself or with the field's name; nothing is there then.
select test.raises('U+0000 in a request', $$select settle.begin_operation('T0', 'k', '{"n":"a\u0000b"}', lease => '1h')$$, '22P05');
select test.raises('half a pair', $$select settle.begin_operation('T0', 'k', '{"n":"\ud800"}', lease => '1h')$$, '22P02');
select test.raises('in a result', $$select settle.complete('abc', 1, result => '{"n":"\u0000"}', namespace => 'T2')$$, '22P05');
select test.same('which can still be ended', (settle.complete('abc', 1, result => '{"n":"\\u0000"}', namespace => 'T2')).outcome, 'completed');
select test.same('nothing is there', count(*), 0::bigint) from settle.operations where key = 'T0';

-- Until the lease's end by the database's clock nobody takes over, however often asked; a retry not before its time.
select settle.begin_operation('C12', 'pay', owner => 'A', lease => '120 s', effect => 'keyed');
select test.same('not before', (settle.begin_operation('C12', 'pay', owner => 'B', lease => '1 h')).outcome, 'in_progress') from generate_series(1, 20);
update settle_data.operation set lease_until = clock_timestamp() + interval '300 ms' where key = 'C12';
select test.same('nor just before', (settle.begin_operation('C12', 'pay', owner => 'B', lease => '1 h')).outcome, 'in_progress');
do $$
declare
    answer settle.begin_operation_answer;
    deadline timestamptz := clock_timestamp() + interval '30 s';
    until_at timestamptz := (select lease_until from settle_data.operation where key = 'C12');
begin
    loop
        answer := settle.begin_operation('C12', 'pay', owner => 'B', lease => '1 h');
        exit when answer.outcome = 'started' or clock_timestamp() > deadline;
        perform test.same('not before', answer.outcome, 'in_progress');
    end loop;
    perform test.same('then', answer.outcome, 'started');
    perform test.ok('by the clock', (select started_at from settle_data.operation where key = 'C12') >= until_at);
end $$;
select settle.fail('C12', 2, 'transient', 'T', 't', retry_after => '60 s');
select test.same('nor a retry', (settle.begin_operation('C12', 'pay', owner => 'C', lease => '1 h')).outcome, 'in_progress') from generate_series(1, 20);
select test.ok('before its time', next_attempt_at >= clock_timestamp() + interval '55 s') from settle.operations where key = 'C12';
