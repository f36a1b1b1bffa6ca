"""settle rerun and settle review: what a person decides, once, for the record."""

import pytest

REVIEW_FIELDS = ["namespace", "key", "kind", "reason", "since", "approvals", "status", "last_error"]
ANSWER_FIELDS = ["namespace", "key", "outcome", "status", "reason"]
SIGNED = ("--operator", "ann", "--reason", "seen at the bank")


@pytest.fixture
def run(settle, database):
    """run("review", "list") → the answer, against the fresh database."""

    def call(*arguments, url=database):
        return settle("--db", url, *arguments)

    return call


@pytest.fixture
def unknown(psql, database):
    """unknown("K", kind="exec") leaves an opaque operation whose outcome nobody knows."""

    def make(key, kind="exec", request="{}"):
        psql(database, f"""
            select settle.begin_operation('{key}', '{kind}', '{request}', lease => '1 minute', effect => 'opaque');
            select settle.fail('{key}', 1, 'unknown', 'NO_ANSWER', 'the line broke')""")

    return make


@pytest.fixture
def in_review(psql, database):
    """in_review("K") leaves an operation whose attempts ended in a defect."""

    def make(key, kind="exec", request="{}"):
        psql(database, f"""
            select settle.begin_operation('{key}', '{kind}', '{request}', lease => '1 minute');
            select settle.fail('{key}', 1, 'defect', 'BROKEN', 'it broke')""")

    return make


def status(run, key):
    return run("--json", "show", key).json()["status"]


def test_the_list_sweeps_first_and_has_exactly_its_fields(run, unknown, in_review, psql, database):
    assert run("review", "list").stdout == "nothing is in review\n"
    assert run("review", "list", "--json").json() == []
    in_review("broken")
    unknown("asked")
    psql(database, """
        select settle.begin_operation('vanished', 'exec', lease => '1 minute', effect => 'opaque');
        select settle.mark_sent('vanished', 1, 'bank/7');
        select settle.begin_operation('lapsed', 'exec', lease => '1 minute');
        select settle.begin_operation('elsewhere', 'exec', lease => '1 minute', effect => 'opaque', namespace => 'other');
        select settle.mark_sent('elsewhere', 1, namespace => 'other');
        update settle_data.operation set lease_until = clock_timestamp() - interval '1 minute' where status = 'running'""")
    answer = run("review", "list", "--json")
    assert answer.code == 0
    cases = answer.json()
    assert all(list(case) == REVIEW_FIELDS for case in cases)
    assert {(case["key"], case["status"], case["reason"]) for case in cases} == {
        ("broken", "review", "defect"), ("asked", "review", "unknown"), ("vanished", "review", "unknown")}
    assert [case["since"] for case in cases] == sorted(case["since"] for case in cases)
    assert all(case["since"].endswith("Z") and case["approvals"] == 0 for case in cases)
    assert {case["last_error"]["code"] for case in cases} == {"BROKEN", "NO_ANSWER", "LEASE_LOST"}
    assert status(run, "lapsed") == "pending"
    assert run("--namespace", "other", "show", "elsewhere", "--json").json()["status"] == "running"
    lines = run("review", "list").stdout.splitlines()
    assert lines[0].split() == ["SINCE", "STATUS", "KEY", "KIND", "REASON", "APPROVALS", "LAST", "ERROR"]
    assert lines[-1] == "next: settle review show broken" and len(lines) == 5


def test_one_with_a_resolver_is_not_a_persons(run, unknown, psql, database):
    psql(database, """select settle.declare_kind('looked-up', '{"effect": "opaque", "resolve": {"handler": {"sql": "f"}}}')""")
    unknown("K", kind="looked-up")
    assert run("review", "list", "--json").json() == []
    assert "it is being looked up" in run("show", "K").stdout


def test_who_may_only_look_sees_the_list(run, unknown, psql, database):
    unknown("K")
    name = database.split("/")[3].split("?")[0]
    psql(database, f"create role {name}_viewer login; grant settle_viewer to {name}_viewer")
    url = database.replace("user=postgres", f"user={name}_viewer")
    try:
        answer = run("review", "list", "--json", url=url)
        assert answer.code == 0
        assert [(case["key"], case["status"]) for case in answer.json()] == [("K", "unknown")]
        denied = run("review", "decide", "K", "--as", "rerun", *SIGNED, url=url)
        assert denied.code == 77 and denied.stderr.startswith("settle: PERMISSION_DENIED")
        assert run("rerun", "K", *SIGNED, url=url).code == 77
    finally:
        psql(database, f"drop role {name}_viewer")
    assert status(run, "K") == "unknown"


