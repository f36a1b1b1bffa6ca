"""settle lab init and verify: the six lines, and that they are the truth."""

import json
import os
import shutil
import subprocess

import pytest

from conftest import PROGRAM, support

LINES = """\
concurrentClaim=APPLIED,REPLAY lockWaitObserved=true ledgerRows=1
IDEMPOTENCY_PARAMETER_CONFLICT
rollbackSqlState=P0001 operationRows=0 balance=900
unknownResult=resolvedByOperationKey retry=REPLAY
oldToken=1 newToken=2 staleWriteRows=0 currentWriteRows=1
compensationRows=1 finalBalance=900
"""


@pytest.fixture
def lab(settle, database):
    """lab("verify", …) on a fresh migrated database; `lab.url` is its URL."""

    def run(*arguments, **options):
        return settle("--db", database, "lab", *arguments, **options)

    run.url = database
    return run


def one_line(text):
    return text.endswith("\n") and text.count("\n") == 1


def refused(answer, *words):
    return (answer.code != 0 and answer.stdout == "" and one_line(answer.stderr)
            and all(word in answer.stderr for word in words))


def test_verify_prints_the_six_lines(lab, psql):
    made = lab("init")
    assert made.code == 0 and one_line(made.stdout) and made.stderr == "", made
    verified = lab("verify")
    assert verified.stdout == LINES
    assert verified.code == 0 and verified.stderr == ""
    assert psql(lab.url, "select balance from lab_account where id = 1") == "900"
    assert psql(lab.url, "select op, amount from lab_ledger order by op") == "order-A|100\norder-B|100"
    assert psql(lab.url, "select op, amount, status from lab_operation where op in ('order-A', 'order-B') order by op") \
        == "order-A|100|succeeded\norder-B|100|succeeded"
    assert psql(lab.url, "select task, holder, token, deadline > now() from lab_lease") == "settle|holder-2|2|t"
    assert psql(lab.url, "select value, fence from lab_resource") == "20|2"
    assert psql(lab.url, "select original, amount from lab_compensation") == "order-A|100"


def test_init_makes_one_account_and_nothing_else(lab, psql):
    assert lab("init").code == 0
    assert psql(lab.url, "select id, balance from lab_account") == "1|1000"
    for empty in ("lab_ledger", "lab_resource", "lab_compensation", "lab_operation", "lab_lease"):
        assert psql(lab.url, f"select count(*) from {empty}") == "0", empty
    for table, unique in (("lab_ledger", "op"), ("lab_compensation", "original")):
        assert psql(lab.url, f"insert into {table} values ('twice', 1)") == ""
        with pytest.raises(RuntimeError, match=f"{unique}.*already exists"):
            psql(lab.url, f"insert into {table} values ('twice', 1)")
    assert psql(lab.url, "select relname, relkind from pg_class where relname in ('lab_operation', 'lab_lease') order by 1"
                ) == "lab_lease|v\nlab_operation|v"


def test_init_migrates_the_database_it_is_given(settle, empty_database):
    assert settle("--db", empty_database, "lab", "init").code == 0
    assert settle("--db", empty_database, "lab", "verify").stdout == LINES


def test_the_private_database(settle, home):
    assert settle("lab", "init", env={"SETTLE_HOME": home}).code == 0
    verified = settle("lab", "verify", env={"SETTLE_HOME": home})
    assert (verified.code, verified.stdout) == (0, LINES)


def test_another_user(settle, cluster_url):
    """The program as somebody who is neither root nor the owner of anything, private server included."""
    with support.temporary_directory("settle-lab.") as directory:
        program = os.path.join(directory, "settle")
        shutil.copy(PROGRAM, program)
        other = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
        home = os.path.join(directory, "home")
        os.mkdir(home, 0o700)
        if other:
            shutil.chown(home, "nobody", "nogroup")

        def run(*arguments):
            return subprocess.run([program, *arguments], env={**settle.environment, "SETTLE_HOME": home, "HOME": home},
                                  cwd="/", text=True, capture_output=True, timeout=120, check=False, **other)

        try:
            made = run("lab", "init")
            assert made.returncode == 0, made
            verified = run("lab", "verify")
            assert (verified.returncode, verified.stdout) == (0, LINES), verified
        finally:
            assert run("db", "down").returncode == 0


