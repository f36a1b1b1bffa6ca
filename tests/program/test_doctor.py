"""settle doctor: each thing that must be true is broken on purpose, and named."""

import os
import re

import pytest

import cluster as support

FIELDS = ["severity", "finding", "what_to_do", "detail"]
HERE = ("fsync is off", "full_page_writes is off")  # the cluster of the tests is not durable, and says so


@pytest.fixture
def doctor(settle, database):
    """doctor() → the findings, without those that every database of the tests has."""

    def call(url=database):
        answer = settle("--db", url, "--json", "doctor")
        findings = answer.json()
        assert all(list(finding) == FIELDS for finding in findings)
        assert all("\n" not in finding["finding"] + finding["what_to_do"] for finding in findings)
        assert all(finding["detail"]["check"] for finding in findings)
        severe = [finding for finding in findings if finding["severity"] != "info"]
        assert answer.code == (1 if severe else 0)
        ranks = [("error", "warning", "info").index(finding["severity"]) for finding in findings]
        assert ranks == sorted(ranks)
        # roles belong to the whole cluster, which other tests use, too
        return [finding for finding in findings
                if not finding["finding"].startswith(HERE) and finding["detail"]["check"] != "callers"]

    return call


@pytest.fixture
def plant(psql, database, doctor):
    """plant(sql) → the one finding that this brings."""

    def call(sql):
        before = doctor()
        psql(database, sql)
        new = [finding for finding in doctor() if finding not in before]
        assert len(new) == 1, new
        assert new[0]["what_to_do"]
        return new[0]

    return call


def test_a_healthy_database_has_no_findings(settle, home):
    environment = {"SETTLE_HOME": home}
    answer = settle("doctor", env=environment)
    assert (answer.code, answer.stdout, answer.stderr) == (0, "no findings\n", "")
    document = settle("doctor", "--json", env=environment)
    assert document.code == 0 and document.json() == []
    used = settle("db", "url", env=environment).stdout.strip()
    support.psql(used, """
        select settle.begin_operation('K', 'exec', lease => '1 hour'); select settle.complete('K', 1);
        select settle.begin_compensation('K', 'ann', 'wrong', lease => '1 hour'); select settle.complete('K~undo', 1);
        select settle.begin_operation('L', 'exec', lease => '1 hour');
        select settle.fail('L', 1, 'transient', 'T', 'm');
        select settle.begin_operation('M', 'exec', lease => '1 hour', trigger => 'schedule');
        select settle.begin_operation('M', 'exec', lease => '1 hour', trigger => 'schedule');
        update settle_data.operation set lease_until = clock_timestamp() - interval '1 second' where key = 'M';
        select settle.begin_operation('M', 'exec', lease => '1 hour');
        select settle.begin_operation('M', 'exec', trigger => 'manual');
        select settle.begin_compensation('early', 'ann', 'called off')""")
    assert settle("doctor", env=environment).stdout == "no findings\n"


def test_the_plain_form(settle, database):
    answer = settle("--db", database, "doctor")
    assert answer.code == 1 and answer.stderr == ""
    lines = answer.stdout.splitlines()
    assert lines[0] == "error    fsync is off: a crash of the server may lose or corrupt what was committed"
    assert lines[1] == "         do: alter system set fsync = on; select pg_reload_conf()"
    assert lines[-1] == "2 findings"


def test_every_database_of_the_tests_is_otherwise_sound(doctor):
    assert doctor() == []


def test_settings_of_a_role_or_database(plant, psql, database):
    name = database.split("/")[3].split("?")[0]
    psql(database, f"create role {name}_writer")
    try:
        found = plant(f"alter role {name}_writer in database {name} set synchronous_commit = off")
        assert found["severity"] == "error"
        assert found["finding"].startswith(f"synchronous_commit is off for role {name}_writer in database {name}")
        assert found["what_to_do"] == f"reset it: alter role {name}_writer in database {name} reset synchronous_commit"
    finally:
        psql(database, f"drop role {name}_writer")


