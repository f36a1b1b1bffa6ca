"""The program's manners: arguments, help, errors, output that goes nowhere."""

import os
import re
import subprocess

import pytest

from conftest import PROGRAM
from private_server import assert_one_line


def raw(settle, *arguments, **options):
    """Runs the program with bytes as arguments, or with streams of the test's own."""
    return subprocess.run([PROGRAM, *arguments], env={**settle.environment, **options.pop("env", {})}, timeout=60,
                          check=False, **options)


def commands_of(help_text):
    """The names that a help text lists as commands."""
    if "\nCommands:\n" not in help_text:
        return []
    listed = help_text.split("\nCommands:\n")[1].split("\n\n")[0]
    return re.findall(r"^  (\S+)", listed, re.MULTILINE)


def every_command(settle, path=()):
    """Every command's words, groups included, as `--help` tells them."""
    for name in commands_of(settle(*path, "--help").stdout):
        yield (*path, name)
        yield from every_command(settle, (*path, name))


def test_no_command_prints_the_help(settle):
    answer = settle()
    assert answer.code == 2
    assert answer.stdout == settle("--help").stdout and answer.stderr == ""


def test_every_command_has_a_help_to_follow(settle):
    commands = list(every_command(settle))
    assert ("db", "up") in commands and ("migrate",) in commands
    for command in commands:
        answer = settle(*command, "--help")
        assert answer.code == 0 and answer.stderr == "", answer
        lines = answer.stdout.splitlines()
        assert len(lines[0]) > 20, "a sentence of what it does"
        assert f"Usage: settle {' '.join(command)}" in answer.stdout
        assert "Example" in answer.stdout, command
        assert f"settle {command[0]}" in answer.stdout.split("Example")[1] or command == ("migrate",)
        if not commands_of(answer.stdout):
            assert "Exit status" in answer.stdout, command
        assert max(map(len, lines)) <= 120, command


def test_help_needs_nothing(settle):
    answer = settle("--help", env={"SETTLE_HOME": "/proc/settle", "SETTLE_DB": "nonsense"})
    assert answer.code == 0
    assert "SETTLE_DB" in answer.stdout and "SETTLE_HOME" in answer.stdout


def test_version(settle):
    answer = settle("--version")
    assert answer.code == 0 and re.fullmatch(r"settle \d+\.\d+\.\d+\n", answer.stdout)


USAGE_ERRORS = [
    (["nonsense"], "settle nonsense"),
    (["db"], "settle db"),
    (["db", "nonsense"], "settle db nonsense"),
    (["db", "up", "nonsense"], "nonsense"),
    (["--nonsense"], "--nonsense"),
    (["db", "up", "--nonsense"], "--nonsense"),
    (["migrate", "--print=maybe"], "--print"),
    (["--db"], "--db"),
    (["migrate", "--namespace"], "--namespace"),
    (["--db", "a", "--db", "b", "migrate"], "--db"),
    (["exec", "--", "true"], "--key"),
    (["exec", "--key", "k"], "--"),
    (["exec", "--key", "k", "true"], "`--`"),
    (["exec", "--key", "k", "--rerun", "--", "true"], "--operator"),
    (["exec", "--key", "k", "--operator", "ann", "--", "true"], "--rerun"),
    (["show"], "KEY"),
    (["show", "a", "b"], "`b`"),
    (["list", "--limit", "many"], "--limit"),
    (["lease", "hold", "r"], "--"),
    (["lease", "acquire", "r"], "--holder"),
    (["review", "decide", "k", "--operator", "ann", "--reason", "r"], "--as"),
]


@pytest.mark.parametrize("arguments, named", USAGE_ERRORS, ids=[" ".join(words) for words, _ in USAGE_ERRORS])
def test_wrong_usage_is_two_and_one_line(settle, arguments, named):
    answer = settle(*arguments)
    assert_one_line(answer, 2)
    assert answer.stderr.startswith("settle: INVALID_ARGUMENT: ")
    assert named in answer.stderr and "--help`" in answer.stderr
    assert answer.stdout == ""


def test_wrong_usage_as_a_document(settle):
    for arguments in (["--json", "db", "nonsense"], ["db", "nonsense", "--json"]):
        answer = settle(*arguments)
        assert_one_line(answer, 2)
        error = answer.json()["error"]
        assert error.pop("message") in answer.stderr
        assert error == {"code": "INVALID_ARGUMENT", "detail": None}


@pytest.mark.parametrize("arguments, named", [
    ([b"--namespace", b"a\xff", b"migrate"], "--namespace"),
    ([b"--namespace=a\xff", b"migrate"], "--namespace"),
    ([b"migrate", b"--db", b"\xc0\xaf"], "--db"),
    ([b"db", b"\xed\xa0\x80"], "argument 2"),
])
def test_arguments_that_are_not_utf8(settle, arguments, named):
    done = raw(settle, *arguments, capture_output=True)
    assert done.returncode == 2
    assert done.stderr == f"settle: INVALID_ARGUMENT: {named}: it is not UTF-8\n".encode()


def test_an_empty_value_takes_no_other_word(settle, home):
    answer = settle("--namespace=", "db", "status", env={"SETTLE_HOME": home})
    assert answer.code == 1, "`db` is the command, not the namespace"


