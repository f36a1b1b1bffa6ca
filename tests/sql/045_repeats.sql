-- What a repeat costs: nothing is written, nothing waits, and it is counted all the same.
\ir support/check.psql

select settle.declare_kind('debit', '{"effect":"local"}'), settle.declare_kind('secret', '{"effect":"local","secret":true}'), settle.declare_kind('named', '{"effect":"local","identity":["/a"]}');
create function test.repeats(of_kind text) returns bigint language sql security definer as $$
    select value::bigint from settle.metrics where name = 'settle_duplicates_total' and labels ->> 'kind' = of_kind
$$;
select settle.begin_operation(of_key, kind, request, lease => '1h') from (values
    ('done', 'debit', '{"a":1}'::jsonb), ('large', 'debit', jsonb_build_object('a', repeat('x', 9000))), ('secret', 'secret', '{"a":1}'), ('named', 'named', '{"a":1,"b":1}'), ('no', 'debit', '{"a":1}'),
    ('running', 'debit', '{"a":1}'), ('unknown', 'debit', '{"a":1}'), ('review', 'debit', '{"a":1}'), ('waiting', 'debit', '{"a":1}'), ('undeclared', 'other', '{"a":1}')) as op (of_key, kind, request);
select settle.complete(of_key, 1, 'ref', '{"r":1}') from unnest(array['done', 'large', 'secret', 'named', 'undeclared']) as of_key;
select settle.refuse('no', 1, 'NO'), settle.fail('unknown', 1, 'unknown', 'U', 'u'), settle.fail('review', 1, 'defect', 'D', 'd'), settle.fail('waiting', 1, 'transient', 'T', 't', retry_after => '1h');
select settle.begin_compensation('undone', 'ann', 'r');

create function test.all_repeats() returns text language sql as $$
    select string_agg(of_key || '=' || (settle.begin_operation(of_key, kind, request, trigger => trigger_of)).outcome, ' ' order by n)
    from (values (1, 'done', 'debit', '{"a":1.0}'::jsonb, 'call'), (2, 'large', 'debit', jsonb_build_object('a', repeat('x', 9000)), 'call'), (3, 'secret', 'secret', '{"a":1}', 'call'),
        (4, 'named', 'named', '{"a":1,"b":2}', 'call'), (5, 'no', 'debit', '{"a":1}', 'event'), (6, 'running', 'debit', '{"a":1}', 'retry'), (7, 'unknown', 'debit', '{"a":1}', 'call'),
        (8, 'review', 'debit', '{"a":1}', 'call'), (9, 'waiting', 'debit', '{"a":1}', 'call'), (10, 'undone', 'debit', '{"b":1}', 'call'), (11, 'done', 'debit', '{"a":2}', 'call'),
        (12, 'secret', 'secret', '{"a":2}', 'call'), (13, 'done', 'other', '{"a":1}', 'call'), (14, 'undeclared', 'other', '{"a":1}', 'takeover')) as r (n, of_key, kind, request, trigger_of)
$$;
\set answers 'done=replayed large=replayed secret=replayed named=replayed no=replayed running=in_progress unknown=unknown review=frozen waiting=in_progress undone=replayed done=conflict secret=conflict done=conflict undeclared=replayed'

-- No row, and no transaction id.
create table test.before as select test.everything() as state, test.repeats('debit') as debit, test.repeats('secret') as secret, test.repeats('named') as named, test.repeats('') as other;
begin;
select test.same('answers', test.all_repeats(), :'answers');
select test.same('no transaction id', txid_current_if_assigned(), null);
commit;
select test.ok('no row', state = test.everything()) from test.before;
select test.same('counted by the kind of the operation that was met',
    array[test.repeats('debit') - debit, test.repeats('secret') - secret, test.repeats('named') - named, test.repeats('') - other], array[9, 2, 1, 2]::bigint[]) from test.before;
-- The count survives a rollback.
update test.before set debit = test.repeats('debit');
begin;
select settle.begin_operation('done', 'debit', '{"a":1}') from generate_series(1, 10);
rollback;
do $$
begin
    perform settle.begin_operation('done', 'debit', '{"a":1}');
    raise exception using errcode = 'TST01';
exception when sqlstate 'TST01' then null;
end $$;
select test.same('counted', test.repeats('debit') - debit, 11::bigint) from test.before;

-- In a transaction that may only read: answered, and not counted; a new operation is refused by the server.
update test.before set debit = test.repeats('debit'), state = test.everything();
begin read only;
select test.same('answers', test.all_repeats(), :'answers');
select test.raises('a new one', $$select settle.begin_operation('new', 'debit')$$, '25006');
select test.raises('a recorded one', $$select settle.begin_operation('done', 'debit', '{"a":1}', trigger => 'manual')$$, '25006');
commit;
begin isolation level serializable read only deferrable;
select test.same('answers', test.all_repeats(), :'answers');
commit;
begin isolation level repeatable read;
select test.same('answers', test.all_repeats(), :'answers');
select test.same('no transaction id', txid_current_if_assigned(), null);
commit;
select test.same('not counted where only reading is allowed', test.repeats('debit') - debit, 9::bigint) from test.before;
select test.ok('no row', state = test.everything()) from test.before;

-- As an application, which has no right to a counter, a table or a sequence of Settle's.
set role settle_app;
begin read only;
select test.same('answers', test.all_repeats(), :'answers');
commit;
begin;
select test.same('answers', test.all_repeats(), :'answers');
commit;
select test.same('and it may read the count', test.repeats('debit') > 0, true);
reset role;