def test_commits_that_do_not_wait(settle, psql, database):
    psql(database, f"alter database {database.split('/')[3].split('?')[0]} set synchronous_commit = off")
    findings = settle("--db", database, "--json", "doctor").json()
    assert [finding["finding"] for finding in findings if finding["finding"].startswith("synchronous_commit is off:")]
    assert [finding for finding in findings if finding["finding"].startswith("synchronous_commit is off in database")]


def test_another_encoding(settle, cluster_url, psql):
    psql(cluster_url, "create database settle_latin template template0 encoding 'LATIN1' locale 'C'")
    try:
        answer = settle("--db", support.with_database(cluster_url, "settle_latin"), "--json", "doctor")
    finally:
        psql(cluster_url, "drop database settle_latin")
    assert answer.code == 1
    assert [(one["severity"], one["finding"], one["what_to_do"], one["detail"]) for one in answer.json()] == [
        ("error", "the database's encoding is LATIN1", "create one with encoding UTF8", {"check": "schema"})]


def test_no_schema(settle, empty_database):
    findings = settle("--db", empty_database, "--json", "doctor").json()
    assert "settle" in findings[0]["finding"] and "run settle migrate" in findings[0]["what_to_do"]
    assert findings[0]["detail"] == {"check": "schema"}
    assert any(finding["finding"].startswith("fsync is off") for finding in findings)


def test_another_schema(settle, psql, database):
    psql(database, "insert into settle_data.migration (number, name, sha256) values (999, '0999_later.sql', 'x')")
    answer = settle("--db", database, "--json", "doctor")
    assert answer.code == 1
    first = answer.json()[0]
    assert first["finding"].startswith("the database's schema is version 999") and first["what_to_do"] == "use a newer settle"


def test_no_database_is_no_finding(settle):
    answer = settle("--db", "postgresql:///nobody?host=/nowhere", "doctor")
    assert answer.code == 69 and answer.stdout == ""


def test_functions_of_another_version(plant):
    found = plant("update settle_data.api_file set sha256 = 'x' where name = '050_end.sql'")
    assert found["severity"] == "error" and found["what_to_do"] == "run settle migrate"
    assert found["finding"].endswith("of another version than this program: 050_end.sql")


def test_tables_of_another_build(plant):
    found = plant("update settle_data.migration set sha256 = 'x' where number = 2")
    assert found["severity"] == "error" and found["what_to_do"] == "use the program that made them"
    assert found["finding"].endswith("by another build than this program: 0002_core.sql")


