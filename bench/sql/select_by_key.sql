\set n random(1, 10000)
select status, result from settle.operations where namespace = 'default' and key = 'seen-' || :n::text;
