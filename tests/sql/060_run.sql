-- run: begin, the kind's own function as the caller, complete, in one call.
\ir support/check.psql

select test.role('run_caller', 'settle_app');
create schema bank authorization run_caller;
create table bank.account (id text primary key, balance numeric not null check (balance >= 0));
create table bank.entry (op text primary key, account text not null, amount numeric not null);
alter table bank.account owner to run_caller;
alter table bank.entry owner to run_caller;
insert into bank.account values ('A', 1000);

create function bank.debit(key text, request jsonb) returns jsonb language plpgsql as $$
declare
    left_over numeric;
begin
    insert into bank.entry values (key, request ->> 'account', (request ->> 'amount')::numeric);
    update bank.account set balance = balance - (request ->> 'amount')::numeric
    where id = request ->> 'account' and balance >= (request ->> 'amount')::numeric returning balance into left_over;
    if not found then
        raise exception using errcode = 'ST100', message = 'NO_FUNDS', detail = jsonb_build_object('asked', request -> 'amount');
    end if;
    return jsonb_build_object('balance', left_over, 'result_ref', 'entry:' || key, 'who', current_user);
end $$;
select settle.declare_kind('debit', '{"effect":"local","handler":{"sql":"bank.debit"},"identity":["/account","/amount"]}');

-- As the caller: its rights, its search_path, its name.
set role run_caller;
select test.same('completed', to_jsonb(settle.run('R1', 'debit', '{"account":"A","amount":100}')),
    '{"outcome":"completed","token":1,"execution_id":"R1#1","status":"succeeded","result_ref":"entry:R1","result":{"balance":900,"result_ref":"entry:R1","who":"run_caller"},
      "failure":null,"lease_until":null,"next_attempt_at":null,"holder":null,"attempt_count":1}'::jsonb);
select test.same('replayed', to_jsonb(settle.run('R1', 'debit', '{"account":"A","amount":100.0,"note":"again"}')),
    '{"outcome":"replayed","token":null,"execution_id":"R1#1","status":"succeeded","result_ref":"entry:R1","result":{"balance":900,"result_ref":"entry:R1","who":"run_caller"},
      "failure":null,"lease_until":null,"next_attempt_at":null,"holder":null,"attempt_count":1}'::jsonb);
select test.same('conflict', (settle.run('R1', 'debit', '{"account":"A","amount":101}')).failure #> '{detail,pointers}', '["/amount"]'::jsonb);
select test.same('one effect', balance, 900::numeric) from bank.account;
select test.same('by begin_operation too', (settle.begin_operation('R1', 'debit', '{"account":"A","amount":100}')).outcome, 'replayed');
reset role;
select test.same('the record is whole', to_jsonb(o) - 'created_at' - 'started_at' - 'finished_at' - 'declared_at',
    (select to_jsonb(x) - 'created_at' - 'started_at' - 'finished_at' || '{"namespace":"default","key":"R1","kind":"debit","status":"succeeded","effect":"local","trigger":"call",
        "token":1,"revision":1,"attempt_count":1,"counter":1,"request":{"amount":100,"account":"A"},"result_ref":"entry:R1","result":{"who":"run_caller","balance":900,"result_ref":"entry:R1"}}'::jsonb
        || jsonb_build_object('owner', session_user) from (select (null::settle_data.operation).*) as x))
from settle_data.operation o where key = 'R1';
select test.ok('and its times', created_at <= started_at and started_at <= finished_at) from settle_data.operation where key = 'R1';
select test.same('one execution', jsonb_agg(jsonb_build_array(execution_id, trigger, outcome, error)), '[["R1#1","call","succeeded",null]]'::jsonb)
from settle.executions where key = 'R1';

-- The handler's own names are found by the caller's search_path, and the handler's own name too.
create schema mine;
grant usage on schema mine to run_caller;
create table mine.log (line text);
grant all on mine.log to run_caller;
create function mine.note(key text, request jsonb) returns jsonb language plpgsql as $$ begin insert into log values (key); return to_jsonb(current_setting('search_path')); end $$;
select settle.declare_kind('note', '{"effect":"local","handler":{"sql":"note"}}');
set role run_caller;
select test.invalid('not visible', $$select settle.run('N1', 'note')$$, 'handler', '%note(text, jsonb) of kind note does not exist or is not visible%');
set search_path = mine, public;
select test.same('visible', (settle.run('N1', 'note')).result, '"mine, public"'::jsonb);
select test.same('written', (select line from log), 'N1');
reset search_path;
reset role;

