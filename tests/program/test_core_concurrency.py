"""Many connections at once on the functions themselves: one effect, one answer, no error but those to be repeated."""

import collections
import random
import threading

import psycopg2
import psycopg2.errors
import pytest

CALLERS = 50
DEADLINE_SECONDS = 60

BANK = """
    create table account (id text primary key, balance integer not null);
    create table entry (op text, amount integer, worker text);
    insert into account values ('A', 1000);
    create function debit(key text, request jsonb) returns jsonb language plpgsql as $$
    begin
        update account set balance = balance - (request ->> 'amount')::integer where id = 'A';
        insert into entry values (key, (request ->> 'amount')::integer, current_user);
        return jsonb_build_object('balance', (select balance from account where id = 'A'));
    end $$;
    select settle.declare_kind('debit', '{"effect": "local", "handler": {"sql": "debit"}}');
"""


@pytest.fixture
def sql(database, connect):
    """sql(text, *values) → rows, in a transaction of its own."""
    connection = connect(database)
    connection.autocommit = True

    def run(text, *values):
        with connection.cursor() as cursor:
            cursor.execute(text, values or None)
            return cursor.fetchall() if cursor.description else None

    return run


def at_once(url, number, work):
    """Runs work(connection, index, barrier) in as many threads; returns what each returned or raised."""
    barrier = threading.Barrier(number)
    answers = [None] * number

    def one(index):
        connection = psycopg2.connect(url)
        connection.autocommit = True
        try:
            answers[index] = work(connection, index, barrier)
        except Exception as error:  # pylint: disable=broad-except  (each is looked at by the test)
            answers[index] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=one, args=(index,), daemon=True) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
        assert not thread.is_alive(), "still waiting at the deadline"
    return answers


def row(connection, text, *values):
    with connection.cursor() as cursor:
        cursor.execute(text, values or None)
        return cursor.fetchone() if cursor.description else None


def test_fifty_begin_one_key(sql, database):
    """One starts; the others are told who does, or are given its answer."""
    def work(connection, index, barrier):
        barrier.wait()
        outcome, token, holder = row(connection, "select outcome, token, holder from settle.begin_operation("
                                     "'K4', 'pay', '{\"a\": 1}', owner => %s, lease => '1 h')", f"w{index}")
        if outcome == "started":
            row(connection, "select settle.complete('K4', %s, %s)", token, f"by w{index}")
        return outcome, holder

    answers = at_once(database, CALLERS, work)
    outcomes = collections.Counter(answer[0] for answer in answers)
    assert outcomes["started"] == 1 and set(outcomes) <= {"started", "in_progress", "replayed"}, outcomes
    winner = next(index for index, answer in enumerate(answers) if answer[0] == "started")
    assert {holder for outcome, holder in answers if outcome == "in_progress"} <= {f"w{winner}"}
    assert sql("select status, attempt_count, result_ref from settle.operations") == [("succeeded", 1, f"by w{winner}")]
    assert sql("select count(*) from settle.executions") == [(1,)]


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_fifty_run_one_key(sql, database, level):
    """One effect; the others are given its answer, or at the stronger levels told to repeat, and then are given it."""
    sql(BANK)

    def work(connection, _index, barrier):
        connection.autocommit = False
        connection.set_session(isolation_level=level)
        barrier.wait()
        repeats = 0
        while True:
            try:
                answer = row(connection, "select outcome, result ->> 'balance' from settle.run('K', 'debit', '{\"amount\": 100}')")
                connection.commit()
                return (*answer, repeats)
            except psycopg2.errors.SerializationFailure:
                connection.rollback()
                repeats += 1
                assert repeats < 200

    answers = at_once(database, CALLERS, work)
    assert [answer for answer in answers if isinstance(answer, Exception)] == []
    assert collections.Counter(outcome for outcome, _, _ in answers) == {"completed": 1, "replayed": CALLERS - 1}
    assert {balance for _, balance, _ in answers} == {"900"}
    assert level != "read committed" or {repeats for _, _, repeats in answers} == {0}
    assert sql("select balance, (select count(*) from entry) from account") == [(900, 1)]