def test_a_case_keeps_everything_together(run, unknown):
    unknown("K", request='{"amount": 18446744073709551615}')
    run("review", "decide", "K", "--as", "rerun", *SIGNED)
    answer = run("review", "show", "K", "--json")
    assert answer.code == 0 and '"amount": 18446744073709551615' in answer.stdout
    case = answer.json()
    assert list(case)[-2:] == ["review", "decisions"] and list(case)[:2] == ["namespace", "key"]
    assert case["review"] is None and case["status"] == "pending"
    assert case["decisions"] == [{
        "number": 1, "act": "rerun", "operator": "ann", "reason": "seen at the bank", "from_status": "unknown",
        "to_status": "pending", "detail": None, "decided_at": case["decisions"][0]["decided_at"], "db_user": "postgres"}]
    text = run("review", "show", "K").stdout
    assert text.startswith("not in review\nK is pending") and "rerun  by ann  unknown -> pending  seen at the bank" in text

    unknown("L")
    case = run("review", "show", "L", "--json").json()
    assert case["review"]["reason"] == "unknown" and case["review"]["approvals"] == 0 and case["decisions"] == []
    assert case["executions"][0]["error"]["code"] == "NO_ANSWER"
    assert "settle review decide L --as succeeded" in run("review", "show", "L").stdout
    assert run("review", "show", "nobody").code == 108


@pytest.mark.parametrize("decision, after", [
    ("rerun", "pending"), ("succeeded", "succeeded"), ("failed", "failed"), ("cancelled", "cancelled")])
def test_each_decision_is_recorded_and_replayed(run, unknown, decision, after):
    unknown("K")
    answer = run("review", "decide", "K", "--as", decision, *SIGNED)
    assert answer.code == 0 and answer.stderr == "" and f"K is {after}" in answer.stdout
    shown = run("review", "show", "K", "--json").json()
    assert shown["status"] == after
    assert [(one["act"], one["operator"], one["reason"]) for one in shown["decisions"]] == [
        (decision, "ann", "seen at the bank")]
    if after in ("failed", "cancelled"):
        assert shown["failure"]["detail"] == {"operator": "ann", "reason": "seen at the bank"}
    late = run("review", "decide", "K", "--as", "succeeded", *SIGNED)
    assert late.code == 111 and late.stdout == ""
    assert late.stderr == f"settle: ALREADY_DECIDED: K: it is {after}: only an operation in review or unknown can be decided\n"
    assert status(run, "K") == after


def test_the_answer_as_a_document(run, unknown):
    unknown("K")
    done = run("review", "decide", "K", "--as", "succeeded", *SIGNED, "--result-ref", "row 7", "--json")
    assert done.code == 0 and list(done.json()) == ANSWER_FIELDS
    assert done.json() == {"namespace": "default", "key": "K", "outcome": "done", "status": "succeeded", "reason": None}
    assert run("--json", "show", "K").json()["result_ref"] == "row 7"
    late = run("review", "decide", "K", "--as", "failed", *SIGNED, "--json")
    assert late.code == 111 and late.json()["error"]["code"] == "ALREADY_DECIDED"


def test_compensate_needs_a_kind_that_can(run, unknown, psql, database):
    unknown("K")
    refused = run("review", "decide", "K", "--as", "compensate", *SIGNED, "--json")
    assert refused.code == 1 and refused.json()["outcome"] == "refused"
    assert refused.stderr == ("settle: refused: K: its kind declares no compensation: decide succeeded, then use "
                              "begin_compensation\n")
    assert status(run, "K") == "unknown"
    psql(database, """select settle.declare_kind('pay', '{"effect": "opaque", "compensation": {"kind": "refund"}}')""")
    unknown("L", kind="pay")
    done = run("review", "decide", "L", "--as", "compensate", *SIGNED)
    assert done.code == 0 and "its compensation is to be done as L~undo" in done.stdout
    undo = run("--json", "show", "L~undo").json()
    assert undo["compensates"] == "L" and undo["status"] == "pending" and undo["kind"] == "refund"
    assert run("--json", "show", "L").json()["compensated_by"] == "L~undo"
    text = run("show", "L~undo").stdout
    assert "next: begin it with settle.begin_compensation for the key L" in text and "asked by     ann" in text


