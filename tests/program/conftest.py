"""What the tests of the program share: the program, a database, a home, and a wait with a deadline."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time

import psycopg2
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

import cluster as support  # noqa: E402  (found beside the tests)

PROGRAM = os.path.join(ROOT, "build", "settle")
TEMPLATE = "settle_template"
COMMAND_SECONDS = 60
WAIT_SECONDS = 30


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: runs only with --all")


class Answer:
    """What a command left: its exit status and its two outputs."""

    def __init__(self, code, stdout, stderr):
        self.code, self.stdout, self.stderr = code, stdout, stderr

    def json(self):
        return json.loads(self.stdout)

    def __repr__(self):
        return f"Answer(code={self.code}, stdout={self.stdout!r}, stderr={self.stderr!r})"


class Program:
    """build/settle. Call it to run a command to its end; `spawn` starts one and leaves it running."""

    def __init__(self):
        self.environment = support.clean_environment()
        self.running = []

    def __call__(self, *arguments, stdin=None, env=None, timeout=COMMAND_SECONDS, cwd=None):
        done = subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, text=True, capture_output=True, cwd=cwd,
                              env={**self.environment, **(env or {})}, timeout=timeout, check=False)
        return Answer(done.returncode, done.stdout, done.stderr)

    def spawn(self, *arguments, env=None, cwd=None):
        """A Popen with text pipes, in a process group of its own; what is left of it is killed after the test."""
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, cwd=cwd, start_new_session=True,
                                   env={**self.environment, **(env or {})})
        self.running.append(process)
        return process

    @staticmethod
    def finish(process, timeout=COMMAND_SECONDS):
        """Waits for a spawned command and returns its answer."""
        stdout, stderr = process.communicate(timeout=timeout)
        return Answer(process.returncode, stdout, stderr)

    def stop_all(self):
        for process in self.running:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
            process.stdout.close()
            process.stderr.close()


@pytest.fixture
def settle():
    """settle("show", "K", env={…}) → Answer(code, stdout, stderr)"""
    program = Program()
    yield program
    program.stop_all()


@pytest.fixture(scope="session")
def cluster_url():
    """The shared cluster, with a migrated template; started here where no runner did."""
    own = None
    url = os.environ.get("SETTLE_TEST_URL")
    if url is None:
        own = support.Cluster().start()
        url = own.url()
    if os.environ.get("SETTLE_TEST_TEMPLATE") != TEMPLATE:
        template = support.create_database(url, TEMPLATE)
        subprocess.run([PROGRAM, "--db", template, "migrate"], env=support.clean_environment(), check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    yield url
    if own is not None:
        own.stop()


_numbers = itertools.count(1)


def _fresh(cluster_url, template):
    name = f"settle_p{next(_numbers)}"
    yield support.create_database(cluster_url, name, template)
    support.drop_database(cluster_url, name)


@pytest.fixture
def database(cluster_url):
    """The URL of a fresh migrated database."""
    yield from _fresh(cluster_url, TEMPLATE)


@pytest.fixture
def empty_database(cluster_url):
    """The URL of a fresh database without Settle's schema."""
    yield from _fresh(cluster_url, "template0")


@pytest.fixture
def home(settle):
    """A private SETTLE_HOME; its server is stopped at the end. Short, as a socket's path has at most 107 bytes."""
    with support.temporary_directory("settle-home.") as directory:
        path = os.path.join(directory, "home")
        yield path
        if os.path.exists(path):
            stopped = settle("db", "down", env={"SETTLE_HOME": path})
            assert stopped.code == 0, stopped


@pytest.fixture(scope="session")
def stopped_home():
    """A home with a migrated cluster that was shut down: copied, it saves most tests the making."""
    with support.temporary_directory("settle-made.") as directory:
        env = {**support.clean_environment(), "SETTLE_HOME": directory + "/home"}
        for action in ("url", "down"):
            subprocess.run([PROGRAM, "db", action], env=env, check=True, capture_output=True, timeout=120)
        os.remove(directory + "/home/server.log")
        yield directory + "/home"


@pytest.fixture
def new_db(settle, home):
    """new_db("up") → settle db up, with a home that is not there yet"""

    def run(*arguments, **options):
        env = {"SETTLE_HOME": home, **options.pop("env", {})}
        return settle("db", *arguments, env=env, **options)

    return run


@pytest.fixture
def db(new_db, home, stopped_home):
    """db("up") → settle db up, with a home whose cluster is made already"""
    subprocess.run(["cp", "-a", stopped_home, home], check=True)
    return new_db


@pytest.fixture
def psql():
    """psql(url, sql) → what it prints, unaligned; raises with the server's words on an error."""
    return support.psql


@pytest.fixture
def connect():
    """connect(url) → a psycopg2 connection, closed at the end."""
    opened = []

    def open_one(url, **options):
        connection = psycopg2.connect(url, **options)
        opened.append(connection)
        return connection

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def wait_until():
    """wait_until(predicate, "what") → its first true value; fails when the deadline passes first."""

    def wait(predicate, what, seconds=WAIT_SECONDS):
        deadline = time.monotonic() + seconds
        while True:
            value = predicate()
            if value:
                return value
            if time.monotonic() >= deadline:
                pytest.fail(f"waited {seconds} s for {what}")
            time.sleep(0.02)  # the step of a poll; the deadline above ends it

    return wait
