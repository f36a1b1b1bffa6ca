\set n random(1, 10000)
select status, result from settle.run('seen-' || :n::text, 'debit', '{"account": 1, "amount": 5}');