-- No: the handler's own writes are undone, the refusal is recorded and replayed, and the handler is not asked again.
set role run_caller;
select test.same('refused', to_jsonb(settle.run('R2', 'debit', '{"account":"A","amount":5000}')),
    '{"outcome":"refused","token":1,"execution_id":"R2#1","status":"failed","result_ref":null,"result":null,"failure":{"code":"NO_FUNDS","detail":{"asked":5000}},
      "lease_until":null,"next_attempt_at":null,"holder":null,"attempt_count":1}'::jsonb);
select test.same('undone', (select count(*) from bank.entry where op = 'R2'), 0::bigint);
update bank.account set balance = 9000;
select test.same('replayed', to_jsonb(settle.run('R2', 'debit', '{"account":"A","amount":5000}')),
    '{"outcome":"replayed","token":null,"execution_id":"R2#1","status":"failed","result_ref":null,"result":null,"failure":{"code":"NO_FUNDS","detail":{"asked":5000}},
      "lease_until":null,"next_attempt_at":null,"holder":null,"attempt_count":1}'::jsonb);
select test.same('untouched', balance, 9000::numeric) from bank.account;
reset role;
create function bank.say_no(key text, request jsonb) returns jsonb language plpgsql as $$
begin
    raise exception using errcode = 'ST100', message = request ->> 'code',
        detail = replace(coalesce(request ->> 'detail', ''), '<1 MiB>', repeat('x', 1048576));
end $$;
select settle.declare_kind('no', '{"effect":"local","handler":{"sql":"bank.say_no"}}');
select test.same('detail ' || left(detail, 40), (settle.run('no' || n, 'no', jsonb_build_object('code', 'NO', 'detail', detail))).failure, jsonb_build_object('code', 'NO', 'detail', wanted))
from (values (1, '{"a":[1.50,null]}', '{"a":[1.50,null]}'::jsonb), (2, 'null', 'null'), (3, '7', '7'), (4, 'sold out', '"sold out"'), (5, '', null), (6, '{broken', '"{broken"'),
    (7, repeat('[', 50000), to_jsonb(repeat('[', 16000))), (8, '"\ud800"', to_jsonb('"\ud800"'::text)), (9, '"<1 MiB>"', to_jsonb('"' || repeat('x', 15999)))) as case_of (n, detail, wanted);
select test.same('text is kept in the execution', error, '{"class":"refused","code":"NO","message":"sold out"}'::jsonb) from settle.executions where key = 'no4';
select test.same('code ' || coalesce(left(code, 20), 'NULL'), (settle.run('code' || n, 'no', jsonb_build_object('code', code))).failure ->> 'code', wanted)
from (values (1, 'A', 'A'), (2, '', 'REFUSED'), (3, '  ', 'REFUSED'), (4, E'a\nb', 'a b'), (5, repeat('x', 100), repeat('x', 60)), (6, 'UNDONE_FIRST', 'REFUSED'), (7, 'slot taken é', 'slot taken é')) as case_of (n, code, wanted);

-- Any other error is the caller's, and nothing stays: neither the effect nor the operation.
create function bank.explode(key text, request jsonb) returns jsonb language plpgsql as $$
begin
    insert into bank.entry values (key, 'A', 1);
    raise exception using errcode = request ->> 'state', message = 'boom';
end $$;
select settle.declare_kind('explode', '{"effect":"local","handler":{"sql":"bank.explode"}}');
select test.raises('as it is: ' || state, format('select settle.run(%L, %L, %L)', 'X1', 'explode', jsonb_build_object('state', state)), state, 'boom')
from unnest(array['P0001', '40001', '23505', '55P03', 'ST001', 'ST101', '22012']) as state;
select test.same('nothing stays', (select count(*) from settle_data.operation where key = 'X1') + (select count(*) from bank.entry where op = 'X1'), 0::bigint);
-- Also of a constraint that is named as Settle's own.
create table bank.operation (key text constraint operation_pkey primary key);
create function bank.twice(key text, request jsonb) returns jsonb language plpgsql as $$
begin
    insert into bank.operation values (key), (key);
    return null;
