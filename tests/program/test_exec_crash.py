"""settle exec when its processes are killed or frozen: one effect, one answer, nothing stuck past its lease."""

import concurrent.futures
import contextlib
import os
import signal

import pytest

from execution import STEP, Exec, command_of, guard_of, lines, pid_in, read, runs, touch, wait_for

LEASE = "2s"

# The command under test: it tells each moment, has one effect (which a repeat cannot double where the key is honoured: a
# directory of the key's name), and ends with an answer. It stays at the moment that $1/hold names.
SCRIPT = f"""
at() {{
    echo $2 >> $1/moments
    while [ -e $1/hold ] && [ "$(cat $1/hold)" = $2 ]; do {STEP}; done
}}
echo $$ >> $1/pid
at $1 1
at $1 2
echo x >> $1/effect
at $1 effect
mkdir -p $1/applied/$SETTLE_KEY
at $1 applied
echo answer
at $1 answered
at $1 end
"""

HELD = ["1", "2", "effect", "applied", "answered", "end"]  # here the command stays until it is killed
PASSING = ["begun", "guarded", "started", "ended"]         # these pass by, and the kill may come too late
AFTER_THE_EFFECT = HELD[2:]


@pytest.fixture(name="run")
def _run(settle, database, tmp_path):
    return Exec(settle, database, tmp_path)


def reached(moment, directory, process, status):
    """Whether the command has come so far."""
    if moment == "begun":
        return status() == "running"
    if moment == "guarded":
        return guard_of(process.pid) is not None
    if moment == "started":
        return command_of(process.pid) is not None
    if moment == "ended":
        pid = read(directory + "/pid").split()
        return bool(pid) and not runs(pid[0])
    return moment in lines(directory + "/moments")


def victim_of(victim, process):
    return {"program": lambda: process.pid, "guard": lambda: guard_of(process.pid),
            "command": lambda: command_of(process.pid)}[victim]()


def kill_at(execs, moment, victim, options, status):
    """Starts an operation, kills one of its processes at a moment, and returns how the program ended."""
    if moment in HELD:
        with open(execs.file("hold"), "w", encoding="utf-8") as hold:
            hold.write(moment)
    process = execs.spawn("k", SCRIPT, "--lease", LEASE, *options)
    wait_for(lambda: reached(moment, execs.directory, process, status) or process.poll() is not None,
             f"the moment {moment}")
    found = wait_for(lambda: process.poll() is not None or victim_of(victim, process), f"the {victim}")
    if found is True:
        assert moment in PASSING, moment
    else:
        with contextlib.suppress(*([ProcessLookupError] if moment in PASSING else [])):
            os.kill(found, signal.SIGKILL)
    ended = execs.settle.finish(process)
    if moment in HELD:
        os.unlink(execs.file("hold"))
    return ended


def check_opaque(execs, moment, victim, ended):
    """At most one effect; the answer, or 105 for ever."""
    again = execs.after_lease("k", SCRIPT)
    effects = len(lines(execs.file("effect")))
    assert again.code in ((105,) if moment in HELD else (0, 105)), (moment, again)
    if moment in HELD:
        assert effects == (1 if moment in AFTER_THE_EFFECT else 0), (moment, effects)
    if again.code == 0:
        assert effects == 1 and again.stdout == "answer\n", (moment, again)
    if victim != "program":
        assert ended.code == again.code, (moment, ended, again)
    once_more = execs("k", SCRIPT)
    assert (once_more.code, once_more.stdout) == (again.code, again.stdout), moment
    assert len(lines(execs.file("effect"))) == effects <= 1, moment


def check_repeatable(execs, moment, victim, ended):
    """Run again where it was cut short: one effect under the key, and one answer."""
    if victim != "program":
        assert ended.code in ((137,) if moment in HELD else (0, 137)), (moment, ended)
    again = execs.after_lease("k", SCRIPT, "--repeatable")
    assert (again.code, again.stdout) == (0, "answer\n"), (moment, again)
    assert os.listdir(execs.file("applied/" + execs.namespace)) == ["k"], moment
    runs_before = len(lines(execs.file("pid")))
    if moment in HELD:
        assert runs_before == 2, moment
    once_more = execs("k", SCRIPT, "--repeatable")
    assert (once_more.code, once_more.stdout) == (0, "answer\n"), moment
    assert len(lines(execs.file("pid"))) == runs_before <= 2, moment


@pytest.mark.parametrize("mode", ["opaque", "repeatable"])
@pytest.mark.parametrize("victim", ["program", "guard", "command"])
def test_killed_at_any_moment(settle, database, tmp_path, connect, mode, victim):
    options = ["--repeatable"] if mode == "repeatable" else []
    check = check_repeatable if mode == "repeatable" else check_opaque

    def one(moment):
        directory = tmp_path / moment
        directory.mkdir()
        execs = Exec(settle, database, directory)
        # Each in a namespace of its own, so that all moments can pass at the same time.
        execs.namespace = moment
        watch = connect(database)
        watch.autocommit = True

        def status():
            with watch.cursor() as cursor:
                cursor.execute("select status from settle.operations where namespace = %s", [moment])
                row = cursor.fetchone()
            return row and row[0]
        ended = kill_at(execs, moment, victim, options, status)
        for pid in read(execs.file("pid")).split():
            wait_for(lambda number=pid: not runs(number), f"the end of the command killed at {moment}")
        check(execs, moment, victim, ended)

    with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
        for future in [pool.submit(one, moment) for moment in HELD + PASSING]:
            future.result()