def test_many_keys_by_many_callers_in_any_order(sql, database):
    """Each key is run by ten callers, each caller's keys in an order of its own: every effect once, no deadlock."""
    sql(BANK)
    keys = [f"key {number}" for number in range(30)]

    def work(connection, index, barrier):
        mine = keys[:]
        random.Random(index).shuffle(mine)
        barrier.wait()
        return [row(connection, "select outcome from settle.run(%s, 'debit', '{\"amount\": 1}')", key)[0] for key in mine]

    answers = at_once(database, 10, work)
    assert [answer for answer in answers if isinstance(answer, Exception)] == []
    outcomes = collections.Counter(outcome for answer in answers for outcome in answer)
    assert outcomes == {"completed": len(keys), "replayed": 9 * len(keys)}
    assert sql("select balance from account") == [(1000 - len(keys),)]
    assert sql("select count(*), count(distinct op) from entry") == [(len(keys), len(keys))]


def test_twenty_take_over_again_and_again(sql, database):
    """Every time the lease lapses one of the waiting takes over, under a token of its own."""
    sql("select settle.begin_operation('K', 'pay', owner => 'first', lease => '1 h')")
    rounds, callers = 10, 20
    lapse = "update settle_data.operation set lease_until = clock_timestamp() - interval '1 s' where status = 'running'"

    def work(connection, index, barrier):
        granted = []
        for _ in range(rounds):
            if barrier.wait() == 0:
                row(connection, lapse)
            barrier.wait()
            outcome, token = row(connection, "select outcome, token from settle.begin_operation("
                                 "'K', 'pay', owner => %s, lease => '1 h', trigger => %s)", f"w{index}",
                                 "schedule" if index % 4 == 0 else "call")
            assert outcome in ("started", "in_progress"), outcome
            if outcome == "started":
                granted.append(token)
        return granted

    answers = at_once(database, callers, work)
    assert [answer for answer in answers if isinstance(answer, Exception)] == []
    tokens = [token for answer in answers for token in answer]
    assert len(tokens) == rounds == len(set(tokens))
    assert sql("select attempt_count, token from settle.operations") == [(rounds + 1, max(tokens))]
    # Every execution is there: the first, those that took over, and the scheduled repeats, without a gap.
    numbers = [number for number, in sql("select token from settle.executions order by token")]
    assert numbers == list(range(1, len(numbers) + 1))
    assert sql("select count(*) from settle.executions where outcome = 'lost'") == [(rounds,)]
    assert sql("select count(*) from settle.executions where outcome is null") == [(1,)]


def test_twenty_undo_one_operation(sql, database):
    sql("select settle.begin_operation('A', 'pay', lease => '1 h'), settle.complete('A', 1)")

    def work(connection, index, barrier):
        barrier.wait()
        outcome, token = row(connection, "select outcome, token from settle.begin_compensation("
                             "'A', %s, 'r', lease => '1 h')", f"operator {index}")
        if outcome == "started":
            row(connection, "select settle.complete('A~undo', %s)", token)
        return outcome

    outcomes = collections.Counter(at_once(database, 20, work))
    assert outcomes["started"] == 1 and set(outcomes) <= {"started", "in_progress", "replayed"}
    assert sql("select count(*) from settle.executions where key = 'A~undo'") == [(1,)]


def test_an_operation_and_its_undoing_meet(sql, database):
    """Whoever is first: either the operation ran and is undone, or it is undone first and never runs."""
    def work(connection, index, barrier):
        seen = []
        for number in range(40):
            key = f"K{number}"
            barrier.wait()
            if index == 0:
                outcome, status = row(connection, "select outcome, status from settle.begin_operation(%s, 'pay', lease => '1 h')", key)
                if outcome == "started":
                    row(connection, "select settle.complete(%s, 1)", key)
            else:
                outcome, status = row(connection, "select outcome, status from settle.begin_compensation(%s, 'ann', 'r', lease => '1 h')", key)
            seen.append((outcome, status))
        return seen

    original, undoing = at_once(database, 2, work)
    for number, (first, second) in enumerate(zip(original, undoing)):
        attempts = sql("select attempt_count, status from settle.operations where key = %s", f"K{number}")
        if first == ("started", "running"):
            assert second[0] in ("not_compensable", "started") and attempts == [(1, "succeeded")]
        else:
            assert (first, second) == (("replayed", "cancelled"), ("not_applied", "cancelled"))
            assert attempts == [(0, "cancelled")]