def test_hostile_text_stays_on_one_line(settle):
    answer = settle("db", "a\nb\x1b[31m\u202e")
    assert_one_line(answer, 2)
    assert "\x1b" not in answer.stderr and "\u202e" not in answer.stderr


def test_global_options_before_and_after_the_command(settle, empty_database):
    before = settle("--json", "--db", empty_database, "migrate")
    assert before.code == 0, before
    assert before.json()["applied"] > 0
    after = settle("migrate", "--json", "--db", empty_database)
    assert after.json() == {**before.json(), "applied": 0, "functions_renewed": 0}


def test_the_environment_names_the_database(settle, empty_database):
    assert settle("migrate", "--json", env={"SETTLE_DB": empty_database}).json()["applied"] > 0
    chosen = settle("--db", empty_database, "migrate", "--json", env={"SETTLE_DB": "postgresql:///x?host=/nonexistent"})
    assert chosen.code == 0 and chosen.json()["applied"] == 0


def test_migrate_in_words(settle, empty_database):
    first = settle("--db", empty_database, "migrate")
    assert first.code == 0 and first.stdout.count("\n") == 1 and "applied" in first.stdout
    second = settle("--db", empty_database, "migrate")
    assert second.code == 0 and "nothing to do" in second.stdout


def test_migrate_prints_what_psql_can_run(settle, empty_database, psql):
    script = settle("migrate", "--print", env={"SETTLE_HOME": "/proc/settle"})
    assert script.code == 0, "no database is needed to print"
    assert settle("migrate", "--print", "--json").json() == {"sql": script.stdout}
    psql(empty_database, script.stdout)
    after = settle("--db", empty_database, "migrate", "--json")
    assert after.json()["applied"] == 0 and after.json()["functions_renewed"] == 0


@pytest.mark.parametrize("arguments", [["migrate"], ["--json", "migrate"]])
def test_a_database_that_is_not_there(settle, arguments):
    answer = settle(*arguments, "--db", "postgresql://ann:open-sesame@/none?host=/nonexistent")
    assert_one_line(answer, 69)
    assert answer.stderr.startswith("settle: DATABASE_UNREACHABLE: ")
    assert "open-sesame" not in answer.stderr + answer.stdout
    if "--json" in arguments:
        assert answer.json()["error"]["code"] == "DATABASE_UNREACHABLE"


def test_a_reader_that_went_away_is_no_failure(settle):
    read, write = os.pipe()
    os.close(read)
    try:
        done = raw(settle, "--help", stdout=write, stderr=subprocess.PIPE)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_answer_that_cannot_be_written_is_told(settle):
    with open("/dev/full", "wb") as full:
        done = raw(settle, "--version", stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 70
    assert done.stderr.startswith(b"settle: INTERNAL: ") and done.stderr.count(b"\n") == 1


def test_closed_standard_streams_do_not_meet_the_database(settle, database):
    """A connection must not become standard output, where it would be written to."""
    closed = f"exec '{PROGRAM}' --db '{database}' migrate <&- >&- 2>&-"
    done = subprocess.run(["sh", "-c", closed], env=settle.environment, timeout=60, check=False)
    assert done.returncode == 0


def test_what_follows_the_mark_is_the_commands_own(settle, database):
    words = ["--key", "--json", "--", "", "a b", "-x", "$HOME"]
    answer = settle("exec", "--db", database, "--key", "k", "--", "printf", "%s|", *words)
    assert (answer.code, answer.stdout) == (0, "|".join(words) + "|"), answer
    held = settle("lease", "hold", "r", "--db", database, "--", "printf", "%s|", *words)
    assert (held.code, held.stdout) == (0, "|".join(words) + "|"), held


def test_a_command_may_take_any_bytes(settle, database):
    done = raw(settle, "exec", "--db", database, "--key", "k", "--", "printf", "%s", b"\xff", capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"\xff"), done


@pytest.mark.parametrize("key", ["list", "exec", "[a,b]", "{}", "a=b", "++"])
def test_keys_that_look_like_something_else(settle, database, key):
    assert settle("exec", "--db", database, "--key", key, "--", "true").code == 0
    assert settle("--db", database, "--json", "show", "--", key).json()["key"] == key


def test_a_key_that_begins_with_a_hyphen(settle, database):
    assert settle("exec", "--db", database, "--key", "-k", "--", "true").code == 0
    assert settle("show", "--db", database, "--json", "--", "-k").json()["key"] == "-k"


@pytest.mark.parametrize("command", [["list"], ["exec", "--key", "k", "--", "touch"]], ids=["list", "exec"])
def test_a_named_database_is_never_migrated_unasked(settle, empty_database, psql, tmp_path, command):
    words = command + ([str(tmp_path / "ran")] if command[-1] == "touch" else [])
    secret = empty_database + "&password=open-sesame"
    answer = settle("--db", secret, *words)
    assert_one_line(answer, 110)
    assert "`settle --db … migrate`" in answer.stderr
    assert "open-sesame" not in answer.stderr + answer.stdout
    assert psql(empty_database, "select count(*) from pg_namespace where nspname like 'settle%'") == "0"
    assert not (tmp_path / "ran").exists()


def test_the_private_server_is_started_and_migrated_by_whoever_needs_it(new_db, settle, home):
    answer = settle("list", "--json", env={"SETTLE_HOME": home})
    assert answer.code == 0, answer
    assert new_db("status").code == 0