@pytest.mark.parametrize("sql, words", [
    ("drop function settle.cancel(text, text, text, text)", "function settle.cancel is missing"),
    ("create or replace function settle.schema_version() returns integer language plpgsql stable security definer "
     "set search_path = pg_catalog, pg_temp as $$ begin return 3; end $$",
     "function settle.schema_version is not this program's"),
    ("alter function settle.complete(text, bigint, text, jsonb, text) security invoker",
     "function settle.complete is not this program's"),
    ("create function settle.mine() returns integer language sql as 'select 1'; "
     "revoke all on function settle.mine() from public; alter function settle.mine() owner to settle_owner",
     "function settle.mine is none of Settle's"),
    ("alter function settle.renew(text, bigint, interval, text, text) reset search_path",
     "function settle.renew runs with its owner's rights, but its search_path is not pinned"),
    ("drop view settle.metrics", "view settle.metrics is missing"),
    ("drop index settle_data.operation_open", "index settle_data.operation_open is missing"),
    ("alter table settle_data.lease drop constraint lease_resource_limit",
     "constraint settle_data.lease_resource_limit is missing"),
    ("drop sequence settle.duplicates_7", "sequence settle.duplicates_7 is missing"),
    ("alter table settle_data.decision set unlogged", "table settle_data.decision is not durable"),
    ("update pg_index set indisvalid = false where indexrelid = 'settle_data.operation_pkey'::regclass",
     "index settle_data.operation_pkey is not valid"),
    ("drop trigger operation_ended on settle_data.operation", "trigger operation_ended is missing"),
    ("alter table settle_data.operation disable trigger operation_ended", "trigger operation_ended is disabled"),
    ("create trigger mine before insert on settle_data.lease for each row execute function suppress_redundant_updates_trigger()",
     "trigger mine on settle_data.lease is none of Settle's"),
    ("grant execute on function settle.decide(text, text, text, text, text, jsonb, text) to public",
     "everybody (PUBLIC) has EXECUTE on function settle.decide"),
    ("grant execute on function settle.decide(text, text, text, text, text, jsonb, text) to settle_app",
     "settle_app has EXECUTE on function settle.decide, which Settle does not grant"),
    ("grant execute on function settle_data.reopen(settle_data.operation, jsonb) to settle_app",
     "settle_app has EXECUTE on function settle_data.reopen"),
    ("revoke execute on function settle.complete(text, bigint, text, jsonb, text) from settle_worker",
     "settle_worker has no EXECUTE on function settle.complete, which Settle grants"),
    ("grant select on settle_data.operation to settle_viewer", "settle_viewer has SELECT on table settle_data.operation"),
    ("grant update (status) on settle_data.operation to settle_app", "settle_app has UPDATE on table settle_data.operation"),
    ("grant usage on schema settle_data to public", "everybody (PUBLIC) has USAGE on schema settle_data"),
    ("grant insert on settle.operations to settle_app", "settle_app has INSERT on table settle.operations"),
    ("revoke select on settle.reviews from settle_viewer", "settle_viewer has no SELECT on table settle.reviews"),
    ("revoke usage on schema settle from settle_handler", "settle_handler has no USAGE on schema settle"),
])
def test_what_was_changed_by_hand(plant, sql, words):
    found = plant(sql)
    assert found["finding"].startswith(words), found


def test_a_superusers_function(plant):
    found = plant("alter function settle.cancel(text, text, text, text) owner to postgres")
    assert found["severity"] == "error"
    assert found["finding"] == ("function settle.cancel belongs to postgres, not to settle_owner, and runs with a "
                                "superuser's rights")


def test_what_is_advised_mends_it(doctor, settle, psql, database):
    psql(database, "create or replace function settle.schema_version() returns integer language plpgsql stable "
                   "security definer set search_path = pg_catalog, pg_temp as $$ begin return 3; end $$")
    assert settle("--db", database, "migrate").stdout.endswith("nothing to do\n")
    assert "delete from settle_data.api_file" in doctor()[0]["what_to_do"]
    psql(database, "set role settle_owner; delete from settle_data.api_file")
    assert settle("--db", database, "migrate").code == 0
    assert doctor() == []
    psql(database, "grant usage on schema settle_data to public")
    psql(database, doctor()[0]["what_to_do"])
    assert doctor() == []


OPERATION = "insert into settle_data.operation (namespace, key, kind, status, token, revision, attempt_count, counter, " \
            "created_at, finished_at, open_since, lease_until, next_attempt_at, compensates) values "
EXECUTION = "insert into settle_data.execution (namespace, key, number, revision, trigger, outcome, started_at, " \
            "finished_at) values "
DONE = OPERATION + "('default', 'K', 'pay', 'succeeded', 1, 0, 1, 0, now(), now(), null, null, null, null);"


