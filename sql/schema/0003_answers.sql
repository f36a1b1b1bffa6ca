-- The rows that functions answer with. They are the API's own, never a table's, so that a table can change without
-- its callers; they grow by attributes at their end, nothing else.

create type settle.begin_operation_answer as (
    outcome text,
    token bigint,
    execution_id text,
    status text,
    result_ref text,
    result jsonb,
    failure jsonb,
    lease_until timestamptz,
    next_attempt_at timestamptz,
    holder text,
    attempt_count integer
);

create type settle.complete_answer as (outcome text, current_token bigint, holder text);
create type settle.refuse_answer as (outcome text, current_token bigint, holder text);
create type settle.mark_sent_answer as (outcome text, current_token bigint, holder text);
create type settle.fail_answer as (
    outcome text, next_attempt_at timestamptz, status text, current_token bigint, holder text
);
create type settle.renew_answer as (
    outcome text, lease_until timestamptz, cancel_requested boolean, current_token bigint, holder text
);

create type settle.acquire_lease_answer as (outcome text, token bigint, holder text, lease_until timestamptz);
create type settle.renew_lease_answer as (outcome text, token bigint, holder text, lease_until timestamptz);
create type settle.release_lease_answer as (outcome text, token bigint, holder text, lease_until timestamptz);

create type settle.operator_answer as (outcome text, status text, reason text);
create type settle.declare_kind_answer as (outcome text, kind text, revision integer);
