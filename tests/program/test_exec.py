"""settle exec: a command, once under a key."""

import json
import os
import re
import subprocess

import pytest

from conftest import PROGRAM
from execution import STEP, Exec, lines, pid_in, read, touch, wait_for

RESULT = {"stderr": "err\n", "stdout": "out\n", "encoding": "utf8", "exit_status": 0}


@pytest.fixture(name="run")
def _run(settle, database, tmp_path):
    return Exec(settle, database, tmp_path)


def test_a_repeat_replays_and_runs_nothing(run):
    script = "echo x >> $1/effect; echo out; echo err >&2"
    first = run("k", script)
    assert (first.code, first.stdout, first.stderr) == (0, "out\n", "err\n")
    again = run("k", script)
    assert (again.code, again.stdout, again.stderr) == (0, "out\n", "err\n")
    other_command = run("k", "echo another >> $1/effect")
    assert (other_command.code, other_command.stdout) == (0, "out\n")
    assert lines(run.file("effect")) == ["x"]
    shown = run.show("k")
    assert shown["status"] == "succeeded" and shown["result"] == RESULT and shown["attempt_count"] == 1
    assert shown["executions"][0]["outcome"] == "succeeded"


def test_a_refusal_is_final_and_replayed(run):
    script = "echo x >> $1/effect; echo no >&2; exit 3"
    for _ in range(2):
        answer = run("k", script)
        assert (answer.code, answer.stdout, answer.stderr) == (3, "", "no\n")
    assert lines(run.file("effect")) == ["x"]
    shown = run.show("k")
    assert shown["status"] == "failed" and shown["failure"]["code"] == "EXIT_3"
    assert shown["failure"]["detail"]["exit_status"] == 3


def test_another_request_or_kind_is_a_conflict(run):
    assert run("k", "exit 0", "--request", '{"amount": 100}').code == 0
    assert run("k", "exit 0", "--request", '{"amount": 1e2}').code == 0
    other = run("k", "echo x > $1/effect", "--request", '{"amount": 101}')
    assert other.code == 103 and other.stdout == ""
    assert re.fullmatch(r"settle: IDEMPOTENCY_PARAMETER_CONFLICT: k .* at /amount; .*\n", other.stderr)
    kind = run("k", "echo x > $1/effect", "--request", '{"amount": 100}', "--kind", "other")
    assert kind.code == 103 and "in the kind (exec, not other)" in kind.stderr
    document = run("k", "exit 0", "--request", '{"amount": 101}', "--json")
    assert document.code == 103
    assert document.json()["outcome"] == "conflict"
    assert document.json()["failure"]["detail"]["pointers"] == ["/amount"]
    assert document.json()["error"]["code"] == "IDEMPOTENCY_PARAMETER_CONFLICT"
    assert not os.path.exists(run.file("effect"))


def test_fifty_at_once_have_one_effect(run, settle):
    script = "echo x >> $1/effect; echo done; sleep 1"  # the thing under test: a command that takes a while
    ready, go = os.pipe()
    processes = []
    for _ in range(50):
        # Each waits for the pipe's end, which comes to all at once.
        processes.append(subprocess.Popen(["sh", "-c", 'cat <&3 >/dev/null; exec 3<&-; exec "$@"', "sh", PROGRAM,
                                           *run.arguments("k", script)],
                                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                          text=True, env=settle.environment, pass_fds=[ready],
                                          preexec_fn=lambda: os.dup2(ready, 3)))
    os.close(ready)
    os.close(go)
    answers = [settle.finish(process) for process in processes]
    assert lines(run.file("effect")) == ["x"]
    codes = sorted(answer.code for answer in answers)
    assert set(codes) <= {0, 104} and codes.count(0) >= 1, codes
    assert all(answer.stdout == "done\n" for answer in answers if answer.code == 0)
    assert all("OPERATION_IN_PROGRESS: k " in answer.stderr for answer in answers if answer.code == 104)
    again = run("k", script)
    assert (again.code, again.stdout) == (0, "done\n")
    assert run("k", script, "--request", '{"another": 1}').code == 103
    assert lines(run.file("effect")) == ["x"]


def test_output_is_kept_byte_for_byte(run):
    every = "printf '" + "".join(f"\\{byte:03o}" for byte in range(256)) + "'"
    cases = {"bytes": every, "nul": "printf 'a\\000b'", "utf8": "printf 'ä€\\n'", "stderr": every + " >&2",
             "no newline": "printf x", "nothing": ":", "escapes": "printf '\\033[2J\\r\\n\\\\n\"'"}
    for key, script in cases.items():
        first = run.bytes(key, script)
        assert first[0] == 0
        assert run.bytes(key, script) == first, key
    assert run.bytes("bytes", every)[1] == bytes(range(256))
    assert run.show("bytes")["result"]["encoding"] == "base64"
    assert run.show("utf8")["result"] == {"stderr": "", "stdout": "ä€\n", "encoding": "utf8", "exit_status": 0}


