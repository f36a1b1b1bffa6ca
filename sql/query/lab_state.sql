-- What a freshly initialised laboratory has, and what it has not.
select (select min(s.namespace) from lab_setting s) as namespace,
    (select count(*) from lab_account) as accounts,
    (select a.balance from lab_account a where a.id = 1) as balance,
    (select count(*) from lab_ledger) as ledger_rows,
    (select count(*) from lab_resource) as resource_rows,
    (select count(*) from lab_compensation) as compensation_rows,
    (select count(*) from lab_operation) as operation_rows,
    (select count(*) from lab_lease) as lease_rows
