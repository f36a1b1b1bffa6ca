insert into lab_ledger (op, amount) values ($1, $2::bigint)
