-- The business of the laboratory: what a user's own tables would be.

create table lab_account (
    id integer primary key,
    balance bigint not null check (balance >= 0)
);
insert into lab_account (id, balance) values (1, 1000);

create table lab_ledger (
    op text collate "C" not null unique,
    amount bigint not null check (amount > 0)
);

-- `fence` is the highest token that has written the row.
create table lab_resource (
    id integer primary key,
    value integer not null,
    fence bigint not null
);

-- A refund moves money only with a row of its own here, of which there is at most one.
create table lab_compensation (
    original text collate "C" not null unique,
    amount bigint not null check (amount > 0)
);

-- Which of Settle's namespaces is the laboratory's: one row.
create table lab_setting (
    namespace text collate "C" not null
);
create unique index lab_setting_one on lab_setting ((true));
