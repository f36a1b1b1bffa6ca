-- Fences: the write of an old holder is refused, in the transaction of the write.
\ir support/check.psql

create table public.account (id text primary key, resource text, value integer);
create table public.plain (value integer);
insert into public.account values ('a', 'res:a', 1), ('b', 'res:b', 1), ('none', null, 1);
grant all on public.account, public.plain to public;

create function test.stale(what text, statement text, message_like text) returns void language plpgsql as $$
declare
    got_state text; got_message text; got_detail text;
begin
    begin
        execute statement;
        raise exception using errcode = 'TST00', message = 'nothing was raised';
    exception when others then
        get stacked diagnostics got_state = returned_sqlstate, got_message = message_text, got_detail = pg_exception_detail;
    end;
    if got_state <> 'ST005' or got_message not like 'STALE_TOKEN: ' || message_like or got_detail::jsonb ->> 'code' <> 'STALE_TOKEN'
        or not got_detail::jsonb ?& array['namespace', 'resource', 'token', 'current_token', 'holder'] then
        raise exception 'FAILED %: got % % (%), wanted STALE_TOKEN %', what, got_state, got_message, got_detail, message_like;
    end if;
end $$;

-- check_fence.
select settle.acquire_lease('res:a', 'w1', '1h'), settle.acquire_lease('res:b', 'w1', '1h');
begin;
select settle.check_fence('res:a', 1);
commit;
select test.stale('another token', $$select settle.check_fence('res:a', 2)$$, 'token 2 of res:a is not the current one: w1 holds token 1');
select test.stale('0', $$select settle.check_fence('res:a', 0)$$, 'token 0 of res:a is not the current one%');
select test.stale('the greatest', $$select settle.check_fence('res:a', 9223372036854775807)$$, '%is not the current one%');
select test.stale('null', $$select settle.check_fence('res:a', null)$$, 'token NULL of res:a%');
select test.stale('never granted', $$select settle.check_fence('res:x', 1)$$, 'token 1 of res:x was never granted');
select test.stale('in another namespace', $$select settle.check_fence('res:a', 1, 'T2')$$, 'token 1 of res:a was never granted');
select test.invalid('no resource', $$select settle.check_fence(null, 1)$$, 'resource', 'is required');
select test.invalid('no name', $$select settle.check_fence('', 1)$$, 'resource', 'is empty');
select test.lapse_resource('res:a');
select test.stale('lapsed, not taken over', $$select settle.check_fence('res:a', 1)$$, 'token 1 of res:a has lapsed');
select settle.acquire_lease('res:a', 'w2', '1h');
select test.stale('taken over', $$select settle.check_fence('res:a', 1)$$, 'token 1 of res:a is not the current one: w2 holds token 2');
select settle.release_lease('res:a', 'w2', 2);
select test.stale('released', $$select settle.check_fence('res:a', 2)$$, 'token 2 of res:a was released');
select settle.acquire_lease('res:a', 'w1', '1h');

-- The guard, with a literal, before each statement.
create trigger guard before insert or update or delete or truncate on public.plain execute function settle.fence_guard('res:a');
select test.stale('insert', 'insert into public.plain values (1)', 'this transaction has passed no check_fence for res:a');
select test.stale('truncate', 'truncate public.plain', 'this transaction has passed no check_fence for res:a');
select test.stale('even of no row', 'update public.plain set value = 1', 'this transaction has passed no check_fence for res:a');
begin;
select settle.check_fence('res:b', 1);
select test.stale('of another resource', 'insert into public.plain values (1)', 'this transaction has passed no check_fence for res:a');
select settle.check_fence('res:a', 3);
insert into public.plain values (1);
update public.plain set value = 2;
delete from public.plain where value = 7;
commit;
select test.stale('the mark ends with its transaction', 'insert into public.plain values (2)', 'this transaction has passed no check_fence for res:a');
begin;
select settle.check_fence('res:a', 3);
truncate public.plain;
rollback;
select test.same('written once', (select array_agg(value) from public.plain), array[2]);

-- A savepoint takes the mark back, and what it had before stays.
begin;
select settle.check_fence('res:b', 1);
savepoint s;
select settle.check_fence('res:a', 3);
insert into public.plain values (3);
rollback to s;
select test.stale('gone with its savepoint', 'insert into public.plain values (4)', 'this transaction has passed no check_fence for res:a');
savepoint s2;
select settle.check_fence('res:a', 3);
release s2;
insert into public.plain values (5);
commit;
select test.same('written', (select array_agg(value order by value) from public.plain), array[2, 5]);

-- A mark is looked at again at each write: forged, old or lapsed it does not pass.
begin;
select settle.check_fence('res:a', 3);
select test.lapse_resource('res:a');
select test.stale('lapsed since', 'insert into public.plain values (6)', 'token 3 of res:a has lapsed');
rollback;
begin;
select set_config('settle.fences', jsonb_build_object('default' || chr(31) || 'res:a', 2)::text, true);
select test.stale('forged with an old token', 'insert into public.plain values (6)', 'token 2 of res:a is not the current one: w1 holds token 3');
select set_config('settle.fences', '', true);
select test.stale('emptied', 'insert into public.plain values (6)', 'this transaction has passed no check_fence for res:a');
rollback;

