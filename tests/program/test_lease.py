"""settle lease: acquire, renew, release and show for people and scripts, and hold for commands."""

import os
import re
import signal

import pytest

from execution import STEP, Exec, children_of, guard_of, pid_in, read, runs, touch, wait_for
from private_server import kill_server, up

INSTANT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"


@pytest.fixture(name="lease")
def _lease(settle, database):
    def call(action, *arguments, **named):
        return settle("--db", database, "lease", action, *arguments, **named)
    return call


@pytest.fixture(name="files")
def _files(settle, database, tmp_path):
    return Exec(settle, database, tmp_path)


@pytest.fixture(name="hold")
def _hold(settle, database, files):
    """Starts `lease hold r`, with $1 as the directory of the files."""
    def start(script, *options):
        return settle.spawn("--db", database, "lease", "hold", "r", *options, "--", "sh", "-c", script, "sh",
                            files.directory)
    return start


def test_one_holder_at_a_time_and_tokens_that_grow(lease):
    first = lease("acquire", "r", "--holder", "ann", "--ttl", "5m")
    assert (first.code, first.stdout) == (0, "1\n")
    held = lease("acquire", "r", "--holder", "bob", "--ttl", "5m")
    assert held.code == 1 and held.stdout == ""
    assert re.fullmatch(rf"settle: r is not free: ann holds it under token 1 until {INSTANT}\n", held.stderr)
    assert lease("acquire", "other", "--holder", "bob").stdout == "1\n"
    assert lease("release", "r", "--holder", "ann", "--token", "1").code == 0
    assert lease("acquire", "r", "--holder", "bob", "--ttl", "5m").stdout == "2\n"


def test_renewing_and_releasing_need_the_current_grant(lease):
    assert lease("acquire", "r", "--holder", "ann", "--ttl", "5m").code == 0
    renewed = lease("renew", "r", "--holder", "ann", "--token", "1", "--ttl", "10m")
    assert renewed.code == 0 and re.fullmatch(rf"renewed until {INSTANT}\n", renewed.stdout)
    for action in ("renew", "release"):
        for holder, token in [("bob", "1"), ("ann", "2"), ("bob", "7")]:
            lost = lease(action, "r", "--holder", holder, "--token", token)
            assert lost.code == 107 and lost.stderr.count("\n") == 1
            assert "STALE_TOKEN: r: this lease is lost; its last grant was: ann holds it under token 1" in lost.stderr
    never = lease("renew", "never", "--holder", "ann", "--token", "1")
    assert never.code == 107 and "never granted" in never.stderr
    assert lease("release", "r", "--holder", "ann", "--token", "1").stdout == "released\n"
    assert lease("renew", "r", "--holder", "ann", "--token", "1").code == 107


def test_a_lapsed_lease_is_lost_and_free(lease, wait_until):
    assert lease("acquire", "r", "--holder", "ann", "--ttl", "50ms").code == 0
    taken = wait_until(lambda: (lambda a: a.code == 0 and a)(lease("acquire", "r", "--holder", "bob")), "the lapse")
    assert taken.stdout == "2\n"
    assert lease("renew", "r", "--holder", "ann", "--token", "1").code == 107


def test_show_says_whose_it_is(lease, wait_until):
    assert lease("show", "r").code == 108
    lease("acquire", "r", "--holder", "ann", "--ttl", "5m")
    assert re.fullmatch(rf"r: held by ann under token 1 until {INSTANT}\n", lease("show", "r").stdout)
    lease("release", "r", "--holder", "ann", "--token", "1")
    assert re.fullmatch(rf"r: free; last held by ann under token 1, released at {INSTANT}\n", lease("show", "r").stdout)
    lease("acquire", "s", "--holder", "ann", "--ttl", "1ms")
    wait_until(lambda: "lapsed at" in lease("show", "s").stdout, "the lapse")


def test_json(lease, settle, database):
    granted = lease("acquire", "r", "--holder", "ann", "--ttl", "5m", "--json").json()
    assert {**granted, "lease_until": ""} == {"outcome": "granted", "namespace": "default", "resource": "r", "token": 1,
                                              "holder": "ann", "lease_until": ""}
    assert re.fullmatch(INSTANT, granted["lease_until"])
    assert lease("acquire", "r", "--holder", "bob", "--json").json()["outcome"] == "held"
    assert lease("renew", "r", "--holder", "ann", "--token", "1", "--json").json()["outcome"] == "renewed"
    shown = lease("show", "r", "--json").json()
    assert (shown["namespace"], shown["resource"], shown["token"], shown["holder"], shown["state"]) == (
        "default", "r", 1, "ann", "live")
    assert re.fullmatch(INSTANT, shown["lease_until"]) and shown["released_at"] is None
    assert lease("release", "r", "--holder", "ann", "--token", "1", "--json").json()["outcome"] == "released"
    assert lease("renew", "r", "--holder", "ann", "--token", "1", "--json").json()["outcome"] == "lost"
    assert lease("show", "none", "--json").json()["error"]["code"] == "NOT_FOUND"
    held = settle("--db", database, "--json", "lease", "hold", "r", "--", "sh", "-c", "echo out; exit 4")
    assert held.code == 4 and held.stderr == "out\n"
    document = held.json()
    assert (document["outcome"], document["token"], document["exit_status"]) == ("released", 2, 4)


def test_namespaces_do_not_share_resources(settle, database):
    for namespace in ("one", "two"):
        assert settle("--db", database, "--namespace", namespace, "lease", "acquire", "r", "--holder", "ann").stdout == "1\n"


