"""settle show, trace and list: what they say, field by field, and that nothing hostile comes through."""

import json
import re

import pytest

SHOW_FIELDS = ["namespace", "key", "kind", "status", "request", "digest", "result_ref", "result", "failure",
               "attempt_count", "next_attempt_at", "last_error", "created_at", "finished_at", "lease", "compensates",
               "compensated_by", "executions"]
EXECUTION_FIELDS = ["execution_id", "token", "trigger", "worker", "outcome", "error", "remote_ref", "sent_at", "repeats",
                    "operator", "reason", "revision", "started_at", "finished_at"]
LIST_FIELDS = ["namespace", "key", "kind", "status", "attempt_count", "next_attempt_at", "last_error", "created_at",
               "finished_at", "result_ref"]
EVENT_FIELDS = ["at", "event", "key", "execution_id", "token", "trigger", "worker", "outcome", "operator", "reason",
                "detail"]
INSTANT = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
# What may move a terminal's cursor or turn its text around.
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


@pytest.fixture
def begin(psql, database):
    """begin("K", kind="exec", lease="1 minute", …) → the outcome; a named argument each."""

    def call(key, function="begin_operation", **arguments):
        arguments = {"key": key, **arguments}
        if function == "begin_operation":
            arguments = {"kind": "exec", "lease": "1 minute", **arguments}
        given = ", ".join(f"{name} => {literal(value)}" for name, value in arguments.items())
        return psql(database, f"select (settle.{function}({given})).outcome")

    return call


def literal(value):
    if value is None or isinstance(value, (bool, int)):
        return "null" if value is None else str(value).lower()
    return "'" + str(value).replace("'", "''") + "'"


@pytest.fixture
def show(settle, database):
    def call(key, *more):
        answer = settle("--db", database, *more, "show", "--json", "--", key)
        assert answer.code == 0, answer
        return answer.json()

    return call


@pytest.fixture
def plain(settle, database):
    """plain("show", "K") → the plain form."""

    def call(command, key):
        answer = settle("--db", database, command, "--", key)
        assert answer.code == 0, answer
        assert answer.stderr == ""
        assert not UNSAFE.search(answer.stdout), repr(UNSAFE.search(answer.stdout))
        return answer.stdout

    return call


def lapse(psql, database, key):
    psql(database, "update settle_data.operation set lease_until = clock_timestamp() - interval '1 minute' "
                   f"where key = {literal(key)}")


def test_show_has_exactly_the_fields_of_the_contract(begin, show):
    begin("K", request='{"a": 1}', owner="worker-a")
    begin("K", "mark_sent", token=1, remote_ref="bank/K")
    running = show("K")
    assert list(running) == SHOW_FIELDS
    assert running["lease"].keys() == {"owner", "token", "until"}
    assert running["lease"]["owner"] == "worker-a" and running["lease"]["token"] == 1
    assert [list(run) for run in running["executions"]] == [EXECUTION_FIELDS]
    run = running["executions"][0]
    assert run["execution_id"] == "K#1" and run["token"] == 1 and run["trigger"] == "call"
    assert run["worker"] == "worker-a" and run["outcome"] is None and run["finished_at"] is None
    assert run["remote_ref"] == "bank/K" and INSTANT.match(run["sent_at"])
    assert run["repeats"] == {"count": 0, "last_sqlstate": None}

    begin("K", "complete", token=1, result_ref="row 7", result='{"done": true}')
    done = show("K")
    assert list(done) == SHOW_FIELDS
    assert done["status"] == "succeeded" and done["lease"] is None and done["failure"] is None
    assert done["result_ref"] == "row 7" and done["result"] == {"done": True}
    assert done["request"] == {"a": 1} and done["digest"].startswith("1:")
    assert done["attempt_count"] == 1 and done["next_attempt_at"] is None and done["last_error"] is None
    assert INSTANT.match(done["created_at"]) and INSTANT.match(done["finished_at"])
    assert done["executions"][0]["outcome"] == "succeeded"
    assert done["executions"][0]["sent_at"] == run["sent_at"]


