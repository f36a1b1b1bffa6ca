-- Begun without a lease and not ended: the transaction cannot commit, so that no effect stands without its record.
\ir support/check.psql

create table public.effect (id integer);
grant all on public.effect to public;
create function test.there(of_key text) returns boolean language sql security definer as $$ select exists (select from settle_data.operation o where o.key = of_key) $$;
grant execute on function test.there(text) to public;

-- As an application, which owns nothing: the trigger has rights of its own.
set role settle_app;
begin;
insert into public.effect values (1);
select settle.begin_operation('A', 'k');
\ir support/commit.psql
select test.same('how it failed', :'SQLSTATE'::text, 'ST012');
select test.same('which is said', :'LAST_ERROR_MESSAGE'::text, 'OPERATION_NOT_ENDED: operation A was begun in this transaction and not ended: call complete, refuse or fail before COMMIT, or begin it with a lease');
select test.ok('nothing stays', not test.there('A') and not exists (select from public.effect));

-- Each way to end it is one.
begin;
select settle.begin_operation('A', 'k'), settle.complete('A', 1);
\ir support/commit.psql
select test.same('complete', :'SQLSTATE'::text, '00000');
begin;
select settle.begin_operation('B', 'k'), settle.refuse('B', 1, 'NO');
\ir support/commit.psql
select test.same('refuse', :'SQLSTATE'::text, '00000');
begin;
select settle.begin_operation('C', 'k'), settle.fail('C', 1, 'transient', 'T', 't');
\ir support/commit.psql
select test.same('fail', :'SQLSTATE'::text, '00000');
begin;
select settle.begin_operation('D', 'k', lease => '1h');
\ir support/commit.psql
select test.same('or a lease', :'SQLSTATE'::text, '00000');
begin;
select settle.begin_operation('E', 'k'), settle.fail('E', 1, 'unknown', 'U', 'u');
\ir support/commit.psql
select test.same('unknown', :'SQLSTATE'::text, '00000');
select test.same('all are there', array[test.there('A'), test.there('B'), test.there('C'), test.there('D'), test.there('E')], array[true, true, true, true, true]);

-- Ended under the wrong token is not ended; nor is another one's end.
begin;
select settle.begin_operation('F', 'k'), settle.complete('F', 2);
\ir support/commit.psql
select test.same('stale', :'SQLSTATE'::text, 'ST012');
begin;
select settle.begin_operation('G', 'k'), settle.begin_operation('H', 'k'), settle.complete('G', 1);
\ir support/commit.psql
select test.same('one of two', :'SQLSTATE'::text, 'ST012');
select test.ok('neither stays', not test.there('G') and not test.there('H'));

-- Savepoints: what was rolled back was never begun, and what was begun before is still to end.
begin;
savepoint s;
select settle.begin_operation('I', 'k');
rollback to s;
insert into public.effect values (2);
\ir support/commit.psql
select test.same('begun in a savepoint, rolled back', :'SQLSTATE'::text, '00000');
begin;
select settle.begin_operation('I', 'k');
savepoint s;
select settle.complete('I', 1);
rollback to s;
\ir support/commit.psql
select test.same('ended in a savepoint, rolled back', :'SQLSTATE'::text, 'ST012');
begin;
savepoint s;
select settle.begin_operation('I', 'k');
release s;
select settle.complete('I', 1);
\ir support/commit.psql
select test.same('released', :'SQLSTATE'::text, '00000');
begin;
savepoint s;
select settle.begin_operation('J', 'k'), settle.complete('J', 1);
rollback to s;
select test.same('and may be begun anew', (settle.begin_operation('J', 'k')).outcome || (settle.complete('J', 1)).outcome, 'startedcompleted');
\ir support/commit.psql
select test.same('once', :'SQLSTATE'::text, '00000');
do $$
begin
    begin
        perform settle.begin_operation('K', 'k');
        raise exception using errcode = 'TST01';
    exception when sqlstate 'TST01' then
        perform settle.begin_operation('K', 'k'), settle.fail('K', 1, 'transient', 'TST01', 'the work failed');
    end;
end $$;
select test.same('a failure recorded after its work was undone', status, 'pending') from settle.operations where key = 'K';

-- A started one that had waited, without a lease.
reset role;
select test.make_due('K');
set role settle_app;
begin;
select test.same('started', (settle.begin_operation('K', 'k')).token, 2::bigint);
\ir support/commit.psql
select test.same('not ended', :'SQLSTATE'::text, 'ST012');
select test.same('it waits as before', jsonb_build_array(status, attempt_count, token), '["pending",1,1]'::jsonb) from settle.operations where key = 'K';
-- And of a lapsed lease.
reset role;
select test.lapse('D');
set role settle_app;
begin;
select test.same('taken over', (settle.begin_operation('D', 'k')).token, 2::bigint);
select settle.complete('D', 2);
\ir support/commit.psql
select test.same('ended', :'SQLSTATE'::text, '00000');

-- A documented limit: made immediate, the constraint is looked at at once.
begin;
set constraints all immediate;
select test.raises('at begin already', $$select settle.begin_operation('L', 'k')$$, 'ST012', 'OPERATION_NOT_ENDED%');
select test.same('with a lease it is not asked', (settle.begin_operation('L', 'k', lease => '1h')).outcome, 'started');
\ir support/commit.psql
begin;
select settle.begin_operation('M', 'k'), settle.complete('M', 1);
set constraints all immediate;
\ir support/commit.psql
select test.same('after the end it passes', :'SQLSTATE'::text, '00000');
-- In autocommit every statement is a transaction.
\set ON_ERROR_STOP off
select settle.begin_operation('N', 'k');
\set ON_ERROR_STOP on
select test.same('alone', :'SQLSTATE'::text, 'ST012');
select test.ok('nothing', not test.there('N'));
begin isolation level serializable;
select settle.begin_operation('N', 'k');
\ir support/commit.psql
select test.same('serializable', :'SQLSTATE'::text, 'ST012');
begin isolation level repeatable read;
select settle.begin_operation('N', 'k'), settle.complete('N', 1);
\ir support/commit.psql
select test.same('repeatable read, ended', :'SQLSTATE'::text, '00000');
reset role;