def test_two_people_have_to_agree(run, unknown, psql, database):
    psql(database, """select settle.declare_kind('pay', '{"effect": "opaque", "review": {"approvals": 2}}')""")
    unknown("K", kind="pay")
    run("review", "list")
    first = run("review", "decide", "K", "--as", "succeeded", *SIGNED)
    assert first.code == 0
    assert first.stdout == "approved by ann: K is still in review; a second person has to decide the same\n"
    assert run("review", "list", "--json").json()[0]["approvals"] == 1
    again = run("review", "decide", "K", "--as", "succeeded", *SIGNED, "--json")
    assert again.code == 0 and again.json()["outcome"] == "approved"
    other = run("review", "decide", "K", "--as", "failed", "--operator", "bob", "--reason", "no")
    assert other.code == 0 and "approved" in other.stdout and status(run, "K") == "review"
    second = run("review", "decide", "K", "--as", "succeeded", "--operator", "bob", "--reason", "seen, too")
    assert second.code == 0 and second.stdout == "K is succeeded, decided by bob\n"
    assert [event["detail"]["act"] for event in run("--json", "trace", "K").json()["events"]
            if event["event"] == "decided"] == ["approve succeeded", "approve failed", "succeeded"]


@pytest.mark.parametrize("arguments, word", [
    (("--as", "rerun", "--reason", "r"), "--operator"),
    (("--as", "rerun", "--operator", "o"), "--reason"),
    (("--as", "rerun", "--operator=", "--reason", "r"), "operator: it is empty"),
    (("--as", "rerun", "--operator", "o", "--reason", "  "), "reason: it is empty"),
    (("--as", "rerun", "--operator", "o", "--reason", "r" * 65537), "reason: it is 65537 bytes long; the limit is 65536"),
    (("--as", "maybe", *SIGNED), 'as: "maybe" is none of rerun, succeeded, failed, cancelled, compensate'),
    (SIGNED, "--as"),
    (("--as", "failed", *SIGNED, "--revise", "{}"), "revise: a request is revised only with --as rerun"),
    (("--as", "rerun", *SIGNED, "--revise", '{"a": 1, "a": 2}'), "revise"),
    (("--as", "rerun", *SIGNED, "--revise", "{"), "revise"),
    (("--as", "succeeded", *SIGNED, "--result-ref", "x\x1b[2J"), "result_ref"),
    (("--as", "rerun", "--operator", "a\nb", "--reason", "r"), "operator"),
])
def test_what_cannot_be_recorded_decides_nothing(run, unknown, arguments, word):
    unknown("K")
    answer = run("review", "decide", "K", *arguments)
    assert answer.code == 2 and answer.stdout == "" and answer.stderr.count("\n") == 1, answer
    assert answer.stderr.startswith("settle: INVALID_ARGUMENT: ") and word in answer.stderr, answer
    assert status(run, "K") == "unknown"
    assert run("review", "show", "K", "--json").json()["decisions"] == []


def test_a_revised_request_keeps_its_identity(run, in_review, psql, database):
    psql(database, """select settle.declare_kind('pay', '{"effect": "keyed", "identity": ["/amount"]}')""")
    in_review("K", kind="pay", request='{"amount": 18446744073709551615, "to": "x"}')
    changed = run("review", "decide", "K", "--as", "rerun", *SIGNED, "--revise", '{"amount": 1, "to": "y"}')
    assert changed.code == 2 and "/amount" in changed.stderr and status(run, "K") == "review"
    done = run("rerun", "K", *SIGNED, "--revise", '{"amount": 18446744073709551615, "to": "y"}')
    assert done.code == 0 and done.stdout.startswith("K is pending, due now")
    shown = run("--json", "show", "K")
    assert '"amount": 18446744073709551615' in shown.stdout and shown.json()["request"]["to"] == "y"
    decision = run("review", "show", "K", "--json").json()["decisions"][0]
    assert decision["detail"]["revised_from"]["to"] == "x"


def test_rerun_of_what_may_run_again(run, in_review, psql, database):
    in_review("K")
    done = run("rerun", "K", *SIGNED, "--json")
    assert done.code == 0 and done.json() == {
        "namespace": "default", "key": "K", "outcome": "done", "status": "pending", "reason": None}
    assert psql(database, "select (settle.begin_operation('K', 'exec', lease => '1 minute')).outcome") == "started"
    assert run("--json", "show", "K").json()["executions"][1]["trigger"] == "manual"

    psql(database, """
        select settle.declare_kind('pay', '{"effect": "local", "review": {"rerun_failed": true}}');
        select settle.begin_operation('no', 'pay', lease => '1 minute'); select settle.refuse('no', 1, 'NO_MONEY')""")
    assert run("rerun", "no", *SIGNED).code == 0 and status(run, "no") == "pending"