def test_a_failure_and_an_error_have_their_members(begin, show):
    begin("no")
    begin("no", "refuse", token=1, code="NO_MONEY", detail='{"balance": 3}')
    assert show("no")["failure"] == {"code": "NO_MONEY", "detail": {"balance": 3}}
    begin("again")
    begin("again", "fail", token=1, error_class="transient", code="TIMEOUT", message="no answer")
    failed = show("again")
    assert failed["status"] == "pending" and INSTANT.match(failed["next_attempt_at"])
    assert failed["last_error"] == {"class": "transient", "code": "TIMEOUT", "message": "no answer"}
    assert failed["executions"][0]["error"] == {"class": "transient", "code": "TIMEOUT", "message": "no answer"}


def test_executions_come_in_the_order_of_their_numbers(begin, show, psql, database):
    begin("K", owner="a")
    for number in range(2, 13):
        lapse(psql, database, "K")
        assert begin("K", owner=f"w{number}") == "started"
    begin("K", trigger="schedule")
    begin("K", "complete", token=12)
    shown = show("K")
    assert [run["token"] for run in shown["executions"]] == list(range(1, 14))
    assert [run["outcome"] for run in shown["executions"]] == ["lost"] * 11 + ["succeeded", "in_progress"]
    assert shown["attempt_count"] == 12
    # A running execution's mark is seen before it ends, whatever its number.
    begin("L")
    lapse(psql, database, "L")
    begin("L")
    begin("L", "mark_sent", token=2, remote_ref="r2")
    assert [run["remote_ref"] for run in show("L")["executions"]] == [None, "r2"]


def test_numbers_stay_digit_for_digit(begin, settle, database, plain):
    numbers = '{"big": 18446744073709551615, "odd": 9007199254740993, "scale": 1.10, "tiny": 0.00000000000000000001}'
    begin("K", request=numbers)
    begin("K", "complete", token=1, result=numbers)
    text = settle("--db", database, "--json", "show", "K").stdout
    for number in ("18446744073709551615", "9007199254740993", "1.10", "0.00000000000000000001"):
        assert text.count(": " + number) == 2, text
        assert plain("show", "K").count(": " + number) == 2


def test_instants_are_utc_whatever_the_session_says(begin, show, psql, database, settle):
    psql(database, f"alter database {database.split('/')[3].split('?')[0]} set timezone = 'Asia/Kathmandu'")
    begin("K", request="{}", lease="1 hour")
    shown = show("K")
    age = psql(database, f"select extract(epoch from clock_timestamp() - {literal(shown['created_at'])}::timestamptz)")
    assert 0 <= float(age) < 60
    until = psql(database, f"select extract(epoch from {literal(shown['lease']['until'])}::timestamptz - clock_timestamp())")
    assert 3500 < float(until) <= 3600
    instants = [shown["created_at"], shown["lease"]["until"], shown["executions"][0]["started_at"]]
    instants += [event["at"] for event in settle("--db", database, "--json", "trace", "K").json()["events"]]
    instants += [one["created_at"] for one in settle("--db", database, "--json", "list").json()]
    assert all(INSTANT.match(instant) for instant in instants), instants


@pytest.mark.parametrize("command", ["show", "trace"])
def test_an_unseen_key_is_not_found_in_one_line(settle, database, command):
    answer = settle("--db", database, command, "nobody-knows-it")
    assert answer.code == 108
    assert answer.stdout == "" and answer.stderr.count("\n") == 1
    assert answer.stderr.startswith('settle: NOT_FOUND: no operation "nobody-knows-it" in namespace "default"')
    document = settle("--db", database, "--json", command, "nobody-knows-it")
    assert document.code == 108 and document.json()["error"]["code"] == "NOT_FOUND"


