\set n random(1, 10000)
select balance from bank.account where id = :n;