def test_a_role_that_is_no_superuser(settle, empty_database, psql):
    name = psql(empty_database, "select current_database()")
    role = f"{name}_owner"
    psql(empty_database, f"create role {role} login createrole; alter database {name} owner to {role}")
    url = empty_database.replace("user=postgres", f"user={role}")
    try:
        made = settle("--db", url, "lab", "init")
        assert made.code == 0, made
        verified = settle("--db", url, "lab", "verify")
        assert (verified.code, verified.stdout) == (0, LINES), verified
    finally:
        psql(empty_database, f"alter database {name} owner to postgres; reassign owned by {role} to postgres; "
                             f"drop owned by {role}; drop role {role}")


@pytest.mark.parametrize("occupant", ["create table t ()", "create view v as select 1", "create function f() returns int "
                                      "language sql as 'select 1'", "create sequence s", "create type e as enum ('a')",
                                      "create domain d as text"])
def test_init_refuses_a_schema_that_is_not_empty(settle, empty_database, psql, occupant):
    psql(empty_database, occupant)
    assert refused(settle("--db", empty_database, "lab", "init"), "public is not empty", "--schema")
    assert psql(empty_database, "select count(*) from pg_namespace where nspname like 'settle%'") == "0"


def test_init_twice(lab, psql):
    assert lab("init").code == 0
    before = psql(lab.url, "select oid from pg_class where relname like 'lab%' order by 1")
    assert refused(lab("init"), "public is not empty (table lab_account")
    assert psql(lab.url, "select oid from pg_class where relname like 'lab%' order by 1") == before


def test_many_inits_at_once_make_one(settle, database, psql):
    running = [settle.spawn("--db", database, "lab", "init", "--schema", "shared") for _ in range(8)]
    codes = sorted(settle.finish(process).code for process in running)
    assert codes[0] == 0 and codes[1:] == [2] * 7
    assert psql(database, "select count(*), sum(balance) from shared.lab_account") == "1|1000"


def test_a_failing_init_leaves_nothing(lab, psql):
    # The last statement of init fails: this namespace is used.
    psql(lab.url, "select settle.acquire_lease('r', 'somebody', '1s', namespace => 'mine')")
    answer = lab("init", "--schema", "fresh", "--namespace", "mine")
    assert refused(answer, "namespace", "mine already has operations or leases")
    assert psql(lab.url, "select count(*) from pg_namespace where nspname = 'fresh'") == "0"


@pytest.mark.parametrize("schema", ["settle", "settle_data", "information_schema", "pg_catalog", "pg_new", "", "x" * 64,
                                    "new\nline", " space"])
def test_init_refuses_these_names(lab, schema):
    assert refused(lab("init", "--schema", schema), "schema")


@pytest.mark.parametrize("schema", ["other", "Mixed Case", 'quo"te\'s', "search_path,public", "schéma", "s" * 63])
def test_any_schema(lab, psql, schema):
    assert lab("init", "--schema", schema).code == 0
    verified = lab("verify", "--schema", schema)
    assert (verified.code, verified.stdout) == (0, LINES)
    assert psql(lab.url, "select count(*) from pg_class where relnamespace = 'public'::regnamespace") == "0"
    assert refused(lab("verify"), "schema", "missing", "settle lab init")


def test_two_laboratories_do_not_meet(lab):
    assert lab("init").code == 0
    assert lab("init", "--schema", "second").code == 0
    assert lab("verify").stdout == LINES
    assert lab("verify", "--schema", "second").stdout == LINES