def test_a_frozen_holder_is_replaced_and_changes_nothing_when_it_wakes(run):
    first = run.spawn("k", "echo $$ > $1/first; echo from the first; sleep 1000",  # the thing under test: a long command
                      "--repeatable", "--lease", LEASE)
    command = pid_in(run.file("first"))
    os.kill(first.pid, signal.SIGSTOP)
    # Its guard is not frozen with it, and ends the command before anybody else can begin.
    overlap = f"grep -q . /proc/{command}/cmdline && echo overlap; "  # a zombie's is empty
    second = run.after_lease("k", overlap + "echo from the second", "--repeatable")
    assert (second.code, second.stdout) == (0, "from the second\n")
    os.kill(first.pid, signal.SIGCONT)
    answer = run.settle.finish(first)
    assert answer.code == 107 and "STALE_TOKEN: k: the lease was lost" in answer.stderr
    assert not runs(command)
    shown = run.show("k")
    assert shown["status"] == "succeeded" and shown["result"]["stdout"] == "from the second\n"
    assert [execution["outcome"] for execution in shown["executions"]] == ["lost", "succeeded"]
    assert run("k", "echo never").stdout == "from the second\n"


def test_a_frozen_holder_without_the_flag_leaves_unknown(run):
    first = run.spawn("k", "echo x >> $1/effect; echo $$ > $1/first; sleep 1000",  # the thing under test
                      "--lease", LEASE)
    command = pid_in(run.file("first"))
    os.kill(first.pid, signal.SIGSTOP)
    second = run.after_lease("k", "echo x >> $1/effect")
    assert second.code == 105 and "settle review decide k" in second.stderr
    assert not runs(command)
    os.kill(first.pid, signal.SIGCONT)
    assert run.settle.finish(first).code == 107
    assert lines(run.file("effect")) == ["x"]
    assert run("k", "echo x >> $1/effect").code == 105
    decided = run.settle("--db", run.database, "review", "decide", "k", "--as", "succeeded", "--operator", "ann",
                         "--reason", "seen")
    assert decided.code == 0, decided
    assert run("k", "echo x >> $1/effect").code == 0
    assert lines(run.file("effect")) == ["x"]


def test_a_holder_that_wakes_in_time_still_reports(run):
    """Frozen while its command ends by itself: nobody has taken over, so the answer counts."""
    first = run.spawn("k", f"echo $$ > $1/first; while ! [ -e $1/go ]; do {STEP}; done; echo fine",
                      "--repeatable", "--lease", "20s")
    command = pid_in(run.file("first"))
    guard = guard_of(first.pid)
    os.kill(first.pid, signal.SIGSTOP)
    touch(run.file("go"))
    wait_for(lambda: not runs(command) and not runs(guard), "the command's and the guard's end")
    # Until the program has taken note of it, its number stays taken: a signal to its group can meet no stranger.
    state, parent = read(f"/proc/{command}/stat").rpartition(")")[2].split()[:2]
    assert state == "Z" and int(parent) == first.pid
    os.kill(first.pid, signal.SIGCONT)
    answer = run.settle.finish(first)
    assert (answer.code, answer.stdout) == (0, "fine\n")


@pytest.mark.parametrize("victim", ["program", "guard", "command"])
def test_no_grandchild_survives(run, victim):
    process = run.spawn("k", "sh -c 'echo $$ > $0/grandchild; exec sleep 1000' $1 & "  # the thing under test
                             "echo $$ > $1/first; wait", "--lease", "20s")
    command, grandchild = pid_in(run.file("first")), pid_in(run.file("grandchild"))
    os.kill(victim_of(victim, process), signal.SIGKILL)
    run.settle.finish(process)
    for pid in (command, grandchild):
        wait_for(lambda number=pid: not runs(number), "the end of the whole group")


def test_a_lease_is_held_as_long_as_the_command_runs(run, psql, database):
    """Well past the lease's first end, it is still the holder's."""
    process = run.spawn("k", f"echo $$ > $1/first; while ! [ -e $1/go ]; do {STEP}; done; echo done", "--lease", LEASE)
    pid_in(run.file("first"))
    seconds = "select extract(epoch from clock_timestamp() - started_at) > 5 from settle.executions where key = 'k'"
    wait_for(lambda: psql(database, seconds) == "t", "five seconds of a lease of two")
    assert run("k", "echo never").code == 104
    touch(run.file("go"))
    answer = run.settle.finish(process)
    assert (answer.code, answer.stdout) == (0, "done\n")
    assert run.show("k")["attempt_count"] == 1