end $$;
select settle.declare_kind('twice', '{"effect":"local","handler":{"sql":"bank.twice"}}');
select test.raises('as it is', $$select settle.run('X2', 'twice')$$, '23505', '%operation_pkey%');
do $$
begin
    perform settle.run('X1', 'explode', '{"state":"P0001"}');
exception when raise_exception then
    perform test.same('caught, the transaction goes on, and may try again', (settle.run('X1b', 'no', '{"code":"LATER"}')).outcome, 'refused');
    perform test.raises('not in progress', $q$select settle.run('X1', 'explode', '{"state":"P0002"}')$q$, 'P0002');
end $$;

-- A handler that is there but calls what is not: the error is its own.
create function bank.calls_gone(key text, request jsonb) returns jsonb language plpgsql as $$
begin
    return bank.gone_too(key);
end $$;
select settle.declare_kind('calls_gone', '{"effect":"local","handler":{"sql":"bank.calls_gone"}}');
select test.raises('not the handler that is missing', $$select settle.run('X2', 'calls_gone')$$, '42883', '%bank.gone_too%');

-- Misuse.
create table test.before as select test.everything() as state;
select settle.declare_kind('gone', '{"effect":"local","handler":{"sql":"bank.gone"}}'), settle.declare_kind('native', '{"effect":"local","handler":{"native":true}}'), settle.declare_kind('bare', '{"effect":"local"}');
select test.invalid('no such handler', $$select settle.run('M', 'gone')$$, 'handler', '%bank.gone(text, jsonb) of kind gone does not exist%');
select test.invalid('no sql handler', $$select settle.run('M', 'native')$$, 'kind', 'has no sql handler to run%');
select test.invalid('no handler', $$select settle.run('M', 'bare')$$, 'kind', 'has no sql handler to run%');
select test.invalid('undeclared', $$select settle.run('M', 'undeclared')$$, 'kind', 'has no sql handler to run%');
select test.invalid('no key', $$select settle.run(null, 'debit')$$, 'key', 'is required');
select test.invalid('a long key', $$select settle.run(repeat('k', 256), 'debit')$$, 'key', 'is 256 bytes long; the limit is 255');
select test.invalid('~undo', $$select settle.run('M~undo', 'debit')$$, 'key', 'ends with ~undo%');
select test.invalid('null kind', $$select settle.run('M', null)$$, 'kind', '%');
select test.invalid('null request', $$select settle.run('M', 'debit', null)$$, 'request', 'is null%');
select test.invalid('1e400', $$select settle.run('M', 'debit', '1e400')$$, 'request', '%1e309%');
select test.invalid('null namespace', $$select settle.run('M', 'debit', '{}', null)$$, 'namespace', 'is required');
select test.invalid('empty namespace', $$select settle.run('M', 'debit', '{}', '')$$, 'namespace', 'is empty');
select test.same('nothing is there', (select count(*) from settle_data.operation where key like 'M%'), 0::bigint);

-- The end of run, called by itself: it takes from the kind what is not the caller's to say.
create function bank.echo_of(key text, request jsonb) returns jsonb language plpgsql as $$ begin return request; end $$;
select settle.declare_kind('hidden', '{"effect":"local","secret":true,"handler":{"sql":"bank.echo_of"}}'), settle.declare_kind('open', '{"effect":"local","handler":{"sql":"bank.echo_of"}}');
select test.invalid('of a secret kind', $$select settle.run_record('RR1', 'hidden', '{"pin":9}', 'default', now(), 1, '', '{}', null, null)$$, 'kind', 'has no such revision%');
select test.invalid('of no such revision', $$select settle.run_record('RR1', 'open', '{}', 'default', now(), 999, '', '{}', null, null)$$, 'kind', 'has no such revision%');
select test.invalid('of no kind', $$select settle.run_record('RR1', E'a\tb', '{}', 'default', now(), 1, '', '{}', null, null)$$, 'kind', 'has no such revision%');
select test.same('nothing is there', (select count(*) from settle_data.operation where key = 'RR1'), 0::bigint);
select test.same('never the mark of a compensation', (settle.run_record('RR2', 'open', '{}', 'default', 'infinity', 1, '', null, 'UNDONE_FIRST', null)).failure ->> 'code', 'REFUSED');
select test.ok('nor a time to come', created_at <= clock_timestamp() and created_at >= transaction_timestamp() - interval '1 minute') from settle.operations where key = 'RR2';

