"""Migrating: any number at once, two databases at once on a cluster without roles, and after one that failed half-way."""

import threading

import psycopg2
import pytest

import cluster as support

AT_ONCE = 20


def migrate_at_once(settle, urls):
    """Runs one migrate for each URL, all at once."""
    answers = [None] * len(urls)
    barrier = threading.Barrier(len(urls))

    def one(index):
        barrier.wait()
        answers[index] = settle("--db", urls[index], "migrate", "--json", timeout=150)

    threads = [threading.Thread(target=one, args=(index,), daemon=True) for index in range(len(urls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def the_same_everywhere(psql, url):
    """What a migrated database is, as text."""
    return psql(url, """
        select 'migration ' || number || ' ' || name || ' ' || sha256 from settle_data.migration
        union all select 'api ' || name || ' ' || sha256 from settle_data.api_file
        union all select p.oid::regprocedure || ' ' || md5(p.prosrc) || coalesce(p.proacl::text, '') from pg_proc p
         where p.pronamespace in ('settle'::regnamespace, 'settle_data'::regnamespace)
        union all select c.oid::regclass || ' ' || c.relkind::text || coalesce(c.relacl::text, '') from pg_class c
         where c.relnamespace in ('settle'::regnamespace, 'settle_data'::regnamespace) and c.relkind <> 'c'
         order by 1""")


def test_twenty_migrate_one_database(settle, empty_database, database, psql):
    answers = migrate_at_once(settle, [empty_database] * AT_ONCE)
    assert [answer for answer in answers if answer.code != 0] == []
    reports = [answer.json() for answer in answers]
    assert sorted(report["applied"] for report in reports)[:-1] == [0] * (AT_ONCE - 1)
    assert max(report["applied"] for report in reports) == reports[0]["version"] > 0
    assert the_same_everywhere(psql, empty_database) == the_same_everywhere(psql, database)
    assert psql(empty_database, "select count(*) from pg_locks where locktype = 'advisory'") == "0"


def test_two_databases_on_a_cluster_without_roles(settle, psql):
    """Roles belong to the cluster, and advisory locks to one database: both make them at once."""
    cluster = support.Cluster().start()
    try:
        for attempt in range(3):
            first, second = (support.create_database(cluster.url(), f"{name}{attempt}") for name in ("first", "second"))
            answers = migrate_at_once(settle, [first, second] * 4)
            assert [answer for answer in answers if answer.code != 0] == []
            assert the_same_everywhere(psql, first) == the_same_everywhere(psql, second)
            assert psql(first, "select count(*) from pg_roles where rolname like 'settle\\_%'") == "7"
            assert psql(first, """select string_agg(r.rolname || '<' || m.rolname, ' ' order by r.rolname, m.rolname)
                from pg_auth_members a join pg_roles r on r.oid = a.roleid join pg_roles m on m.oid = a.member
                where m.rolname like 'settle\\_%'""") == (
                    "settle_app<settle_operator settle_operator<settle_admin settle_viewer<settle_app "
                    "settle_viewer<settle_worker settle_worker<settle_admin")
            assert psql(first, "select settle.begin_operation('K', 'k', lease => '1h')").startswith("(started,1,")
            # and again on a cluster that has no roles any more
            for url in (first, second):
                psql(url, "drop schema settle, settle_data cascade")
            psql(cluster.url(), "drop database first%d; " % attempt)
            psql(cluster.url(), "drop database second%d; " % attempt)
            psql(cluster.url(), "drop role settle_owner, settle_viewer, settle_app, settle_worker, settle_handler,"
                 " settle_operator, settle_admin")
    finally:
        cluster.stop()


def test_one_that_failed_half_way_leaves_nothing(settle, empty_database, database, psql):
    psql(empty_database, "create schema settle_data")
    failed = settle("--db", empty_database, "migrate")
    assert failed.code not in (0, 2) and failed.stdout == "" and len(failed.stderr.strip().splitlines()) == 1
    assert "settle_data" in failed.stderr
    assert psql(empty_database, "select to_regnamespace('settle') is null") == "t"
    assert psql(empty_database, "select count(*) from pg_locks where locktype = 'advisory'") == "0"
    psql(empty_database, "drop schema settle_data")
    assert settle("--db", empty_database, "migrate").code == 0
    assert the_same_everywhere(psql, empty_database) == the_same_everywhere(psql, database)


def test_migrating_waits_for_who_migrates_and_for_nobody_for_ever(settle, empty_database, connect):
    """A migration that stands still holds the others; when it is gone they go on."""
    connection = connect(empty_database)
    with connection.cursor() as cursor:
        cursor.execute("select pg_advisory_xact_lock(hashtextextended('settle migrate', 0))")
    waiting = settle.spawn("--db", empty_database, "migrate")
    watcher = connect(empty_database)
    watcher.autocommit = True

    def waits():
        with watcher.cursor() as cursor:
            cursor.execute("select count(*) from pg_locks where locktype = 'advisory' and not granted")
            return cursor.fetchone()[0] == 1

    deadline = threading.Event()
    for _ in range(600):
        if waits():
            break
        deadline.wait(0.05)
    assert waits()
    connection.rollback()
    assert settle.finish(waiting).code == 0


def test_a_database_that_is_not_utf8_is_refused(settle, cluster_url, psql):
    psql(cluster_url, "create database latin template template0 encoding 'LATIN1' locale 'C'")
    url = support.with_database(cluster_url, "latin")
    try:
        refused = settle("--db", url, "migrate")
        assert refused.code != 0 and "UTF8" in refused.stderr.replace("-", "").upper(), refused
        assert psql(url, "select to_regnamespace('settle') is null") == "t"
    finally:
        support.drop_database(cluster_url, "latin")


def test_a_trigger_without_its_function_cannot_be(database, connect):
    """The commit's own check hangs on the table; it cannot be dropped by accident."""
    connection = connect(database)
    with connection.cursor() as cursor, pytest.raises(psycopg2.errors.DependentObjectsStillExist):
        cursor.execute("drop function settle_data.require_end()")
