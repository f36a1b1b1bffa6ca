"""settle exec when the database goes away, comes back, or its answers are lost."""

import os
import re
import signal
import time
from urllib.parse import unquote

import pytest

import cluster as support
from execution import STEP, Exec, command_of, lines, pid_in, runs, touch, wait_for
from lossy_proxy import LossyProxy
from private_server import kill_server, up

UNTIL_TOLD = f"echo x >> $1/effect; echo $$ > $1/pid; while ! [ -e $1/go ]; do {STEP}; done; echo fine"
LEASE_SECONDS = 2


@pytest.fixture(name="named")
def _named(settle, db, tmp_path):
    """An Exec that names the private server's database, and so does not start it again itself."""
    return Exec(settle, db("url").stdout.strip(), tmp_path)


def test_a_killed_private_server_is_started_again_to_write_the_end_down(settle, db, home, tmp_path, wait_until):
    up(db)
    execs = Exec(settle, None, tmp_path)
    env = {"SETTLE_HOME": home}
    process = execs.spawn("k", UNTIL_TOLD, env=env)
    pid_in(execs.file("pid"))
    kill_server(db, wait_until)
    touch(execs.file("go"))
    answer = settle.finish(process)
    assert (answer.code, answer.stdout) == (0, "fine\n")
    again = execs("k", UNTIL_TOLD, env=env)
    assert (again.code, again.stdout) == (0, "fine\n")
    assert lines(execs.file("effect")) == ["x"]


def test_the_end_is_written_down_once_the_database_is_back(named, settle, db, wait_until):
    process = named.spawn("k", UNTIL_TOLD)
    pid_in(named.file("pid"))
    kill_server(db, wait_until)
    touch(named.file("go"))
    # The command has ended and has been reaped, and still there is nowhere to write it down.
    wait_for(lambda: command_of(process.pid) is None, "the command's end")
    assert process.poll() is None
    up(db)
    answer = settle.finish(process)
    assert (answer.code, answer.stdout) == (0, "fine\n")
    assert named("k", UNTIL_TOLD).stdout == "fine\n"
    assert lines(named.file("effect")) == ["x"]


def test_a_short_absence_does_not_stop_the_command(named, settle, db, wait_until):
    process = named.spawn("k", UNTIL_TOLD, "--lease", "20s")
    pid_in(named.file("pid"))
    kill_server(db, wait_until)
    up(db)
    # Renewed over the new server: the lease's end has moved on.
    url = named.database
    until = support.psql(url, "select lease_until from settle.operations")
    wait_for(lambda: support.psql(url, "select lease_until from settle.operations") != until, "a renewal")
    touch(named.file("go"))
    assert settle.finish(process).code == 0


@pytest.mark.parametrize("options, code", [([], 105), (["--repeatable"], 0)])
def test_without_renewals_the_command_ends_before_its_lease(named, settle, db, wait_until, options, code):
    process = named.spawn("k", UNTIL_TOLD, "--lease", f"{LEASE_SECONDS}s", *options)
    command = pid_in(named.file("pid"))
    kill_server(db, wait_until)
    last_renewal_before = time.monotonic()
    wait_for(lambda: not runs(command), "the command's end")
    assert time.monotonic() - last_renewal_before < LEASE_SECONDS
    lost = settle.finish(process)
    assert lost.code == 107 and "STALE_TOKEN: k: the lease was lost" in lost.stderr
    up(db)
    touch(named.file("go"))
    again = named.after_lease("k", UNTIL_TOLD, *options)
    assert again.code == code, again
    assert len(lines(named.file("effect"))) == (1 if code == 105 else 2)


