\set account random(1, 10000)
\set n random(1, 1000000000000000)
select * from settle.run('run-' || :n::text, 'debit', jsonb_build_object('account', :account::integer, 'amount', 5));