@pytest.mark.parametrize("sql, words", [
    (OPERATION + "('default', 'K', 'pay', 'succeeded', 1, 0, 1, 0, now(), now(), now(), null, null, null)",
     "operation finished, but still counted as open (1): K"),
    (OPERATION + "('bank', 'K', 'pay', 'review', 1, 0, 1, 0, now(), null, null, null, null, null)",
     "operation unfinished, but shown by no queue (1): bank/K"),
    ("set session_replication_role = replica;" +
     OPERATION + "('default', 'K', 'pay', 'running', 1, 0, 1, 0, now(), null, now(), null, null, null)",
     "operation running without a lease, so that nobody can take over (1): K"),
    (OPERATION + "('default', 'K', 'pay', 'pending', 1, 0, 1, 0, now(), null, now(), null, null, null)",
     "operation pending, but due at no time (1): K"),
    (DONE + EXECUTION + "('default', 'K', 2, 0, 'call', 'succeeded', now(), now())",
     "operation at a token behind its executions, so that a token could be given twice (1): K"),
    ("insert into settle_data.operation (namespace, key, status, token, revision, attempt_count, counter, created_at, "
     "finished_at, failure_code) values ('default', 'K', 'cancelled', 1, 0, 1, 0, now(), now(), 'UNDONE_FIRST')",
     "operation undone before it came, but has run (1): K"),
    (OPERATION + "('default', 'K', 'pay', 'odd', 1, 0, 1, 0, now(), null, now(), null, null, null)",
     "operation in a status that does not exist (1): K"),
    (OPERATION + "('default', 'K', 'pay', 'succeeded', 1, 0, 1, 0, now(), null, now(), null, null, null)",
     "operation finished by its status but not by its time, or the other way round (1): K"),
    (OPERATION + "('', 'K', 'pay', 'succeeded', 1, 0, 1, 0, now(), now(), null, null, null, null)",
     "operation under a key or namespace that cannot be one (1): /K"),
    (OPERATION + "('default', 'K', null, 'succeeded', 1, 0, 1, 0, now(), now(), null, null, null, null)",
     "operation of no kind (1): K"),
    (OPERATION + "('default', 'K', 'pay', 'succeeded', 1, -1, 1, 0, now(), now(), null, null, null, null)",
     "operation at a token or count below zero (1): K"),
    (EXECUTION + "('default', 'K', 2, 0, 'call', 'lost', now(), now())", "execution without its operation (1): K"),
    ("insert into settle_data.decision values (now(), 1, 'default', 'K', 'rerun', 'ann', 'r', 'review', 'pending', null, 'x')",
     "decision without its operation (1): K"),
    (OPERATION + "('default', 'K', 'pay', 'running', 3, 0, 3, 0, now(), null, now(), now() + interval '1 hour', null, null);"
     + EXECUTION + "('default', 'K', 2, 0, 'call', null, now(), null), ('default', 'K', 3, 0, 'call', null, now(), null)",
     "operation with two executions running at once (1): K"),
    (OPERATION + "('default', 'K', 'pay', 'succeeded', 2, 0, 2, 0, now(), now(), null, null, null, null);"
     + EXECUTION + "('default', 'K', 2, 0, 'call', null, now(), null)",
     "execution that runs on after its operation (1): K"),
    (OPERATION + "('default', 'K', 'pay', 'running', 2, 0, 2, 0, now(), null, now(), now() + interval '1 hour', null, null)",
     "running operation whose execution is not recorded (1): K"),
    (OPERATION + "('default', 'K~undo', 'undo', 'succeeded', 1, 0, 1, 0, now(), now(), null, null, null, 'K')",
     "compensation whose original is missing (1): K~undo"),
    (OPERATION + "('default', 'K', 'pay', 'cancelled', 1, 0, 1, 0, now(), now(), null, null, null, null), "
     "('default', 'K~undo', 'undo', 'succeeded', 1, 0, 1, 0, now(), now(), null, null, null, 'K')",
     "compensation whose original has not succeeded (1): K~undo"),
    (DONE + OPERATION + "('default', 'K~undo', 'undo', 'succeeded', 1, 0, 1, 0, now(), now(), null, null, null, 'K'), "
     "('default', 'other', 'undo', 'succeeded', 1, 0, 1, 0, now(), now(), null, null, null, 'K')",
     "operation that is undone twice (1): K"),
    (DONE + OPERATION + "('default', 'K~undo', 'undo', 'succeeded', 1, 0, 1, 0, now(), now(), null, null, null, 'K'), "
     "('default', 'K~undo~undo', 'undo', 'succeeded', 1, 0, 1, 0, now(), now(), null, null, null, 'K~undo')",
     "compensation of a compensation (1): K~undo~undo"),
    (OPERATION + "('default', 'K~undo', 'undo', 'succeeded', 1, 0, 1, 0, now(), now(), null, null, null, null)",
     "operation under a compensation's key that undoes something else (1): K~undo"),
])
def test_every_invariant_when_it_is_broken(plant, sql, words):
    found = plant(sql)
    assert found["severity"] == "error" and found["finding"] == words, found
    assert found["detail"]["count"] == 1 and found["detail"]["keys"][0]["key"] in words


