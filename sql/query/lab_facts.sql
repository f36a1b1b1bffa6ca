-- Every figure that the proof compares, as it stands now.
select (select a.balance from lab_account a where a.id = 1) as balance,
    (select count(*) from lab_ledger) as ledger_rows,
    (select l.amount from lab_ledger l where l.op = 'order-A') as order_a_ledger,
    (select o.status from lab_operation o where o.op = 'order-A') as order_a_status,
    (select count(*) from lab_operation o where o.op = 'order-B') as order_b_operations,
    (select count(*) from lab_ledger l where l.op = 'order-B') as order_b_ledger_rows,
    (select r.value from lab_resource r where r.id = 1) as value,
    (select count(*) from lab_compensation c where c.original = 'order-A') as compensation_rows
