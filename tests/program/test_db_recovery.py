"""The private PostgreSQL after a kill, with leftovers, on a full disk, and without its package."""

import glob
import os
import pwd
import shutil
import subprocess

import pytest

import cluster as support
from private_server import as_user, assert_one_line, kill_server, owner, pid_of, state_of, up

ROOT = os.getuid() == 0


def test_a_killed_server_comes_back_with_its_data(db, psql, wait_until):
    url = up(db)["url"]
    psql(url, "create table kept (n int); insert into kept values (1)")
    first = kill_server(db, wait_until)
    assert db("status").code == 1
    assert db("url").stdout == url + "\n"
    assert psql(url, "select n from kept") == "1"
    assert pid_of(db) != first


def test_a_killed_server_with_a_busy_backend_left(db, connect, psql, wait_until):
    """A backend in a loop does not notice the postmaster's death, and holds the shared memory."""
    url = up(db)["url"]
    busy = subprocess.Popen([support.server_directory() + "/psql", "-X", url, "-c", """
        do $$ declare until timestamptz := clock_timestamp() + '3 s';
              begin while clock_timestamp() < until loop end loop; end $$"""],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: psql(url, "select 1 from pg_stat_activity where query like '%do $$%until%' and state = 'active'"
                                 " and pid <> pg_backend_pid()"), "the busy backend")
    kill_server(db, wait_until)
    up(db)
    assert psql(url, "select 1") == "1"
    busy.wait()


def test_a_stale_pid_file_that_names_a_living_process(db, home, psql, wait_until):
    url = up(db)["url"]
    kill_server(db, wait_until)
    server_user = pwd.getpwuid(owner(home + "/data")).pw_name
    # Of the server's own user: one that PostgreSQL would take for a running server.
    command = as_user(server_user, "sleep", "1000") if ROOT else ["sleep", "1000"]
    with subprocess.Popen(command) as stranger:
        try:
            wait_until(lambda: owner(f"/proc/{stranger.pid}") == owner(home + "/data"), "the stranger's start")
            for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
                path = f"{home}/data/{name}"
                with open(path, encoding="utf-8") as file:
                    lines = file.readlines()
                with open(path, "w", encoding="utf-8") as file:
                    file.writelines([f"{stranger.pid}\n", *lines[1:]])
            assert db("status").code == 1
            assert db("down").code == 0
            assert stranger.poll() is None, "nobody else's process is stopped"
            up(db)
            assert stranger.poll() is None
            assert psql(url, "select 1") == "1"
        finally:
            stranger.kill()


def test_a_copied_cluster_is_not_taken_for_the_running_one(settle, db, home):
    first = up(db)
    other = os.path.dirname(home) + "/copy"
    shutil.copytree(home, other, ignore=lambda _, names: [name for name in names if name == ".s.PGSQL.5432"])
    if ROOT:
        subprocess.run(["chown", "-R", f"--reference={home}/data", other + "/data"], check=True)
    # Copied without a checkpoint in between, it may be torn; whose process it names is the question.
    answer = settle("db", "status", "--json", env={"SETTLE_HOME": other})
    assert answer.code == 1 and answer.json()["running"] is False
    assert settle("db", "down", env={"SETTLE_HOME": other}).code == 0
    assert state_of(db) == first


def test_a_moved_home_still_has_its_server(settle, db, home):
    first = up(db)
    other = home + "-moved"
    os.rename(home, other)
    try:
        moved = settle("db", "status", "--json", env={"SETTLE_HOME": other}).json()
        assert moved["running"] and moved["pid"] == first["pid"]
    finally:
        os.rename(other, home)


def test_an_interrupted_first_start_leaves_no_half_cluster(settle, new_db, home, wait_until):
    process = settle.spawn("db", "up", env={"SETTLE_HOME": home})
    wait_until(lambda: glob.glob(home + "/data.new-*/base"), "initdb at work")
    process.kill()
    process.wait()
    assert state_of(new_db)["initialised"] is False
    up(new_db)
    assert glob.glob(home + "/data.new-*") == []


def test_a_missing_server_package(new_db, home, tmp_path):
    answer = new_db("up", env={"SETTLE_PG_BIN": str(tmp_path)})
    assert_one_line(answer, 69)
    assert "SETTLE_PG_BIN" in answer.stderr and str(tmp_path) in answer.stderr
    assert not os.path.exists(home + "/data")