-- With column:NAME, each row its own resource: the old row's and the new one's.
create trigger guard before insert or update or delete on public.account for each row execute function settle.fence_guard('column:resource');
begin;
select settle.check_fence('res:a', 3);
update public.account set value = 2 where id = 'a';
select test.stale('the row of another', $$update public.account set value = 2 where id = 'b'$$, '%no check_fence for res:b');
select test.stale('all rows', $$update public.account set value = 2$$, '%no check_fence for%');
select test.stale('moved away', $$update public.account set resource = 'res:b' where id = 'a'$$, '%no check_fence for res:b');
select test.stale('moved here', $$update public.account set resource = 'res:a' where id = 'b'$$, '%no check_fence for res:b');
select test.stale('inserted for another', $$insert into public.account values ('c', 'res:b', 1)$$, '%no check_fence for res:b');
select test.stale('deleted of another', $$delete from public.account where id = 'b'$$, '%no check_fence for res:b');
select test.stale('of no resource', $$update public.account set value = 2 where id = 'none'$$, '%no check_fence for NULL');
insert into public.account values ('c', 'res:a', 1);
delete from public.account where id = 'c';
select settle.check_fence('res:b', 1);
update public.account set value = 3 where id in ('a', 'b');
update public.account set resource = case id when 'a' then 'res:b' else 'res:a' end where id in ('a', 'b');
commit;
select test.same('both, in one transaction', (select array_agg(resource || value order by id) from public.account where id in ('a', 'b')), array['res:b3', 'res:a3']);

-- Misuse of the guard itself is told when it fires.
create table public.misuse (id integer);
create trigger guard before insert on public.misuse for each row execute function settle.fence_guard();
select test.invalid('no argument', 'insert into public.misuse values (1)', 'fence_guard', 'needs a resource or column:NAME%');
drop trigger guard on public.misuse;
create trigger guard before insert or update or delete on public.misuse for each row execute function settle.fence_guard('column:resource');
select test.invalid('no such column', 'insert into public.misuse values (1)', 'fence_guard', 'names column resource, which the table does not have');
drop trigger guard on public.misuse;
create trigger guard before insert or truncate on public.misuse execute function settle.fence_guard('column:id');
select test.invalid('for each statement', 'insert into public.misuse values (1)', 'fence_guard', 'with column:NAME guards rows: declare the trigger for each row');
select test.invalid('truncate has no rows', 'truncate public.misuse', 'fence_guard', 'with column:NAME guards rows%');
drop trigger guard on public.misuse;

-- A namespace of its own, a numeric column, and a trigger that comes after.
select settle.acquire_lease('7', 'w1', '1h', namespace => 'T2'), settle.acquire_lease('7', 'w1', '1h');
create trigger guard after insert or update or delete on public.misuse for each row execute function settle.fence_guard('column:id', 'T2');
begin;
select settle.check_fence('7', 1);
select test.stale('of another namespace', 'insert into public.misuse values (7)', '%no check_fence for 7');
select settle.check_fence('7', 1, 'T2');
insert into public.misuse values (7);
select test.stale('of another number', 'insert into public.misuse values (8)', '%no check_fence for 8');
commit;
select test.same('written', (select array_agg(id) from public.misuse), array[7]);

-- As an application, which owns nothing here.
set role settle_app;
select test.stale('refused', 'insert into public.plain values (9)', '%no check_fence for res:a');
begin;
select settle.check_fence('res:a', 3);
insert into public.plain values (9);
commit;
reset role;
set role settle_handler;
begin;
select settle.check_fence('res:a', 3);
insert into public.plain values (10);
commit;
reset role;
select test.same('written by both', (select array_agg(value order by value) from public.plain), array[2, 5, 9, 10]);
-- A table whose owner is an application can be guarded by it.
select test.role('fence_owner', 'settle_app');
create table public.owned (id integer);
alter table public.owned owner to fence_owner;
set role fence_owner;
create trigger guard before insert on public.owned for each row execute function settle.fence_guard('res:a');
select test.stale('guarded', 'insert into public.owned values (1)', '%no check_fence for res:a');
reset role;

-- A type brings casts of its own, and the guard runs them with the writer's rights, never its owner's.
set role settle_app;
create type pg_temp.coloured as enum ('red');
create function pg_temp.as_json(pg_temp.coloured) returns json language plpgsql as
    $$ begin perform set_config('test.cast_ran_as', current_user, false); return '"res:a"'; end $$;
create cast (pg_temp.coloured as json) with function pg_temp.as_json(pg_temp.coloured);
create temporary table painted (colour pg_temp.coloured);
create trigger guard before insert on painted for each row execute function settle.fence_guard('column:colour');
begin;
select settle.check_fence('res:a', 3);
insert into painted values ('red');
commit;
reset role;
select test.same('the cast''s rights', current_setting('test.cast_ran_as'), 'settle_app');