def test_long_output_passes_whole_and_its_end_is_kept(run):
    script = "head -c 1048576 /dev/zero | tr '\\0' x; echo end"
    status, out, _ = run.bytes("k", script)
    assert status == 0 and out == b"x" * 1048576 + b"end\n"
    status, kept, _ = run.bytes("k", script)
    assert status == 0 and len(kept) <= 65536
    mark, _, rest = kept.partition(b"\n")
    missing = int(re.fullmatch(rb"\[settle: ([0-9]+) earlier bytes not kept\]", mark)[1])
    assert out[missing:] == rest


def test_the_largest_kept_output_can_be_stored(run):
    # Each byte becomes six in JSON, on both streams.
    script = "head -c 65536 /dev/zero | tr '\\0' '\\001' | tee /dev/stderr; exit 3"
    assert run.bytes("k", script) == run.bytes("k", script) == (3, b"\1" * 65536, b"\1" * 65536)
    assert run.show("k")["failure"]["detail"]["encoding"] == "utf8"


def test_output_comes_while_the_command_runs(run):
    process = run.spawn("k", f"echo first; while ! [ -e $1/go ]; do {STEP}; done; echo last")
    assert process.stdout.readline() == "first\n"
    touch(run.file("go"))
    assert run.settle.finish(process).stdout == "last\n"


def test_a_reader_that_went_away_does_not_change_the_answer(run):
    process = run.spawn("k", f"while ! [ -e $1/go ]; do {STEP}; done; seq 100000; echo end; exit 4")
    process.stdout.close()
    touch(run.file("go"))
    assert process.wait(timeout=60) == 4
    process.stdout = open(os.devnull, encoding="utf-8")  # for the fixture, which closes it
    assert run("k", "").stdout.endswith("100000\nend\n")


def test_standard_input_is_the_commands(run):
    answer = run("k", "tr a-z A-Z", stdin="hello\n")
    assert (answer.code, answer.stdout) == (0, "HELLO\n")


def test_the_command_knows_its_execution(run, settle, database):
    script = "printf '%s ' $SETTLE_KEY $SETTLE_ATTEMPT $SETTLE_TOKEN $SETTLE_DEADLINE"
    key, attempt, token, deadline = run("k", script).stdout.split()
    assert (key, attempt, token) == ("k", "1", "1")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", deadline)
    elsewhere = settle("--db", database, "--namespace", "tenant", "exec", "--key", "k", "--", "sh", "-c", script,
                       env={"SETTLE_KEY": "inherited", "SETTLE_ATTEMPT": "99"})
    assert elsewhere.stdout.split()[:2] == ["tenant/k", "1"]
    assert run("r", "exit 1").code == 1
    rerun = run("r", script, "--rerun", "--operator", "ann", "--reason", "again")
    assert rerun.stdout.split()[:3] == ["r", "2", "2"]


def test_the_deadline_is_the_time_limit_where_there_is_one(run, psql, database):
    answer = run("k", "echo $SETTLE_DEADLINE", "--max-time", "2h")
    ahead = psql(database, f"select extract(epoch from '{answer.stdout.strip()}'::timestamptz - clock_timestamp())")
    assert 7200 - 60 < float(ahead) <= 7200


def test_a_command_that_cannot_run_begins_nothing(run, settle, database):
    def execute(*command):
        return settle("--db", database, "exec", "--key", "k", "--", *command)

    plain = run.file("plain")
    touch(plain)
    os.chmod(plain, 0o644)
    absent = execute("no-such-command")
    assert absent.code == 127 and absent.stderr == "settle: no-such-command: command not found in PATH; nothing was begun\n"
    assert execute(run.file("none")).code == 127
    assert execute(plain).code == 126
    assert execute(run.directory).code == 126
    hostile = execute("bad\n\x1b[2J")
    assert hostile.code == 127 and hostile.stderr.count("\n") == 1 and "\x1b" not in hostile.stderr
    assert settle("--db", database, "--json", "exec", "--key", "k", "--", "no-such").json()["error"]["message"]
    assert settle("--db", database, "show", "k").code == 108


def test_what_fails_only_when_started_leaves_it_to_be_repeated(run, settle, database):
    with open(run.file("script"), "w", encoding="utf-8") as script:
        script.write("#!/no/such/interpreter\n")
    os.chmod(run.file("script"), 0o755)
    answer = settle("--db", database, "exec", "--key", "k", "--", run.file("script"))
    assert answer.code == 127 and "was not started" in answer.stderr and answer.stderr.count("\n") == 1
    assert run.show("k")["status"] == "pending"
    assert run("k", "echo now").stdout == "now\n"