@pytest.mark.parametrize("options, code, after", [([], 105, 105), (["--repeatable"], 69, 0)])
def test_a_signal_ends_the_wait_for_the_database(named, settle, db, wait_until, options, code, after):
    process = named.spawn("k", UNTIL_TOLD, "--lease", "5s", *options)
    command = pid_in(named.file("pid"))
    kill_server(db, wait_until)
    touch(named.file("go"))
    wait_for(lambda: not os.path.exists(f"/proc/{command}"), "the command to be reaped")

    def told_to_end():
        process.terminate()  # again and again: one that came before the wait began is not counted
        return process.poll() is not None
    wait_for(told_to_end, "the program's end")
    answer = settle.finish(process)
    assert answer.code == code, answer
    assert answer.stderr.count("\n") == 1 and "exit status 0" in answer.stderr
    if code == 105:
        assert "settle review decide k" in answer.stderr
    up(db)
    again = named.after_lease("k", UNTIL_TOLD, *options)
    assert again.code == after, again
    assert len(lines(named.file("effect"))) == (1 if after == 105 else 2)


@pytest.mark.parametrize("after", [False, True], ids=["lost", "answer lost"])
@pytest.mark.parametrize("text", [b"settle.begin_operation(", b"settle.mark_sent(", b"COMMIT\0", b"settle.renew(",
                                  b"settle.complete("])
def test_a_lost_message_changes_nothing(settle, database, tmp_path, psql, text, after):
    with support.temporary_directory("settle-proxy.") as directory:
        proxy = LossyProxy(directory, re.search("host=([^&]+)", database)[1], text, after)
        execs = Exec(settle, re.sub("host=[^&]+", "host=" + directory, database), tmp_path)
        process = execs.spawn("k", UNTIL_TOLD, "--lease", "3s")
        pid_in(execs.file("pid"))
        if b"renew" in text:
            wait_for(lambda: proxy.losses, "the loss of a renewal")
            until = psql(database, "select lease_until from settle.operations")
            wait_for(lambda: psql(database, "select lease_until from settle.operations") != until, "a renewal")
        touch(execs.file("go"))
        answer = settle.finish(process)
        proxy.close()
    assert proxy.losses == 1
    assert (answer.code, answer.stdout) == (0, "fine\n"), answer
    assert lines(execs.file("effect")) == ["x"]
    shown = Exec(settle, database, tmp_path).show("k")
    assert shown["status"] == "succeeded" and shown["attempt_count"] == 1 and len(shown["executions"]) == 1


@pytest.mark.parametrize("options, code", [([], 105), (["--repeatable"], 137)])
def test_a_lost_answer_to_a_failure_is_no_other_answer(settle, database, tmp_path, options, code):
    with support.temporary_directory("settle-proxy.") as directory:
        proxy = LossyProxy(directory, re.search("host=([^&]+)", database)[1], b"settle.fail(", True)
        execs = Exec(settle, re.sub("host=[^&]+", "host=" + directory, database), tmp_path)
        answer = execs("k", "kill -KILL $$", *options)
        proxy.close()
    assert proxy.losses == 1
    assert answer.code == code and "killed by SIGKILL" in answer.stderr
    assert Exec(settle, database, tmp_path).show("k")["attempt_count"] == 1


def test_a_signal_ends_the_wait_for_a_beginning(named, settle, db, wait_until, tmp_path):
    with support.temporary_directory("settle-proxy.") as directory:
        server = re.search("host=([^&]+)", named.database)[1]
        proxy = LossyProxy(directory, unquote(server), b"settle.begin_operation(", False)
        execs = Exec(settle, re.sub("host=[^&]+", "host=" + directory, named.database), tmp_path)
        proxy.on_loss = lambda: kill_server(db, wait_until)
        process = execs.spawn("k", "touch $1/effect")
        wait_for(lambda: proxy.losses, "the loss of the beginning")

        def told_to_end():
            process.send_signal(signal.SIGINT)  # again and again: the first may come before the wait
            return process.poll() is not None
        wait_for(told_to_end, "the program's end")
        proxy.close()
    answer = settle.finish(process)
    assert answer.code == 130 and "nothing was run" in answer.stderr and answer.stderr.count("\n") == 1
    assert not os.path.exists(execs.file("effect"))
    up(db)
    assert named("k", "echo fine").stdout == "fine\n"