def test_namespaces_do_not_see_each_other(begin, settle, database):
    begin("K", namespace="other")
    assert settle("--db", database, "show", "K").code == 108
    assert settle("--db", database, "--namespace", "other", "--json", "show", "K").json()["namespace"] == "other"
    assert settle("--db", database, "list", "--json").json() == []
    assert settle("--db", database, "trace", "--namespace", "other", "K").code == 0


def test_each_status_says_what_it_means_and_what_is_next(begin, plain, psql, database):
    begin("running", owner="worker-a")
    assert "running is running: worker-a holds it under token 1, until " in plain("show", "running")
    assert "next: wait: a repeat is answered OPERATION_IN_PROGRESS" in plain("show", "running")
    lapse(psql, database, "running")
    assert "but that lease lapsed at" in plain("show", "running")
    assert "next: begin it again: settle exec --key running -- COMMAND; whoever comes next takes it over" in plain(
        "show", "running")

    begin("pending")
    begin("pending", "fail", token=1, error_class="transient", code="TIMEOUT", message="no answer")
    psql(database, "update settle_data.operation set next_attempt_at = clock_timestamp() + interval '90 seconds' "
                   "where key = 'pending'")
    text = plain("show", "pending")
    assert re.match(r"pending is pending: it waits for its next attempt, due at \S+Z \(in 1m (30|2\d)s\)\n", text), text
    assert "last error  TIMEOUT: no answer" in text

    begin("done")
    begin("done", "complete", token=1, result_ref="row 7")
    assert plain("show", "done").startswith("done is succeeded: it was done at ")
    assert "next: nothing to do" in plain("show", "done") and "result ref  row 7" in plain("show", "done")

    begin("no")
    begin("no", "refuse", token=1, code="NO_MONEY", detail='{"balance": 3}')
    text = plain("show", "no")
    assert text.startswith("no is failed: the business said no: NO_MONEY\n")
    assert "settle exec --key no --rerun --operator YOU --reason WHY" in text
    assert '{"balance": 3}' in text

    begin("early", "begin_compensation", operator="ann", reason="customer called")
    text = plain("show", "early")
    assert text.startswith("early is cancelled: it was undone before it came (by ann: customer called), and never runs")

    begin("unknown", effect="opaque")
    begin("unknown", "mark_sent", token=1, remote_ref="bank/9")
    begin("unknown", "fail", token=1, error_class="unknown", code="NO_ANSWER", message="the line broke")
    text = plain("show", "unknown")
    assert text.startswith("unknown is unknown: its effect may have been applied or not\n")
    assert "next: look on the other side for bank/9, then record what you found:" in text
    assert "settle review decide unknown --as succeeded --operator YOU --reason WHY --result-ref REF" in text
    assert "--as compensate" not in text

    begin("broken")
    begin("broken", "fail", token=1, error_class="configuration", code="NO_SUCH_HOST", message="bank.example")
    text = plain("show", "broken")
    assert text.startswith("broken is in review: it cannot work as things are set up")
    assert "in review   since " in text and "reason configuration, approvals 0" in text


def test_a_declared_kind_says_more(begin, plain, psql, database):
    psql(database, """select settle.declare_kind('pay', '{"effect": "opaque", "compensation": {"kind": "refund"},
                      "review": {"approvals": 2, "rerun_failed": true}}')""")
    begin("K", kind="pay")
    begin("K", "fail", token=1, error_class="unknown", code="NO_ANSWER", message="the line broke")
    text = plain("show", "K")
    assert "settle review decide K --as compensate --operator YOU --reason WHY" in text
    assert "two people have to decide the same; approvals so far: 0" in text
    begin("no", kind="pay")
    begin("no", "refuse", token=1, code="NO_MONEY")
    assert "run it again: settle rerun no --operator YOU --reason WHY" in plain("show", "no")


def test_a_long_story_is_cut_in_the_plain_form_alone(begin, show, plain, psql, database):
    begin("K")
    psql(database, "select settle.begin_operation('K', 'exec', trigger => 'schedule') from generate_series(1, 40)")
    assert len(show("K")["executions"]) == 41
    text = plain("show", "K")
    assert "executions (the last 20 of 41; --json has all):" in text
    assert "  #41  schedule" in text and "  #22  schedule" in text and "  #21  schedule" not in text