@pytest.mark.parametrize("options, field", [
    (["--lease", "soon"], "--lease"), (["--lease", "999ms"], "--lease"), (["--lease", "11000d"], "--lease"),
    (["--max-time", "0s"], "--max-time"), (["--max-time", "1"], "--max-time"),
    (["--request", "{"], "--request"), (["--request", '{"a":1,"a":2}'], "--request"),
    (["--request", '{"a":"\\u0000"}'], "--request"), (["--rerun"], "--operator"),
    (["--rerun", "--operator", "ann"], "--reason"), (["--operator", "ann"], "--operator"),
    (["--kind", "x" * 64], "kind"), (["--trigger", "magic"], "trigger")])
def test_bad_input_is_named_and_changes_nothing(run, options, field):
    answer = run("k", "touch $1/effect", *options)
    assert answer.code == 2 and answer.stderr.count("\n") == 1
    assert answer.stderr.startswith("settle: INVALID_ARGUMENT: ") and field in answer.stderr, answer
    assert not os.path.exists(run.file("effect"))
    assert run.settle("--db", run.database, "show", "k").code == 108


@pytest.mark.parametrize("key", ["", " ", "a ", "a\nb", "\x1b[2J", "x" * 256, "k~undo"])
def test_bad_keys_are_refused_on_one_line(run, key):
    answer = run(key, "touch $1/effect")
    assert answer.code == 2 and answer.stderr.count("\n") == 1 and "\x1b" not in answer.stderr
    assert not os.path.exists(run.file("effect"))


def test_hostile_keys_stay_on_their_line(run):
    key = "it's $(touch x) ‮;\\"
    assert run(key, "kill -KILL $$").code == 105
    answer = run(key, "exit 0")
    assert answer.code == 105 and answer.stderr.count("\n") == 1 and "‮" not in answer.stderr
    assert "review decide $'it\\'s $(touch x) \\u202e" in answer.stderr


def test_a_killed_command_is_unknown_and_never_run_again(run):
    first = run("k", "echo x >> $1/effect; echo last words >&2; kill -KILL $$")
    assert first.code == 105
    assert "killed by SIGKILL" in first.stderr and "settle review decide k" in first.stderr
    for _ in range(2):
        again = run("k", "echo x >> $1/effect")
        assert again.code == 105 and "settle review decide k" in again.stderr
    assert lines(run.file("effect")) == ["x"]
    error = run.show("k")["executions"][0]["error"]
    assert error["code"] == "KILLED_SIGKILL" and "last words" in error["message"]


def test_a_killed_repeatable_command_may_run_again(run):
    first = run("k", "kill -SEGV $$", "--repeatable")
    assert first.code == 139 and "a repeat may run it again" in first.stderr
    again = run.after_lease("k", "echo done", "--repeatable")
    assert (again.code, again.stdout) == (0, "done\n")
    assert run.show("k")["attempt_count"] == 2


def test_a_time_limit_stops_the_command(run):
    script = "trap 'exit 0' TERM; echo x >> $1/effect; sleep 1000 & wait"  # the thing under test: a hanging command
    first = run("k", script, "--max-time", "200ms")
    assert first.code == 105 and "time limit of 200ms" in first.stderr
    assert run("k", script).code == 105
    assert run("r", "sleep 1000", "--max-time", "200ms", "--repeatable").code == 143  # the thing under test
    assert run.show("r")["status"] == "pending"
    assert lines(run.file("effect")) == ["x"]


def test_a_signal_is_passed_on_and_what_follows_is_not_an_answer(run):
    script = "trap 'exit 9' TERM; echo $$ > $1/pid; while :; do " + STEP + "; done"
    for key, options, code in [("k", [], 105), ("r", ["--repeatable"], 143)]:
        process = run.spawn(key, script, *options)
        pid_in(run.file("pid"))
        process.terminate()
        answer = run.settle.finish(process)
        assert answer.code == code and "interrupted by SIGTERM" in answer.stderr
        os.unlink(run.file("pid"))
    assert run.show("k")["status"] == "unknown" and run.show("r")["status"] == "pending"


def test_a_command_that_ends_well_after_a_signal_has_succeeded(run):
    process = run.spawn("k", "trap 'echo tidy; exit 0' TERM; echo $$ > $1/pid; while :; do " + STEP + "; done")
    pid_in(run.file("pid"))
    process.terminate()
    answer = run.settle.finish(process)
    assert (answer.code, answer.stdout) == (0, "tidy\n")
    assert run.show("k")["status"] == "succeeded"