-- A handler that asks for the undoing of its own operation: that is not done yet.
create function bank.undoes_itself(key text, request jsonb) returns jsonb language plpgsql as $$
begin
    return to_jsonb((settle.begin_compensation(key, 'ann', 'r')).outcome);
end $$;
select settle.declare_kind('undoes_itself', '{"effect":"local","handler":{"sql":"bank.undoes_itself"}}');
select test.same('in progress', (settle.run('RR4', 'undoes_itself')).result, '"in_progress"'::jsonb);

-- Results: null, any value, one that is too large; a reference in it.
create function bank.echo(key text, request jsonb) returns jsonb language plpgsql as $$ begin return request -> 'answer'; end $$;
select settle.declare_kind('echo', '{"effect":"local","handler":{"sql":"bank.echo"}}');
select test.ok('null', (answer).outcome = 'completed' and (answer).result is null and (answer).result_ref is null) from settle.run('E1', 'echo') as answer;
select test.ok('null is replayed', (answer).outcome = 'replayed' and (answer).status = 'succeeded' and (answer).result is null) from settle.run('E1', 'echo') as answer;
select test.same('a JSON null', (settle.run('E2', 'echo', '{"answer":null}')).result, 'null'::jsonb);
select test.same('a scalar', (settle.run('E3', 'echo', '{"answer":1.50}')).result::text, '1.50');
select test.same('a reference that is no text is none', (settle.run('E4', 'echo', '{"answer":{"result_ref":7}}')).result_ref, null);
select test.same('a reference is cut', (settle.run('E5', 'echo', jsonb_build_object('answer', jsonb_build_object('result_ref', repeat('r', 300))))).result_ref, repeat('r', 255));
create function bank.large(key text, request jsonb) returns jsonb language plpgsql as $$
begin
    return jsonb_build_object('result_ref', 'file:1', 'body', (select string_agg(md5(i::text), '') from generate_series(1, 40000) as i));
end $$;
select settle.declare_kind('large', '{"effect":"local","handler":{"sql":"bank.large"}}');
select test.same('too large: done all the same', to_jsonb(settle.run('E6', 'large')) - 'token' - 'outcome', to_jsonb(settle.run('E6', 'large')) - 'token' - 'outcome');
select test.same('with its reference', to_jsonb(settle.run('E6', 'large')) -> 'result_ref', '"file:1"'::jsonb);
select test.ok('and the reason', error ->> 'code' = 'RESULT_TOO_LARGE' and error ->> 'message' like 'the result of 12800__ bytes is over the limit of 1048576%') from settle.executions where key = 'E6';

-- A handler may run others, and finds its own key in progress.
create function bank.outer(key text, request jsonb) returns jsonb language plpgsql as $$
begin
    return jsonb_build_array((settle.run(key || '/1', 'echo', '{"answer":1}')).outcome, (settle.run(key || '/1', 'echo', '{"answer":1}')).outcome,
        (settle.run(key, 'outer', request)).outcome, (settle.begin_operation(key, 'outer', request)).outcome, (settle.run(key || '/2', 'no', '{"code":"INNER"}')).outcome);
end $$;
select settle.declare_kind('outer', '{"effect":"local","handler":{"sql":"bank.outer"}}');
select test.same('recursion', (settle.run('O1', 'outer')).result, '["completed", "replayed", "in_progress", "in_progress", "refused"]'::jsonb);
begin;
select test.same('several in one transaction', array_agg((settle.run('S' || i, 'outer')).result ->> 2), array_fill('in_progress'::text, array[5])) from generate_series(1, 5) as i;
select test.same('and afterwards it is no longer in progress', (settle.run('S3', 'outer')).outcome, 'replayed');
rollback;
select test.same('rolled back', (settle.run('S3', 'outer')).outcome, 'completed');

