#!/usr/bin/python3
"""A throw-away PostgreSQL cluster for the tests: a Unix socket in a short private directory, no durability.

As a program: `tests/support/cluster.py COMMAND…` runs COMMAND with SETTLE_TEST_URL naming a fresh cluster.
"""

import contextlib
import glob
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "300",
    "deadlock_timeout": "100ms",
    "shared_buffers": "128MB",
    "jit": "off",
    "track_functions": "all",
    "logging_collector": "off",
    "log_line_prefix": "%m [%p] %d %a ",
    "log_statement": "all",
    "log_parameter_max_length": "0",
    "timezone": "UTC",
}

START_SECONDS = 60

CALLED_FUNCTIONS = """
    select distinct schemaname || '.' || funcname from pg_stat_user_functions
     where schemaname in ('settle', 'settle_data') and calls > 0"""


def server_directory():
    """The folder of initdb, pg_ctl and psql: SETTLE_TEST_PG_BIN, or the highest version installed."""
    chosen = os.environ.get("SETTLE_TEST_PG_BIN")
    if chosen:
        return chosen
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    if not found:
        raise SystemExit("no PostgreSQL server is installed: apt-get install postgresql-15")
    return os.path.dirname(max(found, key=lambda path: int(path.split("/")[4])))


def clean_environment():
    """The environment without what would lead a client elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "SETTLE_"))}


def as_server_user(*options):
    """The prefix of a command that the server's user is to run: PostgreSQL refuses to be run by root."""
    user = ["--reuid=postgres", "--regid=postgres", "--init-groups"] if os.getuid() == 0 else []
    return ["setpriv", *user, *options, "--"] if user or options else []


class Cluster:
    """One server. `start` it once for a whole run; `stop` leaves nothing behind."""

    def __init__(self):
        self.bin = server_directory()
        self.directory = None
        self.server = None

    def start(self):
        # Short, as a socket's path has at most 107 bytes.
        self.directory = tempfile.mkdtemp(prefix="settle-pg.", dir="/tmp")
        if os.getuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(self.directory, owner.pw_uid, owner.pw_gid)
        try:
            subprocess.run(as_server_user() + [self.bin + "/initdb", "--pgdata", self.directory + "/data",
                                               "--username=postgres", "--auth=trust", "--encoding=UTF8",
                                               "--locale=C.UTF-8", "--no-sync"],
                           check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd="/",
                           env=clean_environment())
            self._start_server()
        except subprocess.CalledProcessError as error:
            self.stop()
            raise SystemExit(f"the test cluster was not made:\n{error.stderr}") from error
        except BaseException:
            self.stop()
            raise
        return self

    def _start_server(self):
        # A child that is told when its parent dies, so that not even a killed run leaves a server behind; in a session
        # of its own, so that Ctrl-C reaches it only by way of `stop`.
        command = as_server_user("--pdeathsig=SIGQUIT") + [self.bin + "/postgres", "-D", self.directory + "/data", "-c",
                                                           "unix_socket_directories=" + self.directory]
        for name, value in SETTINGS.items():
            command += ["-c", f"{name}={value}"]
        with open(self.directory + "/log", "w", encoding="utf-8") as log:
            self.server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                           env=clean_environment(), start_new_session=True)
        ready = [self.bin + "/pg_isready", "--quiet", "--timeout=1", "--dbname", self.url()]
        deadline = time.monotonic() + START_SECONDS
        while subprocess.run(ready, env=clean_environment(), check=False).returncode != 0:
            if self.server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the test cluster did not start:\n{self.log()}")
            time.sleep(0.02)  # the step of a poll; the deadline above ends it

    def stop(self):
        if self.directory is None:
            return
        if self.server is not None:
            self.server.send_signal(signal.SIGQUIT)  # at once: nothing here is worth a checkpoint
            self.server.wait()
            self.server = None
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory = None

    def log(self):
        path = self.directory + "/log"
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def url(self, database="postgres"):
        return url_in(self.directory, database)


@contextlib.contextmanager
def temporary_directory(prefix):
    """A short-named directory that the server's user may enter too; removed at the end."""
    path = tempfile.mkdtemp(prefix=prefix, dir="/tmp")
    os.chmod(path, 0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def url_in(directory, database):
    return f"postgresql:///{database}?host={directory}&user=postgres"


def with_database(url, database):
    """The URL of another database of the same cluster."""
    head, options = url.split("?", 1)
    return head.rsplit("/", 1)[0] + "/" + database + "?" + options


def psql(url, sql, check=True):
    """Runs SQL text and returns what it prints, unaligned; a failure raises with the server's words."""
    done = subprocess.run([os.path.join(server_directory(), "psql"), "-X", "-qAt", "-v", "ON_ERROR_STOP=1", "-d", url],
                          input=sql, text=True, capture_output=True, env=clean_environment(), check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"psql failed: {done.stderr.strip()}\n{sql}")
    return done.stdout.rstrip("\n") if check else done


def create_database(url, name, template="template0"):
    psql(url, f'create database "{name}" template "{template}"')
    return with_database(url, name)


def drop_database(url, name):
    note_functions(with_database(url, name))
    psql(url, f'drop database if exists "{name}" with (force)')


def note_functions(url):
    """Adds the functions of Settle that were called in this database to the run's list, where a run keeps one."""
    path = os.environ.get("SETTLE_TEST_FUNCTIONS")
    if path:
        done = psql(url, CALLED_FUNCTIONS, check=False)
        with open(path, "a", encoding="utf-8") as file:
            file.write(done.stdout)


def stop_on_signals():
    """Turns a polite kill into an exception, so that `finally` stops the server."""
    def leave(number, _frame):
        raise SystemExit(128 + number)
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGHUP, leave)


def main(arguments):
    if not arguments:
        raise SystemExit(__doc__)
    stop_on_signals()
    cluster = Cluster().start()
    try:
        environment = dict(os.environ, SETTLE_TEST_URL=cluster.url(), PGHOST=cluster.directory, PGUSER="postgres",
                           PGDATABASE="postgres")
        return subprocess.run(arguments, env=environment, check=False).returncode
    finally:
        cluster.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
