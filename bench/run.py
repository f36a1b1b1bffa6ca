#!/usr/bin/env python3
"""Measures what an operation costs beside its business writes, in one interleaved run on one server.

usage: bench/run.py [--rounds N] [--seconds S] [--connections C]

Each round runs every script once, in turn, so that a machine that grows slower slows all of them. Printed: the median
over the rounds, its spread, the ratio to the floor beside it (round by round, its median), and per transaction the WAL
bytes, the round trips, and whether it is a write transaction at all.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SETTLE = os.path.join(ROOT, "build", "settle")

# script, what it is measured against, statements (each one round trip), label
SCRIPTS = [
    ("writes_alone", None, 1, "business writes alone, one call"),
    ("run", "writes_alone", 1, "the same by settle.run"),
    ("writes_transaction", None, 3, "business writes alone, BEGIN … COMMIT"),
    ("begin_complete", "writes_transaction", 5, "the same by begin_operation and complete"),
    ("select_only", None, 1, "prepared SELECT by integer key"),
    ("select_by_key", "select_only", 1, "prepared SELECT of an operation by key"),
    ("replay_begin", "select_only", 1, "replay by begin_operation"),
    ("replay_run", "select_only", 1, "replay by run"),
]


class Server:
    """A private server of Settle's own, with full durability, for this measurement alone."""

    def __enter__(self):
        self.home = tempfile.mkdtemp(prefix="settle-bench-")
        self.environment = dict(os.environ, SETTLE_HOME=self.home)
        self.environment.pop("SETTLE_DB", None)
        self.url = self.settle("db", "url").strip()
        self.settle("list", "--json")
        return self

    def __exit__(self, *_):
        self.settle("db", "down")
        shutil.rmtree(self.home, ignore_errors=True)

    def settle(self, *arguments):
        return subprocess.run([SETTLE, *arguments], env=self.environment, check=True, text=True,
                              stdout=subprocess.PIPE).stdout

    def sql(self, text):
        return subprocess.run(["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", text, self.url], check=True,
                              text=True, stdout=subprocess.PIPE).stdout.strip()

    def file(self, path):
        subprocess.run(["psql", "-X", "-q", "-o", os.devnull, "-v", "ON_ERROR_STOP=1", "-f", path, self.url], check=True)


def pgbench_program():
    found = shutil.which("pgbench")
    if found:
        return found
    versions = sorted((int(v), v) for v in os.listdir("/usr/lib/postgresql") if v.isdigit())
    return f"/usr/lib/postgresql/{versions[-1][1]}/bin/pgbench"


def measure(server, script, seconds, connections):
    """Transactions per second, WAL bytes and committed transactions with an id, per transaction."""
    before = server.sql("select pg_current_wal_insert_lsn(), pg_snapshot_xmax(pg_current_snapshot())").split("|")
    answer = subprocess.run(
        [pgbench_program(), "-n", "-M", "prepared", "-c", str(connections), "-j", "1", "-T", str(seconds), "-f",
         os.path.join(ROOT, "bench", "sql", script + ".sql"), server.url],
        check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    done = int(re.search(r"actually processed: (\d+)", answer).group(1))
    rate = float(re.search(r"tps = ([0-9.]+)", answer).group(1))
    wal, ids = server.sql(
        f"select pg_current_wal_insert_lsn() - '{before[0]}'::pg_lsn,"
        f" pg_snapshot_xmax(pg_current_snapshot())::text::bigint - {before[1]}").split("|")
    return rate, float(wal) / done, float(ids) / done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--connections", type=int, default=8)
    options = parser.parse_args()
    with Server() as server:
        print(server.sql("select version()"))
        print(f"{os.cpu_count()} cores, {options.connections} connections, {options.rounds} rounds of "
              f"{options.seconds} s each, fsync {server.sql('show fsync')}, "
              f"synchronous_commit {server.sql('show synchronous_commit')}")
        server.file(os.path.join(ROOT, "bench", "sql", "setup.sql"))
        # Full-page images after a checkpoint would be counted with whoever comes first: one warm round, then none.
        server.sql("alter system set checkpoint_timeout = '1h'")
        server.sql("alter system set max_wal_size = '16GB'")
        server.sql("select pg_reload_conf()")
        server.sql("vacuum analyze")
        rounds = {script: [] for script, *_ in SCRIPTS}
        for number in range(options.rounds + 1):
            for script, *_ in SCRIPTS:
                figures = measure(server, script, options.seconds if number else 1, options.connections)
                if number:
                    rounds[script].append(figures)
            print(f"round {number} of {options.rounds}" + ("" if number else " (warm-up, not counted)"), file=sys.stderr)
        print_table(rounds)


def print_table(rounds):
    print(f"{'':44} {'per second':>11} {'spread':>15} {'ratio':>6} {'WAL bytes':>10} {'round trips':>11} {'xids':>5}")
    for script, floor, trips, label in SCRIPTS:
        rates = [rate for rate, _, _ in rounds[script]]
        ratio = ""
        if floor:
            ratio = f"{statistics.median(a[0] / b[0] for a, b in zip(rounds[script], rounds[floor])):.2f}"
        wal = statistics.median(figure[1] for figure in rounds[script])
        ids = statistics.median(figure[2] for figure in rounds[script])
        print(f"{label:44} {statistics.median(rates):11.0f} {min(rates):7.0f}–{max(rates):<7.0f} {ratio:>6} {wal:10.0f} "
              f"{trips:11} {ids:5.1f}")


if __name__ == "__main__":
    main()
