"""Where the private PostgreSQL lies, and as whom it runs: paths, root, ordinary users, containers."""

import os
import pwd
import shutil
import signal
import stat
import subprocess
import urllib.parse

import pytest

import cluster as support
from conftest import PROGRAM
from private_server import as_user, assert_one_line, owner, state_of, up

ROOT = os.getuid() == 0
needs_root = pytest.mark.skipif(not ROOT, reason="needs root")
# What a container's root may do: it may not look into the processes of others.
CONTAINER_RIGHTS = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid"


def test_the_server_is_not_root(db, home):
    pid = up(db)["pid"]
    assert owner(f"/proc/{pid}") == owner(home + "/data") != 0
    if ROOT:
        assert owner(home) == 0


@pytest.mark.parametrize("tail", ["l" * 200, "a,b", "a b%'\"é&?#"])
def test_a_home_whose_path_does_not_fit_a_url_or_a_socket(settle, home, psql, tail):
    env = {"SETTLE_HOME": f"{home}/{tail}"}
    answer = settle("db", "url", env=env)
    assert answer.code == 0, answer
    url = answer.stdout.strip()
    sockets = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)["host"][0]
    assert len(sockets + "/.s.PGSQL.5432") <= 107 and "," not in sockets
    assert stat.S_IMODE(os.stat(sockets).st_mode) == 0o700
    assert owner(sockets) == owner(f"{home}/{tail}/data")
    assert psql(url, "select 1") == "1"
    assert settle("db", "down", env=env).code == 0
    assert sockets.startswith(home) or not os.path.exists(sockets)


def test_a_socket_directory_that_somebody_made_before_is_refused(settle, home):
    env = {"SETTLE_HOME": f"{home}/{'l' * 200}"}
    url = settle("db", "status", "--json", env=env).json()["url"]
    sockets = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)["host"][0]
    os.mkdir(sockets, 0o755)
    try:
        answer = settle("db", "up", env=env)
        assert_one_line(answer, 69)
        assert sockets in answer.stderr and "shorter" in answer.stderr
    finally:
        os.rmdir(sockets)
    assert settle("db", "up", env=env).code == 0
    assert settle("db", "down", env=env).code == 0


def test_a_home_below_a_closed_directory(db, home, psql):
    """Root's server runs as another user, who may not walk there; the directory's mode is left alone."""
    closed = os.path.dirname(home)
    os.chmod(closed, 0o700)
    assert psql(up(db)["url"], "select 1") == "1"
    assert psql(state_of(db)["url"], "set force_parallel_mode = on; select count(*) > 0 from pg_class") == "t"
    assert stat.S_IMODE(os.stat(closed).st_mode) == 0o700


@pytest.mark.parametrize("path", ["/proc/settle", "/etc/passwd", "/etc/passwd/below", "/tmp"])
def test_a_home_that_cannot_be(settle, path):
    assert_one_line(settle("db", "up", env={"SETTLE_HOME": path}), 69)


def test_the_home_directory_is_the_default(settle, home):
    os.makedirs(home)
    env = {"HOME": home}
    try:
        answer = settle("db", "up", "--json", env=env)
        assert answer.code == 0, answer
        assert answer.json()["data_directory"] == home + "/.local/state/settle/data"
        assert stat.S_IMODE(os.stat(home + "/.local/state/settle").st_mode) == 0o700
    finally:
        assert settle("db", "down", env=env).code == 0


def test_without_a_home_directory(settle):
    """The account's own is taken; `down` and `status` make nothing there."""
    env = {name: value for name, value in settle.environment.items() if name != "HOME"}
    done = subprocess.run([PROGRAM, "db", "status", "--json"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done
    assert pwd.getpwuid(os.getuid()).pw_dir in done.stdout


@pytest.fixture
def ordinary():
    """ordinary("db", "up", env={…}) → the program run by an ordinary user, in a home directory of its own"""
    user = "daemon"
    with support.temporary_directory("settle-user.") as directory:
        program = shutil.copy(PROGRAM, directory + "/settle")
        os.chmod(program, 0o755)
        own = directory + "/home"
        os.mkdir(own, 0o700)
        shutil.chown(own, user, user)

        def run(*arguments, env=None):
            done = subprocess.run(as_user(user, program, *arguments), capture_output=True, text=True, timeout=60,
                                  env={**support.clean_environment(), "HOME": own, **(env or {})}, cwd="/", check=False)
            return done

        run.home, run.uid = own, pwd.getpwnam(user).pw_uid
        yield run
        assert run("db", "down").returncode == 0


@needs_root
def test_an_ordinary_user(ordinary, psql):
    started = ordinary("db", "url")
    assert started.returncode == 0, started
    assert psql(started.stdout.strip(), "select count(*) from settle.operations") == "0"
    data = ordinary.home + "/.local/state/settle/data"
    assert owner(data) == ordinary.uid
    assert ordinary("db", "status").returncode == 0


@needs_root
def test_an_ordinary_user_cannot_use_anothers_home(ordinary, db, home):
    os.chmod(os.path.dirname(home), 0o755)
    up(db)
    for action in ("up", "status", "url"):
        done = ordinary("db", action, env={"SETTLE_HOME": home})
        assert done.returncode == 69 and done.stderr.count("\n") == 1, done
        assert "SETTLE_HOME" in done.stderr


@needs_root
def test_root_in_an_ordinary_users_home_leaves_it_usable(settle, ordinary):
    """`sudo -E settle …`: what root makes there is the user's, and the server runs as that user."""
    env = {"HOME": ordinary.home}
    started = settle("db", "up", "--json", env=env)
    assert started.code == 0, started
    state = ordinary.home + "/.local/state/settle"
    assert {owner(path) for path in (ordinary.home + "/.local", state, state + "/data", state + "/lock",
                                     state + "/server.log", f"/proc/{started.json()['pid']}")} == {ordinary.uid}
    assert ordinary("db", "down").returncode == 0
    assert ordinary("db", "up").returncode == 0
    assert settle("db", "status", env=env).code == 0


@needs_root
def test_root_of_a_container(settle, home, wait_until):
    """Without the right to trace, root cannot look into the server's process, and still knows it."""
    env = {**settle.environment, "SETTLE_HOME": home}

    def run(action):
        done = subprocess.run(["setpriv", "--bounding-set", CONTAINER_RIGHTS, "--inh-caps", "-all", PROGRAM, "db",
                               action, "--json"], env=env, capture_output=True, text=True, timeout=60, check=False)
        return done

    started = run("up")
    assert started.returncode == 0, started
    assert run("status").returncode == 0
    again = run("up")
    assert again.stdout == started.stdout
    pid = settle("db", "status", "--json", env={"SETTLE_HOME": home}).json()["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}/cwd"), "the killed server's end")
    assert run("status").returncode == 1
    assert run("up").returncode == 0
    assert run("down").returncode == 0
    assert run("status").returncode == 1


@needs_root
def test_root_that_may_not_become_another_user(settle, home):
    env = {**settle.environment, "SETTLE_HOME": home}
    done = subprocess.run(["setpriv", "--bounding-set", "-all,+chown,+dac_override", "--inh-caps", "-all", PROGRAM, "db",
                           "up"], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 69 and done.stderr.count("\n") == 1, done
    assert "ordinary user" in done.stderr