def test_a_used_namespace_is_passed_over(lab, psql):
    for expected in ("lab-public", "lab-public-2", "lab-public-3"):
        made = lab("init", "--json")
        assert made.code == 0 and made.json() == {"schema": "public", "namespace": expected, "account": 1, "balance": 1000}
        assert lab("verify").stdout == LINES
        psql(lab.url, "drop schema public cascade; create schema public")


def test_a_given_namespace_is_remembered(settle, lab, psql):
    assert settle("--db", lab.url, "--namespace", "mine", "lab", "init").code == 0
    assert refused(settle("--db", lab.url, "--namespace", "yours", "lab", "verify"), "namespace", "uses mine")
    assert lab("verify").stdout == LINES
    assert psql(lab.url, "select distinct namespace from settle.operations") == "mine"


def test_verify_twice(lab, psql):
    assert lab("init").code == 0 and lab("verify").code == 0
    before = psql(lab.url, "select count(*), max(created_at) from settle.operations")
    assert refused(lab("verify"), "balance is 900, not 1000", "run `settle lab init` on an empty schema")
    assert psql(lab.url, "select count(*), max(created_at) from settle.operations") == before


def test_verify_without_a_laboratory(lab):
    assert refused(lab("verify"), "public", "lab_account", "missing", "settle lab init")


@pytest.mark.parametrize("change, word", [
    ("update lab_account set balance = 999", "balance is 999"),
    ("delete from lab_account", "accounts is 0"),
    ("insert into lab_account values (2, 0)", "accounts is 2"),
    ("insert into lab_ledger values ('order-Z', 1)", "ledger_rows is 1"),
    ("insert into lab_resource values (1, 10, 0)", "resource_rows is 1"),
    ("insert into lab_compensation values ('order-Z', 1)", "compensation_rows is 1"),
    ("begin; select settle.begin_operation('k', 'c', namespace => 'lab-public'); "
     "select settle.complete('k', 1, namespace => 'lab-public'); commit", "operation_rows is 1"),
    ("select settle.acquire_lease('r', 'me', '1 second', namespace => 'lab-public')", "lease_rows is 1"),
    ("delete from lab_setting", "names no namespace"),
    ("drop table lab_resource", "lab_resource missing"),
])
def test_verify_refuses_a_used_laboratory(lab, psql, change, word):
    assert lab("init").code == 0
    psql(lab.url, change)
    assert refused(lab("verify"), word, "run `settle lab init` on an empty schema")


def test_the_wait_is_real(lab, psql):
    """With no time to wait the second caller does not, and verify says so."""
    assert lab("init").code == 0
    answer = lab("verify", env={"PGOPTIONS": "-c lock_timeout=1"})
    assert answer.code != 0
    assert answer.stdout == "concurrentClaim=APPLIED,IN_PROGRESS lockWaitObserved=false ledgerRows=1\n"
    assert one_line(answer.stderr) and "lockWaitObserved: expected true, found false" in answer.stderr
    assert psql(lab.url, "select count(*) from lab_ledger") == "1"  # it stopped there


def test_the_watcher_sees_the_second_caller_wait(settle, lab, connect, wait_until):
    """Seen from outside: another session holds the key, so that even the first caller waits, and goes on afterwards."""
    assert lab("init").code == 0
    holder = connect(lab.url)
    cursor = holder.cursor()
    cursor.execute("select settle.begin_operation('order-A', 'lab.debit', '{\"account\": 1, \"amount\": 100}', "
                   "namespace => 'lab-public')")
    process = settle.spawn("--db", lab.url, "lab", "verify")
    watcher = connect(lab.url)
    watcher.autocommit = True

    def waits():
        with watcher.cursor() as look:
            look.execute("select count(*) from pg_stat_activity where wait_event_type = 'Lock' and %s = "
                         "any(pg_blocking_pids(pid))", (holder.info.backend_pid,))
            return look.fetchone()[0] == 1

    wait_until(waits, "verify to wait for the key")
    holder.rollback()
    answer = settle.finish(process)
    assert (answer.code, answer.stdout) == (0, LINES)


