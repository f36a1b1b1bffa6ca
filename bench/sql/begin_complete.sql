\set account random(1, 10000)
\set n random(1, 1000000000000000)
begin;
select * from settle.begin_operation('begin-' || :n::text, 'debit', jsonb_build_object('account', :account::integer, 'amount', 5));
select bank.debit('begin-' || :n::text, jsonb_build_object('account', :account::integer, 'amount', 5));
select * from settle.complete('begin-' || :n::text, 1, null, '{"balance": 1}');
commit;
