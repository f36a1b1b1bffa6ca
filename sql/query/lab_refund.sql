-- The money moves with the row of lab_compensation, or not at all.
with inserted as (
    insert into lab_compensation (original, amount) values ($1, $2::bigint)
    on conflict (original) do nothing
    returning amount
)
update lab_account set balance = balance + inserted.amount from inserted where id = 1