HOSTILE = "a\x1b[2J\x1b]0;pwned\x07\r\nforged: line\u202etxt.exe\u2066\x9bK\x7f"


def test_hostile_text_is_shown_harmlessly(begin, show, plain, settle, database):
    begin("K", request=json.dumps({"name": HOSTILE}), owner="worker")
    begin("K", "fail", token=1, error_class="defect", code="BROKEN", message=HOSTILE)
    begin("K", "decide", decision="rerun", operator="ann\u202e", reason=HOSTILE)
    begin("K", owner="eve\u202e", request=json.dumps({"name": HOSTILE}))
    begin("K", "complete", token=2, result_ref="ref\u2066", result=json.dumps([HOSTILE]))
    for command in ("show", "trace"):
        text = plain(command, "K")  # looks for unsafe characters itself
        assert "\\u001b[2J" in text and "\\u202e" in text
        assert not any(line.startswith("forged") for line in text.splitlines())
    for command in (["show", "K"], ["trace", "K"], ["list"], ["review", "show", "K"]):
        document = settle("--db", database, "--json", *command)
        assert document.code == 0 and not UNSAFE.search(document.stdout)
    shown = show("K")
    assert shown["request"]["name"] == HOSTILE and shown["executions"][0]["error"]["message"] == HOSTILE
    assert shown["executions"][1]["worker"] == "eve\u202e"
    listed = settle("--db", database, "list")
    assert not UNSAFE.search(listed.stdout) and "ref\\u2066" in listed.stdout