def test_no_guarded_write_comes_after_a_newer_tokens(sql, database):
    """Holders whose lease is taken from them at any moment go on writing: none of their writes is late."""
    sql("""create table written (place bigserial, token bigint);
           create trigger guard before insert on written for each row execute function settle.fence_guard('R')""")
    stop = threading.Event()

    def work(connection, index, barrier):
        barrier.wait()
        if index == 0:
            for _ in range(150):
                row(connection, "update settle_data.lease set lease_until = clock_timestamp() - interval '1 s'")
                row(connection, "select pg_sleep(0.004)")  # the thing under test: leases that lapse at any moment
            stop.set()
            return 0
        refused = wrote = 0
        while not stop.is_set():
            outcome, token = row(connection, "select outcome, token from settle.acquire_lease('R', %s, '1 h')", f"w{index}")
            if outcome != "granted":
                continue
            connection.autocommit = False
            try:
                while not stop.is_set():
                    row(connection, "select settle.check_fence('R', %s)", token)
                    row(connection, "insert into written (token) values (%s)", token)
                    connection.commit()
                    wrote += 1
            except psycopg2.Error as error:
                assert error.pgcode == "ST005", error
                connection.rollback()
                refused += 1
            connection.autocommit = True
        return wrote

    answers = at_once(database, 8, work)
    assert [answer for answer in answers if isinstance(answer, Exception)] == []
    tokens = [token for token, in sql("select token from written order by place")]
    assert sum(answers) == len(tokens) > 50 and tokens == sorted(tokens) and len(set(tokens)) > 20


def test_a_completion_that_cannot_be_serialized_is_repeated_and_not_the_work(sql, database, connect):
    """C20: another session touches the operation three times; the write is repeated, the work is not."""
    sql("select settle.begin_operation('X', 'pay', owner => 'w', lease => '1 h')")
    connection = connect(database)
    connection.set_session(isolation_level="repeatable read")
    for _ in range(3):
        row(connection, "select status from settle.operations")
        sql("select settle.renew('X', 1, '2 h')")
        with pytest.raises(psycopg2.errors.SerializationFailure):
            row(connection, "select settle.complete('X', 1, 'ref')")
        connection.rollback()
    assert row(connection, "select outcome from settle.complete('X', 1, 'ref')") == ("completed",)
    connection.commit()
    assert sql("select status, attempt_count, result_ref from settle.operations") == [("succeeded", 1, "ref")]
    assert sql("select outcome, error from settle.executions") == [("succeeded", None)]


def test_two_batches_complete_in_opposite_order(sql, database):
    """C20: deadlocks between two batches are the callers' to repeat; each operation ends once, with no error of its own."""
    operations = 60
    keys = [f"op {number}" for number in range(operations)]
    deadlocks = 0
    for number in range(5):
        space = f"round{number}"
        for key in keys:
            sql("select settle.begin_operation(%s, 'pay', namespace => %s, lease => '1 h')", key, space)

        def work(connection, index, barrier):
            connection.autocommit = False
            order = keys if index == 0 else keys[::-1]
            met = 0
            barrier.wait()
            while True:
                try:
                    outcomes = [row(connection, "select outcome from settle.complete(%s, 1, 'ref', namespace => %s)", key, space)[0]
                                for key in order]
                    connection.commit()
                    return met, outcomes
                except psycopg2.errors.DeadlockDetected:
                    connection.rollback()
                    met += 1

        answers = at_once(database, 2, work)
        assert all(set(outcomes) == {"completed"} for _, outcomes in answers)
        deadlocks += sum(met for met, _ in answers)
        assert sql("select count(*) from settle.operations where namespace = %s and status = 'succeeded'"
                   " and attempt_count = 1 and last_error is null", space) == [(operations,)]
        assert sql("select count(*) from settle.executions where namespace = %s and error is not null", space) == [(0,)]
    assert deadlocks > 0, "the batches never met: nothing was shown"


def test_sweeps_and_holders_meet(sql, database):
    """Many sweep while holders end: each operation is settled by one of them, and none twice."""
    number = 100
    sql("""select settle.begin_operation('K' || i, 'pay', owner => 'w', lease => '1 h') from generate_series(1, %s) as i""", number)
    sql("update settle_data.operation set lease_until = clock_timestamp() - interval '1 s'")

    def work(connection, index, barrier):
        barrier.wait()
        if index % 2 == 0:
            return sum(row(connection, "select settle.sweep(7)")[0] for _ in range(20))
        outcomes = [row(connection, "select outcome from settle.complete('K' || %s, 1, 'ref')", key)[0]
                    for key in range(index, number + 1, 2)]
        assert set(outcomes) == {"completed"}
        return 0

    answers = at_once(database, 8, work)
    assert [answer for answer in answers if isinstance(answer, Exception)] == []
    rows = dict(sql("select status, count(*) from settle.operations group by 1"))
    assert rows.get("succeeded", 0) >= number // 2 and sum(rows.values()) == number and set(rows) <= {"succeeded", "pending"}
    assert sql("select count(*) from settle.executions where outcome is null") == [(0,)]