-- The stronger levels write the row first; the answers are the same.
begin isolation level serializable;
select test.same('completed', (settle.run('Z1', 'echo', '{"answer":{"result_ref":"z"}}')).result_ref, 'z');
select test.same('replayed', (settle.run('Z1', 'echo', '{"answer":{"result_ref":"z"}}')).outcome, 'replayed');
select test.same('refused', (settle.run('Z2', 'no', '{"code":"Z"}')).failure, '{"code":"Z","detail":null}'::jsonb);
select test.same('recursion', (settle.run('Z3', 'outer')).result, '["completed", "replayed", "in_progress", "in_progress", "refused"]'::jsonb);
select test.same('too large', (settle.run('Z4', 'large')).result, null);
commit;
begin isolation level repeatable read;
select test.same('replayed', (settle.run('Z1', 'echo', '{"answer":{"result_ref":"z"}}')).result, '{"result_ref":"z"}'::jsonb);
commit;
create function bank.ends_itself(key text, request jsonb) returns jsonb language plpgsql as $$ begin perform settle.complete(key, 1, 'mine'); return '{"result_ref":"other"}'; end $$;
select settle.declare_kind('ends_itself', '{"effect":"local","handler":{"sql":"bank.ends_itself"}}');
select test.raises('a handler does not end itself', $$select settle.run('Z5', 'ends_itself')$$, 'ST006', 'NOT_FOUND%');
begin isolation level repeatable read;
select test.raises('at any level', $$select settle.run('Z5', 'ends_itself')$$, 'ST005', 'STALE_TOKEN%');
commit;

-- What waits is run under its key too, by the handler of the revision that it began with.
create function bank.echo2(key text, request jsonb) returns jsonb language plpgsql as $$ begin return '"second"'; end $$;
select settle.begin_operation('W1', 'echo', '{"answer":"first"}', lease => '1h'), settle.fail('W1', 1, 'transient', 'T', 't'), test.make_due('W1');
select settle.declare_kind('echo', '{"effect":"local","handler":{"sql":"bank.echo2"}}');
select test.same('under its revision', to_jsonb(settle.run('W1', 'echo', '{"answer":"first"}')) - 'lease_until',
    '{"outcome":"completed","token":2,"execution_id":"W1#2","status":"succeeded","result_ref":null,"result":"first","failure":null,"next_attempt_at":null,"holder":null,"attempt_count":2}'::jsonb);
select test.same('a new one under the new', (settle.run('W2', 'echo', '{"answer":"first"}')).result, '"second"'::jsonb);
select test.same('in progress', (settle.run('W3', 'echo')).outcome, 'in_progress') from (select settle.begin_operation('W3', 'echo', lease => '1h') offset 0) as b (x) where (b.x).outcome = 'started';

-- A replay needs no transaction id, whatever the kind or the size of the request.
select settle.declare_kind('secret', '{"effect":"local","secret":true,"handler":{"sql":"bank.echo2"}}');
select settle.run('T1', 'secret', '{"pin":1}'), settle.run('T2', 'echo', jsonb_build_object('large', repeat('x', 9000)));
begin;
select test.same('secret', (settle.run('T1', 'secret', '{"pin":1.0}')).outcome, 'replayed');
select test.same('secret, another', (settle.run('T1', 'secret', '{"pin":2}')).outcome, 'conflict');
select test.same('large', (settle.run('T2', 'echo', jsonb_build_object('large', repeat('x', 9000)))).outcome, 'replayed');
select test.same('large, another', (settle.run('T2', 'echo', jsonb_build_object('large', repeat('x', 9001)))).outcome, 'conflict');
select test.same('plain', (settle.run('R1', 'debit', '{"account":"A","amount":100}')).outcome, 'replayed');
select test.same('plain, spelt otherwise', (settle.run('R1', 'debit', '{"account":"A","amount":1e2,"x":1}')).outcome, 'replayed');
select test.same('no transaction id', txid_current_if_assigned(), null);
commit;

-- An operation is hashed under the revision it began with, also where its kind was declared anew meanwhile.
create function public.redeclares(key text, request jsonb) returns jsonb language plpgsql as $$
begin
    perform settle.declare_kind('changing', '{"effect":"local","handler":{"sql":"public.redeclares"},"identity":["/id"]}');
    return '{}';
end $$;
select settle.declare_kind('changing', '{"effect":"local","handler":{"sql":"public.redeclares"}}');
select test.same('run', (settle.run('changes', 'changing', jsonb_build_object('id', 1, 'text', repeat('x', 9000)))).outcome, 'completed');
select test.same('replayed', (settle.run('changes', 'changing', jsonb_build_object('id', 1, 'text', repeat('x', 9000)))).outcome, 'replayed');
select test.same('another text', (settle.run('changes', 'changing', jsonb_build_object('id', 1, 'text', repeat('y', 9000)))).outcome, 'conflict');
