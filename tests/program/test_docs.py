"""The documents and the product say the same: links, codes, options, functions, columns, members of a kind."""

import os
import re

import pytest

from conftest import ROOT
from test_cli import every_command

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
INTERNAL = ("begin_locked", "check_handler", "handler_of", "is_sound_request", "require_fence", "run_finish",
            "run_record")
INTERNAL_VIEWS = ("keys", "sql_handlers")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def documents():
    found = ["README.md"]
    for directory, _, names in os.walk(os.path.join(ROOT, "docs")):
        found += [os.path.relpath(os.path.join(directory, name), ROOT) for name in names if name.endswith(".md")]
    return sorted(found)


def anchors(text):
    """The anchors that headings get, as code hosts make them."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
            for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def section(text, heading):
    """What stands below a heading, up to the next one of its level."""
    level = heading.split(" ")[0]
    return re.split(rf"^{level} ", text.split(heading + "\n", 1)[1], flags=re.MULTILINE)[0]


def table_rows(text):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.split("\n") if line.startswith("| ")]


@pytest.mark.parametrize("path", documents())
def test_every_link_leads_somewhere(path):
    links = [link for link in LINK.findall(read(path)) if "://" not in link]
    for link in links:
        target, _, anchor = link.partition("#")
        full = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
        assert os.path.exists(os.path.join(ROOT, full)), f"{path}: {link}"
        if anchor:
            assert anchor in anchors(read(full)), f"{path}: {link}"


def test_every_document_can_be_reached_from_the_readme():
    reached, left = set(), ["README.md"]
    while left:
        path = left.pop()
        if path in reached or not path.endswith(".md"):
            continue
        reached.add(path)
        for link in LINK.findall(read(path)):
            target = link.partition("#")[0]
            if target and "://" not in target:
                left.append(os.path.normpath(os.path.join(os.path.dirname(path), target)))
    assert sorted(reached) == documents()


def test_the_table_of_codes_is_the_program_s():
    source = re.findall(r'CodeInfo\{Code::\w+, "(\w+)", "(\w*)", (\d+), (\d+)\}', read("src/base/error.cpp"))
    assert len(source) > 10
    written = [tuple(cell.strip("`") for cell in row[:4]) for row in table_rows(read("docs/reference/errors.md"))
               if row[0].startswith("`")]
    assert written == source


def test_every_command_and_option_is_described(settle):
    text = read("docs/reference/cli.md")
    commands = list(every_command(settle))
    assert len(commands) > 10
    for words in commands:
        name = " ".join(words)
        head = next((heading for heading in re.findall(r"^## .+$", text, re.MULTILINE)
                     if words[0] in heading[3:].split(", ")), None)
        assert head, f"no section for {name}"
        part = section(text, head)
        assert words[-1] in part or len(words) == 1, name
        help_text = settle(*words, "--help").stdout
        for option in set(re.findall(r"^  (?:-\w,)?(--[a-z-]+)", help_text, re.MULTILINE)) - {"--help"}:
            assert option in part, f"{name} {option}"


def test_no_option_is_described_that_is_not_there(settle):
    helps = "".join(settle(*words, "--help").stdout for words in [(), *every_command(settle)])
    for option in set(re.findall(r"--[a-z][a-z-]+", read("docs/reference/cli.md"))):
        assert option in helps, option


def test_every_function_and_argument_is_described(database, psql):
    text = read("docs/reference/sql.md")
    rows = psql(database, """
        select p.proname || '|' || coalesce(array_to_string(p.proargnames, ','), '')
          from pg_proc p where p.pronamespace = 'settle'::regnamespace""").strip().split("\n")
    assert len(rows) > 20
    for row in rows:
        name, arguments = row.split("|")
        assert f"`{name}`" in text or f"\n### {name}\n" in text or f"`{name}(" in text, name
        if name in INTERNAL or not arguments:
            continue
        signature = re.search(rf"(?:^    |`){name}\((.*?)\)", text, re.DOTALL | re.MULTILINE)
        assert signature, name
        written = [argument.split()[0] for argument in re.split(r",\s*", signature[1])]
        assert written == arguments.split(","), name


def test_every_column_is_described(database, psql):
    rows = {row[0].strip("`"): row for row in table_rows(section(read("docs/reference/sql.md"), "## Views"))}
    catalog = psql(database, """
        select c.relname || '|' || string_agg(a.attname, ',' order by a.attnum)
          from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
         where c.relnamespace = 'settle'::regnamespace and c.relkind = 'v' group by c.relname""").strip().split("\n")
    assert len(catalog) > 5
    for line in catalog:
        view, columns = line.split("|")
        if view in INTERNAL_VIEWS:
            continue
        named = re.sub(r"\(.*?\)", "", rows[view][2].split(": ")[0])  # members of a column stand in brackets
        assert re.findall(r"`(\w+)`", named) == columns.split(","), view


def test_every_member_of_a_kind_is_described(database, psql):
    text = read("docs/reference/kinds.md")
    members = psql(database, "select path, form from settle_data.kind_member where form <> 'object'").strip().split("\n")
    assert len(members) > 30
    for member in members:
        path, _, form = member.partition("|")
        group, _, name = path.rpartition(".")
        assert f"`{path}`" in text or (group and f"| `{group}` |" in text and f"`{name}`" in text), path
        if form.startswith("choice:"):
            assert all(f"`{choice}`" in text for choice in form.partition(":")[2].split("|")), path


def test_the_limits_are_the_program_s():
    text = read("docs/reference/limits.md")
    source = read("src/base/limits.hpp")
    spelt = {"key_bytes = 255": "1 to 255 bytes", "stored_key_bytes = 511": "511 bytes", "name_bytes = 63": "1 to 63 bytes",
             "request_bytes = 1U << 20U": "1 MiB", "result_bytes = 1U << 20U": "1 MiB", "kept_text_bytes = 64U << 10U": "64 KiB",
             "json_depth = 32": "| 32 |", "number_digits = 400": "400 digits", "number_exponent = 308": "below 1e309",
             "duration_min = 1ms": "1 ms", "duration_max = 10 * 365 * 24h": "10 years", "lock_wait = 5s": "| 5 s",
             "connect_wait = 10s": "| 10 s", "statement_wait = 60s": "| 60 s", "server_start_wait = 90s": "| 90 s",
             "record_wait = 120s": "| 120 s"}
    assert sorted(spelt) == sorted(re.findall(r"constexpr \S+ ([a-z_]+ = [^;]+);", source))
    for limit, words in spelt.items():
        assert words in text, limit
