"""The private PostgreSQL: settle db up | down | status | url."""

import os
import signal
import stat
import subprocess

import pytest

from conftest import PROGRAM
from private_server import kill_server, pid_of, server_starts, state_of, up


def test_up_makes_a_durable_server_on_a_socket_alone(new_db, home, psql):
    answer = new_db("up")
    assert answer.code == 0, answer
    assert answer.stdout.count("\n") == 1 and answer.stderr == ""
    assert stat.S_IMODE(os.stat(home).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(home + "/data").st_mode) == 0o700
    url = state_of(new_db)["url"]
    expected = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "listen_addresses": "",
                "unix_socket_permissions": "0700", "max_connections": "300", "server_encoding": "UTF8",
                "timezone": "UTC", "lc_collate": "C", "data_checksums": "on"}
    assert {name: psql(url, f"show {name}") for name in expected} == expected
    assert psql(url, "select current_user, current_database(), usesuper from pg_user where usename = current_user") \
        == "settle|settle|t"
    # What a person makes there without a schema's name does not land among the product's functions.
    assert psql(url, "select current_schema()") == "public"
    assert psql(url, "show search_path") == "public"


def test_durability_is_no_setting(db, psql, wait_until):
    url = up(db)["url"]
    for name in ("fsync", "synchronous_commit", "full_page_writes"):
        psql(url, f"alter system set {name} = off")
    kill_server(db, wait_until)
    up(db)
    assert [psql(url, f"show {name}") for name in ("fsync", "synchronous_commit", "full_page_writes")] == ["on"] * 3


def test_up_again_changes_nothing(db, home):
    first = up(db)
    assert up(db) == first
    assert server_starts(home) == 1


def test_documents(new_db, home):
    expected = {"initialised": False, "running": False, "pid": None, "version": None, "data_directory": home + "/data",
                "log_file": home + "/server.log"}
    before = new_db("status", "--json")
    assert before.code == 1
    document = before.json()
    url = document.pop("url")
    assert document == expected
    assert not os.path.exists(home), "looking makes nothing"
    running = new_db("up", "--json")
    assert running.code == 0
    document = running.json()
    assert document.pop("pid") == pid_of(new_db)
    assert document.pop("version").isdigit()
    assert document == {"initialised": True, "running": True, "data_directory": home + "/data",
                        "log_file": home + "/server.log", "url": url}
    assert new_db("status").code == 0
    assert new_db("url", "--json").json() == {"url": url}
    assert new_db("url").stdout == url + "\n"
    stopped = new_db("down", "--json")
    assert stopped.code == 0 and stopped.json()["running"] is False and stopped.json()["initialised"] is True
    assert new_db("status").code == 1


def test_url_is_started_and_migrated(new_db, psql):
    answer = new_db("url")
    assert answer.code == 0, answer
    assert psql(answer.stdout.strip(), "select count(*) from settle.operations") == "0"


def test_db_is_the_private_server_whatever_database_is_named(db, home, database):
    for env in ({}, {"SETTLE_DB": database}):
        assert home in db("url", env=env).stdout
    assert home in db("--db", database, "url").stdout


def test_twenty_starts_at_once_are_one(settle, new_db, home):
    processes = [settle.spawn("db", "up", "--json", env={"SETTLE_HOME": home}) for _ in range(20)]
    answers = [settle.finish(process) for process in processes]
    assert [answer.code for answer in answers] == [0] * 20, answers
    assert {answer.json()["pid"] for answer in answers} == {pid_of(new_db)}
    assert server_starts(home) == 1


def test_starts_and_stops_at_once(settle, db, home):
    processes = [settle.spawn("db", action, env={"SETTLE_HOME": home}) for action in ["up", "down"] * 6]
    answers = [settle.finish(process) for process in processes]
    assert [answer.code for answer in answers] == [0] * 12, answers
    up(db)


def test_the_server_has_nothing_of_its_starter(settle, db, home, wait_until):
    read, write = os.pipe()
    ended, left = os.pipe()
    process = subprocess.Popen([PROGRAM, "db", "up"], env={**settle.environment, "SETTLE_HOME": home},
                               stdin=subprocess.PIPE, stdout=write, stderr=write, pass_fds=[left],
                               start_new_session=True)
    os.close(write)
    os.close(left)
    assert process.wait(60) == 0
    with os.fdopen(read) as output, os.fdopen(ended) as inherited:
        assert output.read().count("\n") == 1, "the pipe's end is seen: the server does not hold it"
        assert inherited.read() == ""
    pid = pid_of(db)
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    assert {os.readlink(f"/proc/{pid}/fd/{number}") for number in (1, 2)} == {home + "/server.log"}
    assert os.getsid(pid) not in (process.pid, os.getsid(0))
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        assert "PPid:\t%d\n" % process.pid not in status.read()


def test_the_server_outlives_a_killed_starter(settle, db, home, wait_until):
    process = settle.spawn("db", "up", env={"SETTLE_HOME": home})
    wait_until(lambda: db("status").code == 0, "the server")
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it had ended
    up(db)
    assert server_starts(home) == 1


def test_a_caller_with_strange_signals(settle, db, home):
    def strange():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1])

    env = {**settle.environment, "SETTLE_HOME": home}
    for action in ("up", "down", "up"):
        done = subprocess.run([PROGRAM, "db", action], env=env, preexec_fn=strange, capture_output=True, timeout=60,
                              check=False)
        assert done.returncode == 0, done
    with open(f"/proc/{pid_of(db)}/status", encoding="utf-8") as status:
        ignored = next(line for line in status if line.startswith("SigIgn:"))
    assert not int(ignored.split()[1], 16) & (1 << (signal.SIGCHLD - 1))


def test_down_twice(db, psql):
    url = up(db)["url"]
    assert db("down").code == 0
    assert db("down").code == 0
    with pytest.raises(RuntimeError):
        psql(url, "select 1")


def test_down_without_a_server_makes_nothing(new_db, home):
    assert new_db("down").code == 0
    assert not os.path.exists(home)