@pytest.mark.parametrize("key", ["it's", "a b;rm -rf /", "$(id)", "~", "-x", "--as", "r\u202eght", "ключ", "a\\b'\u200bc", "*"])
def test_the_line_to_paste_is_for_this_very_key(begin, settle, database, show, plain, key):
    import subprocess
    from conftest import PROGRAM
    begin(key, namespace="it's", effect="opaque")
    begin(key, "fail", token=1, error_class="unknown", code="NO_ANSWER", message="gone", namespace="it's")
    answer = settle("--db", database, "--namespace", "it's", "show", "--", key)
    assert answer.code == 0 and not UNSAFE.search(answer.stdout)
    line = next(line for line in answer.stdout.splitlines() if "--as cancelled" in line)
    pasted = line[line.index("settle "):].replace("settle", f'"{PROGRAM}" --db "{database}"', 1)
    done = subprocess.run(["bash", "-c", pasted], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, (pasted, done)
    assert show(key, "--namespace", "it's")["status"] == "cancelled"


def test_64_kib_of_text_is_cut_and_counted(begin, plain, show):
    message = "é" * 30000
    begin("K", request=json.dumps({"x": "y" * 70000}))
    begin("K", "fail", token=1, error_class="defect", code="BROKEN", message=message)
    text = plain("show", "K")
    assert len(text) < 10000
    assert "… (60000 bytes in all)" in text and re.search(r"… \(700\d\d bytes in all\)", text)
    assert show("K")["last_error"]["message"] == message


def test_trace_tells_the_whole_story_in_order(begin, settle, psql, database):
    psql(database, """select settle.declare_kind('pay', '{"effect": "opaque", "compensation": {"kind": "refund"}}')""")
    begin("K", kind="pay", owner="worker-a")
    lapse(psql, database, "K")
    assert begin("K", kind="pay", owner="worker-b") == "started"
    begin("K", kind="pay", trigger="schedule", owner="cron")
    begin("K", "mark_sent", token=2, remote_ref="bank/K")
    begin("K", "fail", token=2, error_class="unknown", code="NO_ANSWER", message="the line broke")
    assert "NO_ANSWER: the line broke" in settle("--db", database, "list").stdout
    begin("K", "decide", decision="succeeded", operator="ann", reason="seen at the bank", result_ref="bank row 5")
    listed = settle("--db", database, "list").stdout
    assert "bank row 5" in listed and "NO_ANSWER" not in listed
    begin("K", "rerun", operator="bob", reason="did not look")
    begin("K", kind="pay", request='{"other": 1}', trigger="manual", owner="bob")
    begin("K", "begin_compensation", operator="cy", reason="wrong customer", lease="1 minute", owner="desk")
    begin("K~undo", "complete", token=1, result_ref="bank row 6")
    answer = settle("--db", database, "--json", "trace", "K")
    assert answer.code == 0
    trace = answer.json()
    assert list(trace) == ["namespace", "key", "status", "events"]
    assert trace["namespace"] == "default" and trace["key"] == "K" and trace["status"] == "succeeded"
    events = trace["events"]
    assert all(list(event) == EVENT_FIELDS for event in events)
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)
    told = [(event["key"], event["event"], event["token"], event["outcome"]) for event in events]
    assert told == [
        ("K", "created", None, None), ("K", "started", 1, None), ("K", "ended", 1, "lost"), ("K", "started", 2, None),
        ("K", "repeated", 3, "in_progress"), ("K", "sent", 2, None), ("K", "ended", 2, "unknown"),
        ("K", "decided", None, None), ("K", "repeated", 4, "replayed"), ("K", "repeated", 5, "conflict"),
        ("K~undo", "created", None, None), ("K~undo", "started", 1, None), ("K~undo", "ended", 1, "succeeded")]
    by = dict(zip(["created", "first", "lost", "takeover", "cron", "sent", "unknown", "decided"], events))
    assert by["takeover"]["trigger"] == "takeover" and by["takeover"]["worker"] == "worker-b"
    assert by["lost"]["detail"]["error"]["detail"] == {"current_token": 2, "holder": "worker-b"}
    assert by["sent"]["detail"] == {"remote_ref": "bank/K"}
    assert by["unknown"]["detail"]["error"]["code"] == "NO_ANSWER"
    assert by["decided"]["operator"] == "ann" and by["decided"]["reason"] == "seen at the bank"
    assert by["decided"]["detail"]["from_status"] == "unknown" and by["decided"]["detail"]["to_status"] == "succeeded"
    assert events[10]["operator"] == "cy" and events[10]["reason"] == "wrong customer"
    assert events[10]["detail"] == {"kind": "refund", "compensates": "K"}

    lines = settle("--db", database, "trace", "K").stdout.splitlines()
    assert lines[0] == "K is succeeded, kind pay"
    assert len(lines) == len(events) + 1
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z  \S", line) for line in lines[1:])
    assert lines[4].endswith("#2 started: lease taken over by worker-b, token 2")
    assert lines[8].endswith("ann decided succeeded: unknown -> succeeded: seen at the bank")
    assert "K~undo created: the compensation of K; for cy: wrong customer" in lines[11]


def test_trace_of_one_that_was_undone_first(begin, settle, database):
    begin("K", "begin_compensation", operator="ann", reason="called off")
    assert begin("K") == "replayed"
    events = settle("--db", database, "--json", "trace", "K").json()["events"]
    assert [(event["event"], event["operator"], event["reason"]) for event in events] == [
        ("undone_first", "ann", "called off")]
    assert "cancelled before it came: its compensation was first; for ann: called off" in settle(
        "--db", database, "trace", "K").stdout


def test_trace_of_a_refusal_that_was_run_again(begin, settle, psql, database):
    psql(database, """select settle.declare_kind('pay', '{"effect": "local", "review": {"rerun_failed": true}}')""")
    begin("K", kind="pay")
    begin("K", "refuse", token=1, code="NO_MONEY", detail='{"balance": null}')
    begin("K", "rerun", operator="ann", reason="money came")
    begin("K", kind="pay")
    begin("K", "refuse", token=2, code="CLOSED")
    events = settle("--db", database, "--json", "trace", "K").json()["events"]
    assert [event["event"] for event in events] == ["created", "started", "ended", "decided", "started", "ended"]
    assert events[2]["detail"]["error"] == {"class": "refused", "code": "NO_MONEY", "message": None,
                                            "detail": {"balance": None}}
    assert events[4]["trigger"] == "manual"
    assert events[5]["detail"]["failure"] == {"code": "CLOSED", "detail": None}


