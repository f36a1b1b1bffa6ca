"""Rules of any file: sizes, sleeps, and what must not be left behind."""

import re

SOURCE_LINES = 500
HEADER_LINES = 250
SQL_LINES = 400

LEFT_BEHIND = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
SLEEP = re.compile(r"sleep_for|sleep_until|\bpg_sleep|\btime\.sleep|\basyncio\.sleep|\b(?:u|nano)sleep\s*\("
                   r"|\bsleep\s*\(|\bsleep\s+[0-9$\"'{]")
SLEEP_MARK = "the thing under test"
FILE_MARK = "every sleep of this file is the thing under test"
HEAD_LINES = 40
POLL_MARK = "the step of a poll"


def sizes(source):
    """Files stay small."""
    lines = len(source.lines) - (source.lines[-1] == "")
    limit = {".cpp": SOURCE_LINES, ".py": SOURCE_LINES, ".sh": SOURCE_LINES, ".hpp": HEADER_LINES, ".h": HEADER_LINES,
             ".sql": SQL_LINES}.get(source.suffix)
    if limit is not None and lines > limit:
        yield limit + 1, f"{lines} lines; the limit of such a file is {limit}"


def left_behind(source):
    """What is not finished is not delivered."""
    if source.folder[0] == "tools" and "tidy_rules" in source.folder:
        return
    for number, line in enumerate(source.lines, 1):
        found = LEFT_BEHIND.search(line)
        if found:
            yield number, f"{found[0]}: finish it or leave it out"


def sleeps(source):
    """A test waits for the thing itself. A sleep that is the thing under test says so on its line, on the one before, or
    for all of its file at its head."""
    if source.folder[0] != "tests" or any(FILE_MARK in line for line in source.lines[:HEAD_LINES]):
        return
    before = ""
    for number, line in enumerate(source.lines, 1):
        marked = SLEEP_MARK in line or SLEEP_MARK in before or POLL_MARK in line
        if SLEEP.search(line) and not marked:
            yield number, f"a sleep in a test: wait for the thing itself, or mark the line: {SLEEP_MARK}"
        before = line


RULES = (sizes, left_behind, sleeps)
