\set account random(1, 10000)
\set n random(1, 1000000000000000)
begin;
select bank.debit('transaction-' || :n::text, jsonb_build_object('account', :account::integer, 'amount', 5));
commit;
