"""What the tests of the private PostgreSQL share."""

import os
import pwd
import signal


def state_of(db):
    return db("status", "--json").json()


def pid_of(db):
    return state_of(db)["pid"]


def up(db):
    answer = db("up")
    assert answer.code == 0, answer
    return state_of(db)


def owner(path):
    return os.stat(path).st_uid


def server_starts(home):
    with open(home + "/server.log", encoding="utf-8") as log:
        return log.read().count("starting PostgreSQL")


def assert_one_line(answer, code):
    """An expected failure: one line, and nothing else."""
    assert answer.code == code, answer
    assert answer.stderr.startswith("settle: "), answer
    assert answer.stderr.count("\n") == 1 and answer.stderr.endswith("\n"), answer


def as_user(name, *command):
    account = pwd.getpwnam(name)
    return ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups", "--", *command]


def kill_server(db, wait_until):
    pid = pid_of(db)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}/cwd"), "the killed server's end")
    return pid
