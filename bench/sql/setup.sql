-- The business of the measurement: an account's balance, and a ledger row for each debit.
create schema bank;
create table bank.account (id integer primary key, balance bigint not null);
insert into bank.account select i, 1000000000 from generate_series(1, 10000) as i;
create table bank.ledger (op text not null unique, account integer not null, amount bigint not null,
                          booked_at timestamptz not null default now());

create function bank.debit(key text, request jsonb) returns jsonb language plpgsql as $$
declare
    left_over bigint;
begin
    update bank.account a set balance = a.balance - (debit.request ->> 'amount')::bigint
    where a.id = (debit.request ->> 'account')::integer returning a.balance into left_over;
    insert into bank.ledger (op, account, amount)
    values (debit.key, (debit.request ->> 'account')::integer, (debit.request ->> 'amount')::bigint);
    return jsonb_build_object('balance', left_over);
end $$;

select settle.declare_kind('debit', '{"effect": "local", "handler": {"sql": "bank.debit"}}');
select count(settle.run('seen-' || i, 'debit', '{"account": 1, "amount": 5}')) from generate_series(1, 10000) as i;