def test_a_kind_under_an_old_revision(plant, psql, database):
    psql(database, """select settle.declare_kind('pay', '{"effect": "local"}');
                      select settle.declare_kind('pay', '{"effect": "local", "lease": "1m"}')""")
    found = plant("update settle_data.kind_revision set in_force = false where kind = 'pay'")
    assert found["severity"] == "error" and found["finding"].startswith("kind pay has no revision in force")
    assert found["detail"] == {"check": "kinds", "kind": "pay", "revision": 2}


def test_many_are_counted_and_five_are_named(doctor, psql, database):
    psql(database, f"{EXECUTION} " + ", ".join(f"('default', 'k{n}', 2, 0, 'call', 'lost', now(), now())" for n in range(9)))
    found = doctor()[0]
    assert found["finding"] == "execution without its operation (9): k0, k1, k2, k3, k4, …"
    assert found["detail"]["count"] == 9 and len(found["detail"]["keys"]) == 5


def test_hostile_keys_are_harmless(settle, psql, database):
    psql(database, EXECUTION + "('default', E'a\\u001b[2J\\u202e\\nforged', 2, 0, 'call', 'lost', now(), now())")
    answer = settle("--db", database, "doctor")
    assert "(1): a\\u001b[2J\\u202e\\nforged\n" in answer.stdout
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", answer.stdout)


def test_what_waits_too_long(doctor, psql, database):
    psql(database, """
        select settle.begin_operation('lapsed', 'exec', lease => '1 minute');
        select settle.begin_operation('fresh', 'exec', lease => '1 minute');
        select settle.begin_operation('due', 'exec', lease => '1 minute'); select settle.fail('due', 1, 'transient', 'T', 'm');
        select settle.begin_operation('unknown', 'exec', lease => '1 minute', effect => 'opaque');
        select settle.fail('unknown', 1, 'unknown', 'U', 'm');
        select settle.begin_operation('review', 'exec', lease => '1 minute'); select settle.fail('review', 1, 'defect', 'D', 'm')""")
    assert [(one["severity"], one["finding"].split(",")[0]) for one in doctor()] == [
        ("info", "1 operation is in review"), ("info", "1 operation is unknown")]
    psql(database, """
        update settle_data.operation set lease_until = clock_timestamp() - interval '6 minutes' where key = 'lapsed';
        update settle_data.operation set next_attempt_at = clock_timestamp() - interval '2 hours' where key = 'due';
        update settle_data.operation set open_since = clock_timestamp() - interval '2 hours' where key in ('unknown', 'review')""")
    found = doctor()
    assert [(one["severity"], one["finding"].split(" since")[0]) for one in found] == [
        ("warning", "1 operation is running under a lease that has lapsed, lapsed"),
        ("warning", "1 operation is due, but begun by nobody, due"),
        ("warning", "1 operation is in review, review"), ("warning", "1 operation is unknown, unknown")]
    assert found[3]["detail"]["key"] == "unknown" and found[3]["detail"]["count"] == 1


