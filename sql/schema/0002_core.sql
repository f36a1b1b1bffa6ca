-- The record of operations. Text that is compared is collate "C": a new collation version of the system must not be
-- able to corrupt a unique index that decides whether money moves twice.

create table settle_data.migration (
    number integer primary key,
    name text not null,
    sha256 text not null,
    applied_at timestamptz not null default clock_timestamp(),
    applied_by text not null default session_user
);

create table settle_data.api_file (
    name text primary key,
    sha256 text not null,
    applied_at timestamptz not null default clock_timestamp()
);

-- Append-only but for `in_force`. New operations begin under the revision in force; an old one is kept for those that
-- began under it.
create table settle_data.kind_revision (
    kind text collate "C" not null,
    revision integer not null check (revision >= 1),
    effect text not null check (effect in ('local', 'keyed', 'opaque')),
    handler_sql text,
    identity text[] check (cardinality(identity) >= 1),
    null_is_absent boolean not null,
    secret boolean not null,
    in_force boolean not null,
    -- HMAC's key, already exclusive-ored with its two pads (RFC 2104); only of a secret kind
    inner_pad bytea check (length(inner_pad) = 64),
    outer_pad bytea check (length(outer_pad) = 64),
    counter smallint not null check (counter between 0 and 31),
    lease interval not null,
    declaration jsonb not null,
    declared_at timestamptz not null,
    declared_by text not null,
    constraint kind_revision_pkey primary key (kind, revision),
    check (secret = (inner_pad is not null) and secret = (outer_pad is not null)),
    check (octet_length(kind) between 1 and 63)
);
create unique index kind_in_force on settle_data.kind_revision (kind) where in_force;

-- One row an operation. It carries the operation's lease and, until a second execution starts, the whole of its first
-- one: most operations never have a second, and are one row and one index entry.
create table settle_data.operation (
    created_at timestamptz not null,
    finished_at timestamptz,
    started_at timestamptz,
    ended_at timestamptz,
    lease_until timestamptz,
    next_attempt_at timestamptz,
    sent_at timestamptz,
    -- since when it stands unfinished for others to see; null while it lives in its caller's transaction. The only
    -- indexed column that ever changes, so that begin, renew and complete stay heap-only updates.
    open_since timestamptz,
    token bigint not null,
    revision integer not null,
    attempt_count integer not null,
    counter smallint not null,
    cancel_requested boolean,
    namespace text collate "C" not null,
    key text collate "C" not null,
    kind text collate "C",
    status text collate "C" not null,
    effect text collate "C",
    trigger text collate "C",
    owner text,
    outcome text collate "C",
    next_trigger text collate "C",
    result_ref text,
    request jsonb,
    digest text collate "C",
    result jsonb,
    failure_code text,
    failure_detail jsonb,
    error_class text collate "C",
    error_code text,
    error_message text,
    error_detail jsonb,
    remote_ref text,
    review_reason text collate "C",
    compensates text collate "C",
    operator text,
    reason text,
    constraint operation_pkey primary key (namespace, key)
    -- No CHECK: each is read and prepared anew by every statement that writes (measured: 15 us, of 115 for the whole
    -- transaction that inserts the row). The functions are the only writers, and `doctor` looks for what must hold.
);

create index operation_open on settle_data.operation (open_since) where open_since is not null;

-- Every execution from the second on, the first once there is a second, and the recorded repeats that did not run.
create table settle_data.execution (
    started_at timestamptz,
    finished_at timestamptz,
    sent_at timestamptz,
    number bigint not null check (number >= 1),
    revision integer not null,
    repeats integer,
    namespace text collate "C" not null,
    key text collate "C" not null,
    trigger text collate "C" not null,
    worker text,
    outcome text collate "C" check (outcome in ('succeeded', 'refused', 'failed', 'unknown', 'lost', 'cancelled',
                                                'replayed', 'conflict', 'in_progress', 'frozen')),
    error_class text collate "C",
    error_code text,
    error_message text,
    error_detail jsonb,
    remote_ref text,
    repeats_sqlstate text,
    operator text,
    reason text,
    constraint execution_pkey primary key (namespace, key, number)
);

-- What operators decided. Append-only.
create table settle_data.decision (
    decided_at timestamptz not null,
    number integer not null check (number >= 1),
    namespace text collate "C" not null,
    key text collate "C" not null,
    act text collate "C" not null,
    operator text not null,
    reason text not null,
    from_status text collate "C" not null,
    to_status text collate "C" not null,
    detail jsonb,
    db_user text not null,
    constraint decision_pkey primary key (namespace, key, number)
);

-- One row a resource, never removed: its token is the highest ever granted, and forgetting it would let an old holder
-- look current again. Half-filled pages keep renewals heap-only.
create table settle_data.lease (
    granted_at timestamptz not null,
    lease_until timestamptz not null,
    released_at timestamptz,
    token bigint not null check (token >= 1),
    namespace text collate "C" not null,
    resource text collate "C" not null,
    holder text not null,
    constraint lease_pkey primary key (namespace, resource),
    constraint lease_resource_limit check (octet_length(resource) between 1 and 255),
    constraint lease_namespace_limit check (octet_length(namespace) between 1 and 63)
) with (fillfactor = 50);

-- Repeats that were answered without a write. Unlogged sequences, because a count must survive its caller's rollback,
-- must not be a hot row, and must cost a reader neither WAL nor a transaction id (a logged one assigns both). Lost at a
-- crash of the server: approximate, and said so. 0 is shared by undeclared kinds and those past the thirty-first.
create unlogged sequence settle.duplicates_0;
create unlogged sequence settle.duplicates_1;
create unlogged sequence settle.duplicates_2;
create unlogged sequence settle.duplicates_3;
create unlogged sequence settle.duplicates_4;
create unlogged sequence settle.duplicates_5;
create unlogged sequence settle.duplicates_6;
create unlogged sequence settle.duplicates_7;
create unlogged sequence settle.duplicates_8;
create unlogged sequence settle.duplicates_9;
create unlogged sequence settle.duplicates_10;
create unlogged sequence settle.duplicates_11;
create unlogged sequence settle.duplicates_12;
create unlogged sequence settle.duplicates_13;
create unlogged sequence settle.duplicates_14;
create unlogged sequence settle.duplicates_15;
create unlogged sequence settle.duplicates_16;
create unlogged sequence settle.duplicates_17;
create unlogged sequence settle.duplicates_18;
create unlogged sequence settle.duplicates_19;
create unlogged sequence settle.duplicates_20;
create unlogged sequence settle.duplicates_21;
create unlogged sequence settle.duplicates_22;
create unlogged sequence settle.duplicates_23;
create unlogged sequence settle.duplicates_24;
create unlogged sequence settle.duplicates_25;
create unlogged sequence settle.duplicates_26;
create unlogged sequence settle.duplicates_27;
create unlogged sequence settle.duplicates_28;
create unlogged sequence settle.duplicates_29;
create unlogged sequence settle.duplicates_30;
create unlogged sequence settle.duplicates_31;

do $$
begin
    for i in 0 .. 31 loop
        execute format('grant usage on sequence settle.duplicates_%s to settle_app, settle_worker', i);
    end loop;
end $$;
