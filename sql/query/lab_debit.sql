update lab_account set balance = balance - $1::bigint where id = 1 returning balance