def test_roles_and_their_memberships(settle, own_cluster):
    url = support.create_database(own_cluster, "settle_roles")
    assert settle("--db", url, "migrate").code == 0

    def found():
        return {one["finding"]: one["what_to_do"] for one in settle("--db", url, "--json", "doctor").json()
                if one["detail"]["check"] == "roles"}

    assert found() == {}
    support.psql(url, "revoke settle_viewer from settle_worker; alter role settle_owner login; "
                      "alter role settle_app superuser; alter role settle_handler rename to settle_gone")
    findings = found()
    assert sorted(findings) == [
        "role settle_app is a superuser or passes row security: its functions could do anything",
        "role settle_handler is missing",
        "role settle_owner may log in: whoever does may write to the tables past every guard",
        "settle_worker is no member of settle_viewer"]
    support.psql(url, "alter role settle_gone rename to settle_handler;" + ";".join(
        advice for finding, advice in findings.items() if "missing" not in finding))
    assert found() == {}


def test_a_prepared_transaction(settle, own_cluster):
    url = support.create_database(own_cluster, "settle_prepared")
    assert settle("--db", url, "migrate").code == 0
    support.psql(url, "begin; create table t (); prepare transaction 'left behind'")
    findings = settle("--db", url, "--json", "doctor").json()
    found = [one for one in findings if one["detail"]["check"] == "sessions"]
    assert [one["finding"].split(" since ")[0] for one in found] == [
        "prepared transaction left behind of postgres has been waiting to be ended"]
    assert "rollback prepared 'left behind'" in found[0]["what_to_do"]
    support.psql(url, "rollback prepared 'left behind'")


@pytest.fixture
def own_cluster():
    """A cluster for what changes roles, or needs prepared transactions."""
    kept = dict(support.SETTINGS)
    support.SETTINGS["max_prepared_transactions"] = "2"
    cluster = support.Cluster()
    try:
        cluster.start()
        yield cluster.url()
    finally:
        support.SETTINGS.clear()
        support.SETTINGS.update(kept)
        cluster.stop()


def test_old_transactions(database, connect, doctor):
    """The program's own limit is five minutes; the statement it runs takes any."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(root, "sql", "query", "doctor_sessions.sql"), encoding="utf-8") as file:
        statement = re.sub(r"(?m)^--.*$", "", file.read()).replace("%", "%%").replace("$1", "%(age)s")
    idle = connect(database, application_name="idler")
    with idle.cursor() as cursor:
        cursor.execute("select 1")
    assert not [one for one in doctor() if one["detail"]["check"] == "sessions"]
    watcher = connect(database)
    watcher.autocommit = True
    with watcher.cursor() as cursor:
        cursor.execute(statement, {"age": "0 seconds"})
        rows = cursor.fetchall()
    assert len(rows) == 1 and rows[0][0] == "warning"
    assert re.match(r"session \d+ of postgres \(idler\) has been idle in its transaction since ", rows[0][1])
    assert f"pg_terminate_backend({idle.info.backend_pid})" in rows[0][2]


def test_who_may_not_read_all_is_told_so(settle, psql, database):
    name = database.split("/")[3].split("?")[0]
    psql(database, f"create role {name}_viewer login; grant settle_viewer to {name}_viewer; "
                   f"create role {name}_app login; grant settle_app to {name}_app")
    try:
        answer = settle("--db", database.replace("user=postgres", f"user={name}_viewer"), "--json", "doctor")
        findings = {one["finding"]: one["severity"] for one in answer.json() if not one["finding"].startswith(HERE)}
        assert findings == {
            f"role {name}_app has no lock_timeout: it waits for a key that another holds for ever": "info",
            "other users' sessions could not be looked at": "info",
            "not checked, as this role may not read what is needed: the migrations, the version of the functions, "
            "the operations, the executions, the compensations, the kinds": "info"}
        psql(database, f"alter role {name}_app set lock_timeout = '5s'")
        assert "lock_timeout" not in settle("--db", database, "doctor").stdout
        psql(database, f"create role {name}_stranger login")
        stranger = settle("--db", database.replace("user=postgres", f"user={name}_stranger"), "doctor")
        assert stranger.code == 77 and stranger.stdout == ""
    finally:
        psql(database, f"drop role if exists {name}_viewer, {name}_app, {name}_stranger")
