"""settle exec on a terminal: who may read from it, and what its keys do."""

import fcntl
import os
import re
import select
import signal
import subprocess
import termios
import time

import pytest

from conftest import PROGRAM, WAIT_SECONDS
from execution import STEP, Exec, command_of, pid_in, read, runs, wait_for

CTRL_C, CTRL_Z = b"\x03", b"\x1a"


class Terminal:
    """A pseudo-terminal that is the controlling one of what runs on it."""

    def __init__(self, environment):
        self.environment = environment
        self.keyboard, self.screen = os.openpty()
        self.shown = b""
        self.process = None

    def run(self, *command, stdout=None):
        def take_terminal():
            fcntl.ioctl(self.screen, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(command, stdin=self.screen, stdout=self.screen if stdout is None else stdout,
                                        stderr=self.screen, env=self.environment, start_new_session=True,
                                        pass_fds=[self.screen], preexec_fn=take_terminal)
        return self.process

    def type(self, keys):
        os.write(self.keyboard, keys)

    def wait_for(self, text):
        deadline = time.monotonic() + WAIT_SECONDS
        while text not in self.shown:
            ready, _, _ = select.select([self.keyboard], [], [], max(0, deadline - time.monotonic()))
            assert ready, (text, self.shown)
            self.shown += os.read(self.keyboard, 4096)

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
        if self.process is not None:
            self.process.wait()
        os.close(self.keyboard)
        os.close(self.screen)


@pytest.fixture(name="run")
def _run(settle, database, tmp_path):
    return Exec(settle, database, tmp_path)


@pytest.fixture(name="terminal")
def _terminal(settle):
    opened = Terminal(settle.environment)
    yield opened
    opened.close()


def state_of(pid):
    return read(f"/proc/{pid}/stat").rpartition(")")[2].split()[0]


def test_the_command_reads_from_the_terminal(run, terminal):
    process = terminal.run(PROGRAM, *run.arguments("k", "echo ready; read line; echo got $line"))
    terminal.wait_for(b"ready")
    terminal.type(b"hello\n")
    terminal.wait_for(b"got hello")
    assert process.wait(timeout=WAIT_SECONDS) == 0


def test_it_gets_the_terminal_also_when_its_output_goes_elsewhere(run, terminal):
    output, end = os.pipe()
    process = terminal.run(PROGRAM, *run.arguments("k", "read line; echo got $line"), stdout=end)
    os.close(end)
    wait_for(lambda: command_of(process.pid), "the command")
    terminal.type(b"hello\n")
    with os.fdopen(output) as reader:
        assert reader.read() == "got hello\n"
    assert process.wait(timeout=WAIT_SECONDS) == 0


def test_the_terminal_goes_back_to_who_had_it(run, terminal):
    process = terminal.run("sh", "-c", '"$@"; echo after; read line; echo back $line', "sh", PROGRAM,
                           *run.arguments("k", "read line; echo got $line"))
    terminal.type(b"one\n")
    terminal.wait_for(b"after")
    terminal.type(b"two\n")
    terminal.wait_for(b"back two")
    assert process.wait(timeout=WAIT_SECONDS) == 0


@pytest.mark.parametrize("options, code", [([], 105), (["--repeatable"], 130)])
@pytest.mark.parametrize("script", ["echo $$ > $1/pid; exec sleep 1000",  # the thing under test: a long command
                                    f"trap 'exit 130' INT; echo $$ > $1/pid; while :; do {STEP}; done"])
def test_an_interrupt_from_the_keyboard_is_no_answer(run, terminal, script, options, code):
    process = terminal.run(PROGRAM, *run.arguments("k", script, *options))
    command = pid_in(run.file("pid"))
    terminal.type(CTRL_C)
    assert process.wait(timeout=WAIT_SECONDS) == code
    assert not runs(command)
    assert run.show("k")["status"] == ("unknown" if code == 105 else "pending")


def test_a_suspended_command_suspends_the_program_and_goes_on_with_it(run, terminal):
    process = terminal.run(PROGRAM, *run.arguments("k", f"echo $$ > $1/pid; while ! [ -e $1/go ]; do {STEP}; done; "
                                                        "read line; echo got $line"))
    command = pid_in(run.file("pid"))
    terminal.type(CTRL_Z)
    wait_for(lambda: state_of(command) == "T" and state_of(process.pid) == "T", "both to be suspended")
    os.kill(process.pid, signal.SIGCONT)  # as the shell's `fg` sends it
    wait_for(lambda: state_of(command) != "T", "the command to go on")
    with open(run.file("go"), "w", encoding="utf-8"):
        pass
    terminal.type(b"hello\n")
    terminal.wait_for(b"got hello")
    assert process.wait(timeout=WAIT_SECONDS) == 0


def test_a_suspended_command_ends_with_its_lease(run, terminal):
    process = terminal.run(PROGRAM, *run.arguments("k", f"echo $$ > $1/pid; while :; do {STEP}; done", "--repeatable",
                                                   "--lease", "2s"))
    command = pid_in(run.file("pid"))
    terminal.type(CTRL_Z)
    wait_for(lambda: state_of(process.pid) == "T", "the program to be suspended")
    wait_for(lambda: not runs(command), "the command's end")
    assert run.after_lease("k", "echo next", "--repeatable").stdout == "next\n"
    os.kill(process.pid, signal.SIGCONT)
    assert process.wait(timeout=WAIT_SECONDS) == 107


def test_a_replay_says_on_a_terminal_that_it_is_one(run, terminal):
    assert run("k", "echo once").code == 0
    assert run("k", "echo never").stderr == ""
    process = terminal.run(PROGRAM, *run.arguments("k", "echo never"))
    terminal.wait_for(b"was not run again")
    assert process.wait(timeout=WAIT_SECONDS) == 0
    assert re.search(rb"once\r\n.*k#1", terminal.shown)
