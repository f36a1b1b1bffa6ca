\set account random(1, 10000)
\set n random(1, 1000000000000000)
select bank.debit('alone-' || :n::text, jsonb_build_object('account', :account::integer, 'amount', 5));