def test_an_operator_may_have_a_failed_one_run_again_but_no_success(run):
    assert run("k", "exit 5").code == 5
    rerun = ["--rerun", "--operator", "ann", "--reason", "input corrected"]
    answer = run("k", "echo fine", *rerun)
    assert (answer.code, answer.stdout) == (0, "fine\n")
    executions = run.show("k")["executions"]
    assert [e["outcome"] for e in executions] == ["refused", "succeeded"]
    assert executions[1]["trigger"] == "manual" and executions[1]["operator"] == "ann"
    again = run("k", "echo never", *rerun)
    assert (again.code, again.stdout) == (0, "fine\n")


def test_answers_that_no_command_gave(run, psql, database):
    psql(database, """
        do $$ begin
            perform settle.complete('done', (settle.begin_operation('done', 'exec')).token, result => '{"a": 1}');
            perform settle.refuse('refused', (settle.begin_operation('refused', 'exec')).token, 'DECLINED');
            perform settle.begin_compensation('late', 'ann', 'came first');
        end $$""")
    done = run("done", "echo never")
    assert (done.code, done.stdout) == (0, "")
    refused = run("refused", "echo never")
    assert refused.code == 1 and "refused with DECLINED" in refused.stderr
    late = run("late", "echo never")
    assert late.code == 1 and "cancelled with UNDONE_FIRST" in late.stderr
    assert run("refused", "echo never", "--json").json()["exit_status"] == 1


def test_a_declared_kinds_own_effect_wins(run, psql, database):
    psql(database, """select settle.declare_kind('pay', '{"effect": "opaque"}');
                      select settle.declare_kind('sync', '{"effect": "keyed", "key_window": "forever"}')""")
    assert run("k", "kill -KILL $$", "--kind", "pay", "--repeatable").code == 105
    assert run("r", "kill -KILL $$", "--kind", "sync").code == 137


def test_json_is_one_document_and_the_first_answer_is_the_replays(run):
    script = "echo out; echo err >&2; exit 3"
    first = run("k", script, "--json")
    assert first.code == 3 and sorted(first.stderr.splitlines()) == ["err", "out"]
    document = first.json()
    assert {name: document[name] for name in ("outcome", "key", "namespace", "status", "token", "execution_id",
                                              "exit_status", "result", "error")} == {
        "outcome": "refused", "key": "k", "namespace": "default", "status": "failed", "token": 1,
        "execution_id": "k#1", "exit_status": 3, "result": None, "error": None}
    again = run("k", script, "--json")
    assert again.code == 3 and again.json()["outcome"] == "replayed"

    def failure_text(answer):
        return re.search(r'"failure":(\{.*?\}\}),"holder"', answer.stdout)[1]
    assert failure_text(first) == failure_text(again)
    assert json.loads(failure_text(first))["detail"]["stdout"] == "out\n"
    unknown = run("u", "kill -KILL $$", "--json")
    assert unknown.code == 105 and unknown.json()["status"] == "unknown"
    assert unknown.json()["error"]["code"] == "OUTCOME_UNKNOWN"


def test_a_running_one_is_in_progress(run):
    process = run.spawn("k", f"echo $$ > $1/pid; while ! [ -e $1/go ]; do {STEP}; done")
    pid_in(run.file("pid"))
    answer = run("k", "exit 0", "--json")
    assert answer.code == 104
    document = answer.json()
    assert document["outcome"] == "in_progress" and document["holder"] and document["lease_until"].endswith("Z")
    assert document["holder"] in run("k", "exit 0").stderr
    touch(run.file("go"))
    assert run.settle.finish(process).code == 0


def test_a_review_is_frozen(run, psql, database):
    assert run("k", "kill -KILL $$").code == 105
    psql(database, "select settle.sweep()")
    answer = run("k", "touch $1/effect")
    assert answer.code == 106 and "OPERATION_FROZEN: k is in review" in answer.stderr
    assert not os.path.exists(run.file("effect"))


def test_nothing_in_the_background_outlives_the_command(run):
    answer = run("k", "sleep 1000 & echo $! > $1/child; "  # the thing under test: one that stays behind
                      "setsid sleep 1000 & echo $! > $1/escaped; exit 0")  # the thing under test
    assert answer.code == 0
    for name in ("child", "escaped"):
        pid = int(read(run.file(name)))
        wait_for(lambda number=pid: not os.path.exists(f"/proc/{number}"), f"the end of {name}")


def test_no_database_is_one_line(settle):
    answer = settle("--db", "postgresql:///x?host=/nonexistent", "exec", "--key", "k", "--", "true")
    assert answer.code == 69 and answer.stderr.count("\n") == 1