def test_list_filters_and_orders(begin, settle, database):
    for number in range(5):
        begin(f"k{number}", kind="even" if number % 2 == 0 else "odd")
    begin("k1", "complete", token=1, result_ref="ref-1")
    begin("k2", "fail", token=1, error_class="transient", code="TIMEOUT", message="no answer")

    def listed(*arguments):
        answer = settle("--db", database, "list", "--json", *arguments)
        assert answer.code == 0, answer
        return answer.json()

    every = listed()
    assert [one["key"] for one in every] == ["k4", "k3", "k2", "k1", "k0"]
    assert all(list(one) == LIST_FIELDS for one in every)
    assert [one["key"] for one in listed("--kind", "odd")] == ["k3", "k1"]
    assert [one["key"] for one in listed("--status", "running")] == ["k4", "k3", "k0"]
    assert [one["key"] for one in listed("--status", "running", "--kind", "even", "--limit", "1")] == ["k4"]
    done = listed("--status", "succeeded")
    assert [one["result_ref"] for one in done] == ["ref-1"] and INSTANT.match(done[0]["finished_at"])
    assert listed("--status", "pending")[0]["last_error"]["code"] == "TIMEOUT"
    assert listed("--kind", "nothing") == [] and listed("--status", "review") == []

    lines = settle("--db", database, "list").stdout.splitlines()
    assert re.split(r"  +", lines[0]) == ["STATUS", "KEY", "KIND", "ATTEMPTS", "CREATED", "NEXT ATTEMPT", "NOTE"]
    assert len({line.index(word) for line, word in zip(lines[1:], ["even", "odd", "even", "odd", "even"])}) == 1
    assert settle("--db", database, "list", "--status", "review").stdout == "no operations\n"


@pytest.mark.parametrize("arguments, words", [
    (["--status", "finished"], ['status: "finished" is none of pending, running, succeeded']),
    (["--limit", "0"], ["limit: 0 is outside 1 to 1000"]),
    (["--limit", "1001"], ["limit: 1001 is outside 1 to 1000"]),
    (["--limit", "ten"], ["--limit"]),
])
def test_list_refuses_what_it_does_not_know(settle, database, arguments, words):
    answer = settle("--db", database, "list", *arguments)
    assert answer.code == 2 and answer.stdout == "" and answer.stderr.count("\n") == 1
    assert all(word in answer.stderr for word in words), answer


def test_a_viewer_may_read_and_a_stranger_may_not(begin, settle, psql, database):
    begin("K", request='{"n": 1}')
    begin("K", "fail", token=1, error_class="transient", code="TIMEOUT", message="no answer")
    name = database.split("/")[3].split("?")[0]
    psql(database, f"create role {name}_viewer login; grant settle_viewer to {name}_viewer; create role {name}_stranger login")
    viewer = database.replace("user=postgres", f"user={name}_viewer")
    stranger = database.replace("user=postgres", f"user={name}_stranger")
    try:
        shown = settle("--db", viewer, "--json", "show", "K")
        assert shown.code == 0 and shown.json()["digest"].startswith("1:") and shown.json()["last_error"]
        assert settle("--db", viewer, "trace", "K").code == 0
        assert len(settle("--db", viewer, "--json", "list").json()) == 1
        for command in (["show", "K"], ["trace", "K"], ["list"]):
            answer = settle("--db", stranger, *command)
            assert answer.code == 77 and answer.stderr.startswith("settle: PERMISSION_DENIED"), answer
    finally:
        psql(database, f"drop role {name}_viewer, {name}_stranger")
