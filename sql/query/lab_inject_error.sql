-- Raised with SQLSTATE P0001.
do $$ begin raise exception 'an error injected after the debit and the ledger row'; end $$