# What a broken product, or a broken business, would do; and the figure that must tell.
BREAKAGES = {
    "money leaks": (
        "create function leak() returns trigger language plpgsql as $$ begin new.balance := new.balance - 1; return new; "
        "end $$; create trigger leak before update on lab_account for each row execute function leak()",
        "balanceAfterPair: expected 900, found 899", 1),
    "the ledger is written twice": (
        "create function twice() returns trigger language plpgsql as $$ begin if pg_trigger_depth() = 1 then insert into "
        "lab_ledger values (new.op || '+', new.amount); end if; return null; end $$; "
        "create trigger twice after insert on lab_ledger for each row execute function twice()",
        "ledgerRows: expected 1, found 2", 1),
    "requests are not compared": (
        "create or replace function settle_data.same_request(op settle_data.operation, kind text, request jsonb) "
        "returns boolean language sql as 'select true'",
        "otherParameters: expected IDEMPOTENCY_PARAMETER_CONFLICT, found REPLAY", 2),
    "the fence lets everybody pass": (
        "create or replace function settle.check_fence(resource text, token bigint, namespace text default 'default') "
        "returns void language sql as ''",
        "staleWriteRows: expected 0, found 1", 5),
    "nobody keeps the fence": (
        "create function forget() returns trigger language plpgsql as $$ begin new.fence := 0; return new; end $$; "
        "create trigger forget before update on lab_resource for each row execute function forget()",
        "staleWriteRows: expected 0, found 1", 5),
    "tokens jump": (
        "create function jump() returns trigger language plpgsql as $$ begin new.token := new.token + 1; return new; "
        "end $$; create trigger jump before insert on settle_data.lease for each row execute function jump()",
        "oldToken: expected 1, found 2; newToken: expected 2, found 3", 5),
    "refunds are not tied to their row": (
        "create function again() returns trigger language plpgsql as $$ begin update lab_account set balance = balance + "
        "1; return null; end $$; create trigger again after insert on lab_compensation for each row execute function "
        "again()",
        "finalBalance: expected 900, found 901", 6),
}


@pytest.mark.parametrize("name", BREAKAGES)
def test_verify_finds(lab, psql, name):
    breakage, words, lines = BREAKAGES[name]
    assert lab("init").code == 0
    psql(lab.url, breakage)
    answer = lab("verify")
    assert answer.code != 0 and one_line(answer.stderr) and words in answer.stderr, answer
    assert answer.stdout.count("\n") == lines
    assert answer.stdout.splitlines()[:lines - 1] == LINES.splitlines()[:lines - 1]


def test_json(lab):
    assert lab("init", "--json").code == 0
    answer = lab("verify", "--json")
    assert answer.code == 0 and answer.stderr == ""
    facts = answer.json()
    expected = {"verified": True, "concurrentClaim": "APPLIED,REPLAY", "lockWaitObserved": True, "ledgerRows": 1,
                "otherParameters": "IDEMPOTENCY_PARAMETER_CONFLICT", "rollbackSqlState": "P0001", "operationRows": 0,
                "balance": 900, "balanceAfterOrderB": 800, "unknownResult": "resolvedByOperationKey", "retry": "REPLAY",
                "oldToken": 1, "newToken": 2, "staleWriteRows": 0, "currentWriteRows": 1, "value": 20,
                "compensationRows": 1, "finalBalance": 900, "orderAAtTheEnd": "succeeded", "differences": None,
                "schema": "public", "namespace": "lab-public"}
    assert {name: facts.get(name, "absent") for name in expected} == expected


def test_json_of_a_failure(lab):
    assert lab("init").code == 0
    answer = lab("verify", "--json", env={"PGOPTIONS": "-c lock_timeout=1"})
    assert answer.code != 0
    facts = json.loads(answer.stdout)
    assert facts["verified"] is False and facts["lockWaitObserved"] is False
    assert "lockWaitObserved" in facts["differences"]
    used = lab("verify", "--json")
    assert used.code != 0 and used.json()["error"]["code"] == "INVALID_ARGUMENT"
