"""What the tests of `exec` and `lease hold` share: commands that show how far they are, and a look at their processes."""

import os
import subprocess
import time

from conftest import PROGRAM, WAIT_SECONDS

STEP = "sleep 0.01"  # the step of a poll, in shell scripts


def wait_for(predicate, what, seconds=WAIT_SECONDS):
    """The first true value of `predicate`; raises when the deadline passes first. Fit for threads."""
    deadline = time.monotonic() + seconds
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(f"waited {seconds} s for {what}")
        time.sleep(0.005)  # the step of a poll; the deadline above ends it


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def lines(path):
    return read(path).splitlines()


def touch(path):
    with open(path, "w", encoding="utf-8"):
        pass


def runs(pid):
    """False for a zombie, too: it does nothing."""
    stat = read(f"/proc/{pid}/stat")
    return bool(stat) and stat.rpartition(")")[2].split()[0] not in "ZX"


def name_of(pid):
    return read(f"/proc/{pid}/comm").strip()


def children_of(pid):
    try:
        return [int(child) for child in read(f"/proc/{pid}/task/{pid}/children").split()]
    except OSError:
        return []


def guard_of(program):
    """The guard of a program's command, or nothing yet."""
    return next((pid for pid in children_of(program) if name_of(pid) == "settle-guard"), None)


def command_of(program):
    """The command of a program, once it runs in place of the guard's own copy."""
    guard = guard_of(program)
    found = [pid for pid in children_of(guard) if name_of(pid) != "settle-guard"] if guard else []
    return found[0] if found else None


def pid_in(path):
    """The number that a command writes into a file, waited for."""
    return int(wait_for(lambda: read(path) if read(path).endswith("\n") else "", f"a pid in {path}"))


class Exec:
    """`settle exec` in one database, with a directory for the files that commands make; $1 of each script."""

    def __init__(self, settle, database, directory):
        self.settle = settle
        self.database = database
        self.directory = str(directory)
        self.namespace = "default"

    def file(self, name):
        return os.path.join(self.directory, name)

    def arguments(self, key, script, *options):
        before = [option for option in options if option == "--json"]
        after = [option for option in options if option != "--json"]
        place = ["--db", self.database] if self.database else []  # else the private server of SETTLE_HOME
        return [*place, "--namespace", self.namespace, *before, "exec", "--key", key, *after, "--", "sh", "-c", script, "sh",
                self.directory]

    def __call__(self, key, script, *options, **named):
        return self.settle(*self.arguments(key, script, *options), **named)

    def spawn(self, key, script, *options, **named):
        return self.settle.spawn(*self.arguments(key, script, *options), **named)

    def bytes(self, key, script, *options):
        """The exit status and both outputs as bytes."""
        done = subprocess.run([PROGRAM, *self.arguments(key, script, *options)], stdin=subprocess.DEVNULL,
                              capture_output=True, env=self.settle.environment, check=False, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def show(self, key):
        answer = self.settle("--db", self.database, "--namespace", self.namespace, "--json", "show", key)
        assert answer.code == 0, answer
        return answer.json()

    def after_lease(self, key, script, *options):
        """The first answer that is not `in progress`: what the next one gets once the lease has lapsed."""
        answers = []

        def ask():
            answers.append(self(key, script, *options))
            return answers[-1].code != 104
        wait_for(ask, f"the end of the lease on {key}")
        return answers[-1]
