"""settle demo: the story is told to its end, it is true, and it says so when it is not."""

import glob
import os
import re
import shlex
import signal
import time

import pytest

from conftest import support

STATUSES = {"pay:42": "succeeded", "pay:42~undo": "succeeded", "label:42": "succeeded", "stock:42": "succeeded",
            "pay:43": "cancelled"}


@pytest.fixture
def told(settle, database):
    """The whole story on a fresh database, with its files in a directory of its own."""
    with support.temporary_directory("settle-told.") as directory:
        began = time.monotonic()
        answer = settle("--db", database, "demo", env={"TMPDIR": directory})
        answer.seconds = time.monotonic() - began
        answer.left = os.listdir(directory)
        yield answer


def namespace_of(text):
    return re.search(r"--namespace (demo-[0-9a-f]+)", text).group(1)


def test_the_story_is_told(told, database, psql):
    assert told.code == 0 and told.stderr == "", told
    assert told.seconds < 60
    assert told.left == []
    statuses = re.findall(r"\[exit status (\d+)\]", told.stdout)
    assert statuses == ["0", "0", "103", "105", "0", "0", "0", "107", "1", "0", "0"]
    receipts = re.findall(r"receipt \d+", told.stdout)
    assert len(receipts) == 2 and receipts[0] == receipts[1]
    assert re.findall(r"^    (started|replayed|not_applied|completed)(?: \| |$)", told.stdout, re.M) \
        == ["started", "completed", "replayed", "not_applied"]
    for word in ("kill -9 ", "kill -STOP ", "kill -CONT ", "UNDONE_FIRST", "first began\n    second wrote"):
        assert word in told.stdout, word
    assert "console" not in told.stdout
    found = psql(database, f"select key, status from settle.operations where namespace = '{namespace_of(told.stdout)}'")
    assert dict(line.split("|") for line in found.splitlines()) == STATUSES


def test_what_it_shows_can_be_typed(settle, told, database):
    """The lines after the story, and every one of its commands: repeated by hand they are replays, and run nothing."""
    ending = told.stdout[told.stdout.index("Look further:"):]
    lines = re.findall(r"^  (settle .*)$", ending, re.M)
    assert any(" trace " in line for line in lines) and any(" list" in line for line in lines)
    for line in lines:
        answer = settle("--db", database, *shlex.split(line)[1:])
        assert answer.code == 0 and answer.stdout, line
    with support.temporary_directory("settle-typed.") as directory:
        commands = [line for line in re.findall(r"^  \$ (settle .*)$", told.stdout, re.M) if " exec " in line]
        assert len(commands) == 9
        for line in commands:
            answer = settle("--db", database, *shlex.split(line.removesuffix(" &"))[1:], cwd=directory)
            assert answer.code in (0, 1, 103), line
        assert os.listdir(directory) == []


def test_the_private_database(settle, home):
    answer = settle("demo", env={"SETTLE_HOME": home})
    assert answer.code == 0 and answer.stderr == "", answer
    assert f"export SETTLE_HOME={home}" in answer.stdout and "settle db down" in answer.stdout
    listed = settle("--namespace", namespace_of(answer.stdout), "list", "--json", env={"SETTLE_HOME": home})
    assert listed.code == 0 and len(listed.json()) == len(STATUSES)


def test_two_stories_at_once(settle, database):
    with support.temporary_directory("settle-told.") as directory:
        running = [settle.spawn("--db", database, "demo", env={"TMPDIR": directory}) for _ in range(2)]
        answers = [settle.finish(process, timeout=120) for process in running]
    assert [answer.code for answer in answers] == [0, 0], answers
    assert len({namespace_of(answer.stdout) for answer in answers}) == 2


def test_json(settle, database):
    answer = settle("--db", database, "--json", "demo")
    assert answer.code == 0 and answer.stderr == "", answer
    story = answer.json()
    assert re.fullmatch("demo-[0-9a-f]+", story["namespace"])
    assert [step["status"] for step in story["steps"] if " exec " in step["command"]] == [0, 0, 103, 0, 105, 0, 0, 0, 1]
    assert {"command", "status", "stdout", "stderr"} <= set(story["steps"][0])


def test_a_story_that_does_not_happen(settle, database, psql):
    """Where requests are not compared, there is no conflict: the demonstration must end there, and say so."""
    psql(database, "create or replace function settle_data.same_request(op settle_data.operation, kind text, "
                   "request jsonb) returns boolean language sql as 'select true'")
    answer = settle("--db", database, "demo")
    assert answer.code != 0
    assert "did not happen" in answer.stderr and "103" in answer.stderr and answer.stderr.count("\n") == 1
    assert "kill" not in answer.stdout


def test_a_database_without_the_schema(settle, empty_database):
    answer = settle("--db", empty_database, "demo")
    assert answer.code == 110 and answer.stdout == "" and "migrate" in answer.stderr


def test_it_has_a_namespace_of_its_own(settle, database):
    answer = settle("--db", database, "--namespace", "mine", "demo")
    assert answer.code == 2 and "namespace" in answer.stderr and answer.stdout == ""


def test_a_password_is_not_shown(settle, database):
    answer = settle("--db", database + "&password=hush-hush", "demo")
    assert answer.code == 0, answer
    assert "hush-hush" not in answer.stdout + answer.stderr


def descendants(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            children = [int(child) for child in file.read().split()]
    except FileNotFoundError:
        return []
    return children + [below for child in children for below in descendants(child)]


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_an_interrupted_story_leaves_no_process(settle, database, wait_until):
    with support.temporary_directory("settle-told.") as directory:
        process = settle.spawn("--db", database, "demo", env={"TMPDIR": directory})
        # The worker that is about to be frozen, what guards its command, and the command.
        below = wait_until(lambda: glob.glob(directory + "/*/stock") and len(found := descendants(process.pid)) >= 3
                           and found, "the worker and its command")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        wait_until(lambda: not any(is_alive(pid) for pid in below), "its workers and their commands to be gone")