@pytest.mark.parametrize("script, says", [
    ("echo nothing of that kind", "does not tell its version"),
    ("echo 'postgres (PostgreSQL) 14.3'", "needs 15"),
    ("echo 'postgres (PostgreSQL) 15.3'; exit 1", "does not tell its version"),
])
def test_another_program_for_the_server(new_db, script, says):
    with support.temporary_directory("settle-bin.") as directory:
        for name in ("postgres", "initdb"):
            with open(f"{directory}/{name}", "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\n{script}\n")
            os.chmod(f"{directory}/{name}", 0o755)
        answer = new_db("up", env={"SETTLE_PG_BIN": directory})
    assert_one_line(answer, 69)
    assert says in answer.stderr


@pytest.mark.parametrize("version, says", [("14", "move that directory away"), ("99", "postgresql-99")])
def test_a_cluster_of_another_version(db, home, version, says):
    real = up(db)["version"]
    assert db("down").code == 0
    for written, check in ((version, lambda answer: assert_one_line(answer, 69)), (real, None)):
        with open(home + "/data/PG_VERSION", "w", encoding="utf-8") as file:
            file.write(written + "\n")
        answer = db("up")
        if check:
            check(answer)
            assert says in answer.stderr
        else:
            assert answer.code == 0


def test_a_damaged_cluster_is_not_overwritten(db, home):
    up(db)
    assert db("down").code == 0
    os.rename(home + "/data/PG_VERSION", home + "/data/PG_VERSION.away")
    answer = db("up")
    assert_one_line(answer, 69)
    assert "PG_VERSION" in answer.stderr
    os.rename(home + "/data/PG_VERSION.away", home + "/data/PG_VERSION")
    up(db)


def test_the_servers_own_reason_is_told(db, home):
    up(db)
    assert db("down").code == 0
    with open(home + "/data/postgresql.conf", "a", encoding="utf-8") as file:
        file.write("no_such_setting_at_all = 1\n")
    answer = db("up")
    assert_one_line(answer, 69)
    assert "configuration file" in answer.stderr and home + "/server.log" in answer.stderr


@pytest.fixture
def small_disk(settle, home):
    """small_disk(megabytes) → a home on a file system of that size"""
    places = []

    def make(megabytes):
        place = os.path.dirname(home) + "/disk"
        os.mkdir(place)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "none", place],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"a small file system cannot be mounted: {done.stderr.strip()}")
        places.append(place)
        return place

    yield make
    for place in places:
        stopped = settle("db", "down", env={"SETTLE_HOME": place + "/home"})
        subprocess.run(["umount", place], check=True)
        assert stopped.code == 0, stopped


def fill(path):
    """Writes until nothing more goes in."""
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass


def test_a_full_disk_at_the_first_start(settle, small_disk):
    place = small_disk(30)
    answer = settle("db", "up", env={"SETTLE_HOME": place + "/home"})
    assert_one_line(answer, 69)
    assert "No space left on device" in answer.stderr and "free some space" in answer.stderr
    assert glob.glob(place + "/home/data*") == []


def test_a_full_disk_at_a_later_start(settle, small_disk):
    place = small_disk(100)
    env = {"SETTLE_HOME": place + "/home"}
    assert settle("db", "up", env=env).code == 0
    assert settle("db", "down", env=env).code == 0
    fill(place + "/filler")
    answer = settle("db", "up", env=env)
    assert_one_line(answer, 69)
    assert "free some space" in answer.stderr
    os.remove(place + "/filler")
    assert settle("db", "up", env=env).code == 0


def test_a_disk_that_becomes_full_loses_nothing_acknowledged(settle, small_disk, psql):
    place = small_disk(120)
    env = {"SETTLE_HOME": place + "/home"}
    url = settle("db", "url", env=env).stdout.strip()
    psql(url, "create table kept (n int, filler text)")
    fill(place + "/filler")
    acknowledged = 0
    with pytest.raises(RuntimeError):
        while True:
            psql(url, f"insert into kept select {acknowledged + 1}, string_agg(md5(i::text), '')"
                      " from generate_series(1, 8000) i")
            acknowledged += 1
    os.remove(place + "/filler")
    assert settle("db", "url", env=env).stdout.strip() == url
    assert psql(url, "select count(*), max(n) from kept") in (f"{acknowledged}|{acknowledged or ''}",
                                                             f"{acknowledged + 1}|{acknowledged + 1}")
