"""What an operation may cost: round trips, write transactions and WAL bytes. Times are measured by ./run bench."""

import statistics

import psycopg2
import pytest

BUSINESS = """
    create schema bank;
    create table bank.account (id integer primary key, balance bigint not null);
    insert into bank.account select i, 1000000 from generate_series(1, 100) as i;
    create table bank.ledger (op text not null unique, account integer not null, amount bigint not null);
    create function bank.debit(key text, request jsonb) returns jsonb language plpgsql as $$
    begin
        update bank.account a set balance = a.balance - 5 where a.id = (debit.request ->> 'account')::integer;
        insert into bank.ledger values (debit.key, (debit.request ->> 'account')::integer, 5);
        return '{"balance": 1}';
    end $$;
    select settle.declare_kind('debit', '{"effect": "local", "handler": {"sql": "bank.debit"}}');
"""
REQUEST = '{"account": 7, "amount": 5}'
IN_FORMAT = REQUEST.replace("{", "{{").replace("}", "}}")
COUNT = 300
WARM = 100  # the first writes after a checkpoint carry whole pages


@pytest.fixture
def bank(database):
    connection = psycopg2.connect(database)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(BUSINESS)
        yield cursor
    connection.close()


def wal_bytes(cursor, statements):
    """The median of the WAL that one round of statements writes; the median, as the server writes some of its own."""
    written = []
    for number in range(WARM + COUNT):
        cursor.execute("select pg_current_wal_insert_lsn()")
        before = cursor.fetchone()[0]
        for statement in statements:
            cursor.execute(statement.format(key=f"{number:06}"))
        cursor.execute("select pg_current_wal_insert_lsn() - %s", (before,))
        written.append(cursor.fetchone()[0])
    return statistics.median(written[WARM:])


def test_run_writes_at_most_550_bytes_beside_the_business(bank):
    alone = wal_bytes(bank, [f"select bank.debit('a{{key}}', '{IN_FORMAT}'::jsonb)"])
    run = wal_bytes(bank, [f"select settle.run('r{{key}}', 'debit', '{IN_FORMAT}'::jsonb)"])
    assert alone > 0
    assert run - alone <= 550, f"{run} bytes, {alone} of them the business's own"


def test_begin_and_complete_write_at_most_750_bytes_beside_the_business(bank):
    debit = f"select bank.debit('{{key}}', '{IN_FORMAT}'::jsonb)"
    alone = wal_bytes(bank, ["begin", debit.replace("{key}", "a{key}"), "commit"])
    both = wal_bytes(bank, [
        "begin", f"select settle.begin_operation('b{{key}}', 'debit', '{IN_FORMAT}'::jsonb)",
        debit.replace("{key}", "b{key}"), "select settle.complete('b{key}', 1, null, '{{\"balance\": 1}}')", "commit"])
    assert both - alone <= 750, f"{both} bytes, {alone} of them the business's own"


@pytest.mark.parametrize("function", ["run", "begin_operation"])
def test_a_replay_is_one_round_trip_and_no_write_transaction(bank, function):
    bank.execute("select settle.run('seen', 'debit', %s)", (REQUEST,))
    bank.execute("begin")
    bank.execute(f"select (settle.{function}('seen', 'debit', %s)).outcome", (REQUEST,))
    assert bank.fetchone()[0] == "replayed"
    bank.execute("select txid_current_if_assigned()")
    assert bank.fetchone()[0] is None
    bank.execute("commit")
    replay = wal_bytes(bank, [f"select settle.{function}('seen', 'debit', '{IN_FORMAT}'::jsonb)"])
    assert replay == 0