@pytest.mark.parametrize("arguments, field", [
    (["acquire", "r"], "--holder"), (["acquire", "", "--holder", "ann"], "resource"),
    (["acquire", "r", "--holder", "ann", "--ttl", "0s"], "--ttl"), (["renew", "r", "--holder", "ann"], "--token"),
    (["renew", "r", "--holder", "ann", "--token", "one"], "--token"),
    (["release", "r", "--holder", "ann", "--token", "0"], "--token"),
    (["acquire", "r", "--holder", "a\nb"], "holder"), (["acquire", "x" * 256, "--holder", "ann"], "resource"),
    (["hold", "r", "--ttl", "999ms", "--", "true"], "--ttl")])
def test_bad_input_is_named(lease, arguments, field):
    answer = lease(*arguments)
    assert answer.code == 2 and answer.stderr.count("\n") == 1
    assert answer.stderr.startswith("settle: INVALID_ARGUMENT: " + field), answer
    assert lease("show", "r").code == 108


def test_hold_runs_a_command_under_the_lease(hold, lease, files, settle):
    process = hold(f"echo $SETTLE_RESOURCE $SETTLE_TOKEN; echo $$ > $1/pid; while ! [ -e $1/go ]; do {STEP}; done; exit 3")
    pid_in(files.file("pid"))
    assert "r: held by" in lease("show", "r").stdout
    other = lease("hold", "r", "--", "sh", "-c", "touch $1/effect", "sh", files.directory)
    assert other.code == 1 and "r is not free" in other.stderr and "nothing was run" in other.stderr
    assert not os.path.exists(files.file("effect"))
    touch(files.file("go"))
    answer = settle.finish(process)
    assert (answer.code, answer.stdout) == (3, "r 1\n")
    assert "released at" in lease("show", "r").stdout
    assert lease("hold", "r", "--holder", "ann", "--", "sh", "-c", "echo $SETTLE_TOKEN").stdout == "2\n"
    assert "last held by ann" in lease("show", "r").stdout


def test_hold_renews_while_the_command_runs(hold, lease, files, settle, psql, database):
    process = hold(f"echo $$ > $1/pid; while ! [ -e $1/go ]; do {STEP}; done", "--ttl", "1s")
    pid_in(files.file("pid"))
    held = "select clock_timestamp() - granted_at > interval '3 s' and state = 'live' from settle.leases"
    wait_for(lambda: psql(database, held) == "t", "three seconds of a lease of one")
    assert lease("acquire", "r", "--holder", "bob").code == 1
    touch(files.file("go"))
    assert settle.finish(process).code == 0


def test_hold_does_not_wait_for_its_background(lease):
    answer = lease("hold", "r", "--", "sh", "-c", "sleep 1000 & exit 0")  # the thing under test: one that stays behind
    assert answer.code == 0
    assert "released at" in lease("show", "r").stdout


@pytest.mark.parametrize("command, code", [("kill -KILL $$", 137), ("exit 0", 0), ("exit 255", 255)])
def test_hold_hands_on_how_the_command_ended(lease, command, code):
    assert lease("hold", "r", "--", "sh", "-c", command).code == code
    assert "released at" in lease("show", "r").stdout


def test_hold_of_no_command(lease, files):
    assert lease("hold", "r", "--", "no-such-command").code == 127
    assert lease("hold", "r", "--", files.directory).code == 126
    assert lease("show", "r").code == 108


def test_a_frozen_hold_ends_its_command_before_the_next(hold, lease, files, settle):
    process = hold("echo $$ > $1/pid; exec sleep 1000", "--ttl", "2s")  # the thing under test: a long command
    command = pid_in(files.file("pid"))
    os.kill(process.pid, signal.SIGSTOP)
    overlap = f"grep -q . /proc/{command}/cmdline && echo overlap; echo $SETTLE_TOKEN"  # a zombie's is empty
    second = wait_for(lambda: (lambda a: a.code != 1 and a)(lease("hold", "r", "--", "sh", "-c", overlap)), "the lapse")
    assert (second.code, second.stdout) == (0, "2\n")
    os.kill(process.pid, signal.SIGCONT)
    answer = settle.finish(process)
    assert answer.code == 107 and "STALE_TOKEN: r: the lease was lost" in answer.stderr
    assert not runs(command)


def test_a_killed_hold_or_guard_takes_the_command_along(hold, files, settle):
    for victim in ("program", "guard"):
        process = hold("echo $$ > $1/pid; exec sleep 1000", "--ttl", "1s")  # the thing under test: a long command
        command = pid_in(files.file("pid"))
        os.kill(process.pid if victim == "program" else guard_of(process.pid), signal.SIGKILL)
        settle.finish(process)
        wait_for(lambda number=command: not runs(number), "the command's end")
        os.unlink(files.file("pid"))
        wait_for(lambda: "r: held by" not in settle("--db", files.database, "lease", "show", "r").stdout, "the lapse")


def test_signals_reach_the_command(hold, files, settle, lease):
    process = hold(f"trap 'exit 9' TERM; echo $$ > $1/pid; while :; do {STEP}; done")
    pid_in(files.file("pid"))
    process.terminate()
    assert settle.finish(process).code == 9
    assert "released at" in lease("show", "r").stdout


def test_without_the_database_the_command_ends_before_its_lease(settle, db, tmp_path, wait_until):
    files = Exec(settle, up(db)["url"], tmp_path)
    process = settle.spawn("--db", files.database, "lease", "hold", "r", "--ttl", "2s", "--", "sh", "-c",
                           f"echo $$ > $1/pid; while ! [ -e $1/go ]; do {STEP}; done", "sh", files.directory)
    command = pid_in(files.file("pid"))
    kill_server(db, wait_until)
    wait_for(lambda: not runs(command), "the command's end")
    answer = settle.finish(process)
    assert answer.code == 107 and "the command was stopped" in answer.stderr
    assert not children_of(process.pid) and read(files.file("go")) == ""
