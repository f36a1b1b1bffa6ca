#!/usr/bin/python3
"""Runs the tests and ends with the line `N passed, N failed`.

usage: tests/run.py [--all] [--accept] [--match TEXT] [SUITE…]

suites: format tidy unit sql isolation program (the default, in this order), lint, sanitize
--all     also lint, sanitize, and the tests marked slow
--accept  writes tests/isolation/expected/*.out anew
--match   only tests whose name holds TEXT
"""

import argparse
import contextlib
import difflib
import glob
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

import cluster as support  # noqa: E402  (found beside this file)

TEMPLATE = "settle_template"
PROGRAM = os.path.join(ROOT, "build", "settle")
ISOLATION_SECONDS = 120


class Counts:
    """What one suite found."""

    def __init__(self, passed=0, failed=0, skipped=0):
        self.passed, self.failed, self.skipped = passed, failed, skipped

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped


class Run:
    """One run: its options, and the cluster that is started when a suite first needs it."""

    def __init__(self, options):
        self.options = options
        self.cluster = None
        self.numbers = 0
        self.template_problem = None

    def url(self):
        if self.cluster is None:
            self.cluster = support.Cluster().start()
            os.environ["SETTLE_TEST_URL"] = self.cluster.url()
        return self.cluster.url()

    def template(self):
        """The name of the migrated database that tests clone; nothing where it cannot be made."""
        url = self.url()
        if os.environ.get("SETTLE_TEST_TEMPLATE") == TEMPLATE:
            return TEMPLATE
        if self.template_problem is not None:
            return None
        target = support.create_database(url, TEMPLATE)
        if not os.path.exists(PROGRAM):
            self.template_problem = "build/settle is missing: nothing can be migrated"
            return None
        done = subprocess.run([PROGRAM, "--db", target, "migrate"], env=support.clean_environment(), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode != 0:
            self.template_problem = f"settle migrate failed: {done.stderr.strip()}"
            return None
        os.environ["SETTLE_TEST_TEMPLATE"] = TEMPLATE
        return TEMPLATE

    @contextlib.contextmanager
    def database(self):
        self.numbers += 1
        name = f"settle_t{self.numbers}"
        url = support.create_database(self.url(), name, self.template())
        try:
            yield url
        finally:
            support.drop_database(self.url(), name)

    def files(self, pattern):
        found = sorted(glob.glob(os.path.join(ROOT, pattern), recursive=True))
        return [path for path in found if self.options.match in os.path.relpath(path, ROOT)]


def say(state, name, text=""):
    print(f"{state:4} {name}", flush=True)
    if text.strip():
        print("     " + text.strip().replace("\n", "\n     "), flush=True)


def needs_template(run, suite, files):
    """The counts of a suite that cannot run for want of a migrated database, or nothing."""
    if not files or run.template() is not None:
        return None
    say("FAIL" if os.environ.get("CI") else "SKIP", f"{suite} ({len(files)} files)", run.template_problem)
    return Counts(failed=len(files)) if os.environ.get("CI") else Counts(skipped=len(files))


def one_command(name, command):
    done = subprocess.run(command, cwd=ROOT, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    say("ok" if done.returncode == 0 else "FAIL", name, "" if done.returncode == 0 else done.stdout)
    return Counts(passed=1) if done.returncode == 0 else Counts(failed=1)


def suite_format(_run):
    return one_command("format", [os.path.join(ROOT, "tools", "format"), "--check"])


def suite_lint(run):
    deep = ["--deep"] if run.options.all else []
    return one_command("clang-tidy", [os.path.join(ROOT, "tools", "lint"), *deep])


def suite_tidy(_run):
    counts = one_command("tidy", [os.path.join(ROOT, "tools", "tidy")])
    counts.add(one_command("tidy --self-test", [os.path.join(ROOT, "tools", "tidy"), "--self-test"]))
    return counts


def run_unit(run, binary):
    if not os.path.exists(binary):
        say("FAIL", "unit", f"{binary} is missing: is libgtest-dev installed?")
        return Counts(failed=1)
    run.url()
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [binary, "--gtest_brief=1", "--gtest_output=json:" + report.name]
        if run.options.match:
            command.append(f"--gtest_filter=*{run.options.match}*")
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False)
        try:
            tests = [test for suite in json.load(report)["testsuites"] for test in suite["testsuite"]]
        except ValueError:
            tests = []
    failed = sum("failures" in test for test in tests)
    skipped = sum(test["result"] == "SKIPPED" for test in tests)
    counts = Counts(len(tests) - failed - skipped, failed, skipped)
    if done.returncode != 0 and failed == 0:
        counts.failed += 1  # it died before it could say which
    say("ok" if counts.failed == 0 else "FAIL", f"unit: {counts.passed} of {len(tests)}")
    return counts


def suite_unit(run):
    return run_unit(run, os.path.join(ROOT, "build", "settle_unit"))


def suite_sanitize(run):
    built = one_command("build with address and undefined sanitizers", [os.path.join(ROOT, "tools", "sanitize")])
    if built.failed:
        return built
    return run_unit(run, os.path.join(ROOT, "build-sanitize", "settle_unit"))


def suite_sql(run):
    files = run.files("tests/sql/**/*.sql")
    counts = needs_template(run, "sql", files)
    if counts is not None:
        return counts
    counts = Counts()
    for path in files:
        with run.database() as url:
            done = subprocess.run([os.path.join(support.server_directory(), "psql"), "-X", "-q", "-v",
                                   "ON_ERROR_STOP=1", "-d", url, "-f", path],
                                  cwd=ROOT, env=support.clean_environment(), text=True, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        good = done.returncode == 0
        counts.add(Counts(passed=1) if good else Counts(failed=1))
        say("ok" if good else "FAIL", os.path.relpath(path, ROOT), "" if good else done.stdout)
    return counts


def isolation_output(run, tester, spec):
    """What isolationtester prints for a spec in a database of its own."""
    with run.database() as url, open(spec, encoding="utf-8") as text:
        try:
            done = subprocess.run([tester, url], stdin=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env=dict(support.clean_environment(), PGAPPNAME="isolation"),
                                  timeout=ISOLATION_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return None, f"no end after {ISOLATION_SECONDS} s"
    return done.returncode, done.stdout


def suite_isolation(run):
    specs = run.files("tests/isolation/*.spec")
    counts = needs_template(run, "isolation", specs)
    if counts is not None:
        return counts
    counts = Counts()
    tester = os.path.join(os.path.dirname(support.server_directory()), "lib/pgxs/src/test/isolation/isolationtester")
    for spec in specs:
        name = os.path.relpath(spec, ROOT)
        status, output = isolation_output(run, tester, spec)
        path = os.path.join(ROOT, "tests", "isolation", "expected", os.path.basename(spec)[:-5] + ".out")
        if run.options.accept and status == 0:
            with open(path, "w", encoding="utf-8") as file:
                file.write(output)
        expected = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                expected = file.read()
        good = status == 0 and output == expected
        counts.add(Counts(passed=1) if good else Counts(failed=1))
        difference = output if status != 0 else "".join(difflib.unified_diff(
            expected.splitlines(True), output.splitlines(True), os.path.relpath(path, ROOT), "this run"))
        say("ok" if good else "FAIL", name, "" if good else difference)
    return counts


def suite_program(run):
    files = run.files("tests/program/test_*.py") if not run.options.match else [os.path.join(ROOT, "tests/program")]
    counts = needs_template(run, "program", files)
    if counts is not None:
        return counts
    if not files:
        return Counts()
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        command = ["/usr/bin/python3", "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junit-xml", report.name,
                   "tests/program"]
        command += [] if run.options.all else ["-m", "not slow"]
        command += ["-k", run.options.match] if run.options.match else []
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False)
        try:
            suite = xml.etree.ElementTree.parse(report.name).getroot().find("testsuite")
            failed = int(suite.get("failures")) + int(suite.get("errors"))
            skipped = int(suite.get("skipped"))
            counts = Counts(max(0, int(suite.get("tests")) - failed - skipped), failed, skipped)
        except (xml.etree.ElementTree.ParseError, AttributeError):
            counts = Counts()
    nothing_collected = 5
    if done.returncode not in (0, nothing_collected) and counts.failed == 0:
        counts.failed = 1
    return counts


# Of those whose calls PostgreSQL counts: a function in SQL may be inlined, and one that only raises never returns.
COUNTED_FUNCTIONS = r"""
    select n.nspname || '.' || p.proname
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace join pg_language l on l.oid = p.prolang
     where n.nspname in ('settle', 'settle_data') and l.lanname = 'plpgsql'
       and p.prosrc !~* '^\s*(declare\s((?!\ybegin\y).)*)?begin\s+raise\y'"""


def check_functions(run, path):
    """Every function of Settle is called by some test."""
    if run.template() is None:
        return Counts()
    support.note_functions(run.url())
    with open(path, encoding="utf-8") as file:
        called = set(file.read().split())
    every = set(support.psql(support.with_database(run.url(), TEMPLATE), COUNTED_FUNCTIONS).split())
    return judge_cover("every SQL function is called by some test", every, called)


def check_queries(run):
    """Every file of sql/query is run by some test, as the server's log tells."""
    log = " ".join(run.cluster.log().split())
    every, called = set(), set()
    for path in glob.glob(os.path.join(ROOT, "sql", "query", "*.sql")):
        name = os.path.basename(path)
        every.add(name)
        with open(path, encoding="utf-8") as file:
            if " ".join(file.read().split()) in log:
                called.add(name)
    return judge_cover("every query is run by some test", every, called)


def judge_cover(what, every, called):
    missing = sorted(every - called)
    say("FAIL" if missing else "ok", f"{what}: {len(every) - len(missing)} of {len(every)}",
        "never: " + " ".join(missing) if missing else "")
    return Counts(failed=1) if missing else Counts(passed=1)


SUITES = {"format": suite_format, "tidy": suite_tidy, "lint": suite_lint, "unit": suite_unit, "sql": suite_sql,
          "isolation": suite_isolation, "program": suite_program, "sanitize": suite_sanitize}
DEFAULT = ["format", "tidy", "unit", "sql", "isolation", "program"]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--accept", action="store_true")
    parser.add_argument("--match", default="")
    parser.add_argument("suites", nargs="*", metavar="SUITE")
    options = parser.parse_args()
    unknown = [name for name in options.suites if name not in SUITES]
    if unknown:
        parser.error(f"no suite is called {unknown[0]}")
    suites = options.suites or (DEFAULT + ["lint", "sanitize"] if options.all else DEFAULT)
    whole = set(DEFAULT) <= set(suites) and not options.match
    support.stop_on_signals()
    run = Run(options)
    total = Counts()
    with tempfile.NamedTemporaryFile(prefix="settle-functions.") as functions:
        os.environ["SETTLE_TEST_FUNCTIONS"] = functions.name
        os.environ.pop("SETTLE_TEST_TEMPLATE", None)
        try:
            for name in suites:
                started = time.monotonic()
                print(f"== {name}", flush=True)
                total.add(SUITES[name](run))
                print(f"   {time.monotonic() - started:.1f} s", flush=True)
            if whole:
                total.add(check_functions(run, functions.name))
                total.add(check_queries(run))
        finally:
            if run.cluster is not None:
                run.cluster.stop()
    none_ran = total.passed + total.failed == 0
    if none_ran:
        print("no test ran")
    skipped = f", {total.skipped} skipped" if total.skipped else ""
    print(f"{total.passed} passed, {total.failed} failed{skipped}", flush=True)
    return 1 if total.failed or none_ran else 0


if __name__ == "__main__":
    sys.exit(main())