def test_rerun_of_a_success_only_records_a_replay(run, psql, database):
    psql(database, "select settle.begin_operation('K', 'exec', lease => '1 minute'); "
                   "select settle.complete('K', 1, result => '7')")
    answer = run("rerun", "K", *SIGNED)
    assert answer.code == 0 and answer.stderr == ""
    assert answer.stdout == "K: it has succeeded, and a success is never run again; the replay is recorded\n"
    shown = run("--json", "show", "K").json()
    assert shown["status"] == "succeeded" and shown["result"] == 7 and shown["attempt_count"] == 1
    repeat = shown["executions"][1]
    assert (repeat["outcome"], repeat["trigger"], repeat["operator"], repeat["reason"]) == (
        "replayed", "manual", "ann", "seen at the bank")


def test_rerun_is_refused_by_what_it_meets(run, unknown, psql, database):
    psql(database, """
        select settle.begin_operation('running', 'exec', lease => '1 minute', owner => 'worker-a');
        select settle.begin_operation('pending', 'exec', lease => '1 minute');
        select settle.fail('pending', 1, 'transient', 'TIMEOUT', 'no answer');
        select settle.begin_operation('failed', 'exec', lease => '1 minute'); select settle.refuse('failed', 1, 'NO');
        select settle.begin_compensation('cancelled', 'ann', 'called off')""")
    unknown("unknown")
    for key, code, words in (
            ("running", 104, "OPERATION_IN_PROGRESS: running: it is running under worker-a"),
            ("pending", 104, "OPERATION_IN_PROGRESS: pending: it waits for its next attempt"),
            ("unknown", 105, "OUTCOME_UNKNOWN: unknown: its outcome is unknown: settle it with review decide"),
            ("failed", 1, "refused: failed: it was refused, and its kind does not say review.rerun_failed"),
            ("cancelled", 1, "refused: cancelled: it is cancelled"),
            ("nobody", 108, 'NOT_FOUND: no operation "nobody" in namespace "default"; settle list shows what there is')):
        answer = run("rerun", key, *SIGNED)
        assert (answer.code, answer.stdout, answer.stderr) == (code, "", f"settle: {words}\n")
    document = run("rerun", "failed", *SIGNED, "--json")
    assert document.code == 1 and document.json()["outcome"] == "refused" and document.json()["status"] == "failed"
    assert status(run, "running") == "running" and status(run, "failed") == "failed"


def test_what_was_never_in_question_is_refused(run, psql, database):
    psql(database, "select settle.begin_operation('K', 'exec', lease => '1 minute', owner => 'worker-a')")
    answer = run("review", "decide", "K", "--as", "failed", *SIGNED)
    assert answer.code == 1 and answer.stdout == ""
    assert answer.stderr == "settle: refused: K: it is running: only an operation in review or unknown can be decided\n"
    assert run("review", "decide", "nobody", "--as", "failed", *SIGNED).code == 108


def test_of_two_who_decide_at_once_one_is_late(settle, database, unknown, connect, wait_until, run):
    unknown("K")
    blocker = connect(database)
    with blocker.cursor() as cursor:
        cursor.execute("select from settle_data.operation where key = 'K' for update")
        both = [settle.spawn("--db", database, "review", "decide", "K", "--as", decision, "--operator", name,
                             "--reason", "r") for decision, name in (("succeeded", "ann"), ("failed", "bob"))]
        watcher = connect(database)
        watcher.autocommit = True

        def waiting():
            with watcher.cursor() as look:
                look.execute("select count(*) from pg_stat_activity where datname = current_database() "
                             "and wait_event_type = 'Lock'")
                return look.fetchone()[0] == 2

        wait_until(waiting, "both deciders waiting for the row")
    blocker.commit()
    answers = [settle.finish(process) for process in both]
    assert sorted(answer.code for answer in answers) == [0, 111], answers
    winner = "succeeded" if answers[0].code == 0 else "failed"
    assert status(run, "K") == winner
    assert len(run("review", "show", "K", "--json").json()["decisions"]) == 1


def test_a_row_that_another_keeps_is_in_progress(run, database, unknown, connect):
    unknown("K")
    blocker = connect(database)
    with blocker.cursor() as cursor:
        cursor.execute("select from settle_data.operation where key = 'K' for update")
        answer = run("review", "decide", "K", "--as", "failed", *SIGNED)
    blocker.rollback()
    assert answer.code == 104 and answer.stderr.startswith("settle: OPERATION_IN_PROGRESS: another transaction is at work")
    assert status(run, "K") == "unknown"
