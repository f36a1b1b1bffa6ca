"""A caller's session settings change no answer, no digest and no time: zones, styles, paths, syntax."""

import datetime
import json

import psycopg2
import psycopg2.extras
import pytest

KIND = '{"effect": "keyed", "identity": ["/a", "/x~1y"], "retry": {"base_delay": "20s", "max_delay": "20s"}}'
# What varies by nature, with the time or the chance of a wait.
TIMES = {"lease_until", "next_attempt_at", "created_at", "finished_at", "started_at", "sent_at", "open_since", "lease",
         "since", "decided_at", "granted_at", "released_at"}

SETTINGS = {
    "zone": {"TimeZone": "America/New_York"},
    "zone ahead": {"TimeZone": "Asia/Tokyo"},
    "zone of odd minutes": {"TimeZone": "Asia/Kathmandu"},
    "dates": {"DateStyle": "German, DMY"},
    "dates of SQL": {"DateStyle": "SQL, MDY", "TimeZone": "Pacific/Chatham"},
    "intervals": {"IntervalStyle": "sql_standard"},
    "intervals of ISO": {"IntervalStyle": "iso_8601"},
    "old strings": {"standard_conforming_strings": "off", "escape_string_warning": "off"},
    "bytes": {"bytea_output": "escape"},
    "nulls": {"transform_null_equals": "on", "array_nulls": "off"},
    "floats": {"extra_float_digits": "-15"},
    "planner": {"enable_indexscan": "off", "enable_bitmapscan": "off", "enable_hashjoin": "off", "plan_cache_mode":
                "force_generic_plan", "enable_seqscan": "off"},
    "custom plans": {"plan_cache_mode": "force_custom_plan", "enable_nestloop": "off"},
    "no path": {"search_path": ""},
    "a path with names like ours": {"search_path": "hostile, public"},
    "encoding": {"client_encoding": "LATIN1"},
    "repeatable read": {"default_transaction_isolation": "repeatable read"},
    "serializable": {"default_transaction_isolation": "serializable"},
    "a role of its own": {"role": "settings_caller"},
}

HOSTILE = """
    create schema hostile;
    create table hostile.operation (namespace text, key text, kind text, status text, request jsonb);
    create table hostile.lease (namespace text, resource text, token bigint);
    create view hostile.keys as select 'x'::text as key;
    create function hostile.clock_timestamp() returns timestamptz language sql as 'select now() + interval ''1 day''';
    create function hostile.octet_length(text) returns integer language sql as 'select 1';
    create function hostile.begin_locked() returns text language sql as 'select ''hostile''';
    create function hostile.check_name(text, text, integer) returns void language sql as 'select';
    grant usage on schema hostile to public;
    grant all on all tables in schema hostile to public;
    do $$ begin create role settings_caller; exception when duplicate_object then null; end $$;
    grant settle_admin to settings_caller;
"""


def calls(space):
    """The calls, in order, all in one namespace; each with its parameters."""
    def plain(name, *given, **named):
        values = [*given, *named.values()]
        marks = ["%s"] * len(given) + [f"{key} => %s" for key in named]
        return f"select to_jsonb(settle.{name}({', '.join(marks)}))", values

    request = '{"a": 1e2, "x/y": ["é", 0.10], "note": "free"}'
    yield plain("begin_operation", "done", "settings", request, namespace=space, owner="w1", lease="30 s")
    yield plain("begin_operation", "done", "settings", '{"a": 100, "x/y": ["\\u00e9", 1e-1]}', namespace=space)
    yield plain("begin_operation", "done", "settings", '{"a": 101}', namespace=space)
    yield plain("renew", "done", 1, lease="PT2H", owner="w1", namespace=space)
    yield plain("mark_sent", "done", 1, "remote:1", namespace=space)
    yield plain("complete", "done", 1, "ref", '{"n": 12345678901234567890.10, "s": "a\\\\b"}', space)
    yield plain("begin_operation", "done", "settings", request, namespace=space)
    yield plain("begin_operation", "no", "settings", "{}", namespace=space, lease="1 day")
    yield plain("refuse", "no", 1, "NO", '{"d": null}', space)
    yield plain("begin_operation", "fails", "settings", "{}", namespace=space, lease="1 day")
    yield plain("fail", "fails", 1, "transient", "T", "back\\slash 'quote'", namespace=space, retry_after="1 hour")
    yield plain("begin_operation", "fails", "settings", "{}", namespace=space)
    yield plain("begin_operation", "unsure", "settings", "{}", namespace=space, lease="1 h")
    yield plain("fail", "unsure", 1, "unknown", "U", "u", namespace=space)
    yield plain("decide", "unsure", "succeeded", "ann", "seen", "ref:2", namespace=space)
    yield plain("begin_compensation", "done", "ann", "r", space, "1 h")
    yield plain("begin_compensation", "early", "ann", "r", space)
    yield plain("begin_operation", "early", "settings", "{}", namespace=space)
    yield plain("acquire_lease", "r", "w1", "30 s", space)
    yield plain("renew_lease", "r", "w1", 1, "1 h", space)
    yield plain("check_fence", "r", 1, space)
    yield plain("release_lease", "r", "w1", 1, space)
    yield plain("digest", "settings", request)
    yield plain("digest", "plain", '{"\\ud800\\udc00": 1, "\\uffff": -0.0, "z": [1.50, "\\u0001\\u001f/"]}')
    yield plain("parse_request", '{"a": [1, {"b": 9007199254740993}]}')
    yield plain("parse_request", '{"a": [1, {"b": 1, "b": 2}]}')
    yield plain("parse_request", '[1e309]')
    yield plain("parse_request", '{"a": "\\ud800"}')
    yield plain("declare_kind", "settings", KIND)
    yield plain("declare_kind", "bad", '{"effect": "local", "lease": "1.5s"}')
    yield plain("declare_kind", "bad", '{"effect": "local", "handler": {"sql": "a-b"}}')
    yield plain("declare_kind", "bad", '{"effect": "local", "retention": {"key": "30d"}}')
    yield plain("begin_operation", "tab\tkey", "settings")
    yield plain("begin_operation", "x" * 256, "settings")
    yield plain("begin_operation", " x", "settings")
    yield plain("begin_operation", "x", "settings", namespace=space, lease="11 years")
    yield plain("begin_operation", "deep", "settings", "[" * 33 + "]" * 33)
    for view in ("operations", "executions", "decisions", "leases", "backlog", "reviews"):
        yield f"select to_jsonb(v) from settle.{view} v where namespace = %s", [space]


def without_times(value):
    if isinstance(value, dict):
        return {name: "a time" if name in TIMES and item is not None else without_times(item)
                for name, item in value.items()}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def story(connection, space):
    """Every answer, or the error's code and words."""
    told = []
    for sql, values in calls(space):
        with connection.cursor() as cursor:
            try:
                cursor.execute(sql, values)
                rows = without_times([row[0] for row in cursor.fetchall()])
                told.append((sql, sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))))
            except psycopg2.Error as error:
                told.append((sql, error.pgcode, error.diag.message_primary, error.diag.message_detail))
    return told


@pytest.fixture
def prepared(database, connect):
    connection = connect(database)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(HOSTILE)
        cursor.execute("select settle.declare_kind('settings', %s)", [KIND])
        cursor.execute("alter database " + connection.info.dbname + " set TimeZone = 'Asia/Kathmandu'")
    return database


def session(connect, url, settings):
    connection = connect(url)
    connection.autocommit = True
    if "client_encoding" in settings:
        connection.set_client_encoding(settings["client_encoding"])  # which tells the driver, too
    with connection.cursor() as cursor:
        for name, value in settings.items():
            cursor.execute("select set_config(%s, %s, false)", [name, value])
    return connection


def same_space(told, space):
    return [tuple(repr(part).replace(space, "<space>") for part in line) for line in told]


def test_no_setting_changes_an_answer(prepared, connect):
    baseline = same_space(story(session(connect, prepared, {"TimeZone": "UTC"}), "baseline"), "baseline")
    assert sum("ST007" in repr(line) for line in baseline) >= 10 and any("replayed" in repr(line) for line in baseline)
    assert [line for line in baseline if not line[1].startswith(("[", "'ST"))] == []
    for name, settings in SETTINGS.items():
        space = "ns_" + name.replace(" ", "_")
        told = same_space(story(session(connect, prepared, settings), space), space)
        for wanted, got in zip(baseline, told):
            assert got == wanted, f"with {name}"
        assert len(told) == len(baseline)


def test_instants_are_those_of_the_database_whatever_the_zone(prepared, connect):
    """Started at one moment by sessions of four zones, read by a fifth: within two seconds of each other."""
    zones = ["UTC", "America/New_York", "Asia/Tokyo", "Pacific/Chatham"]
    leases = ["20 s", "1 day", "91 days", "182 days", "273 days", "6 months", "1 year"]
    for zone in zones:
        connection = session(connect, prepared, {"TimeZone": zone, "DateStyle": "German"})
        with connection.cursor() as cursor:
            for lease in leases:
                key = f"{zone} {lease}"
                cursor.execute("select settle.begin_operation(%s, 'k', lease => %s)", [key, lease])
                cursor.execute("select settle.renew(%s, 1, %s)", [key, lease])
                cursor.execute("select settle.acquire_lease(%s, 'w', %s)", [key, lease])
                cursor.execute("select settle.renew_lease(%s, 'w', 1, %s)", [key, lease])
            cursor.execute("select settle.begin_operation(%s, 'k', lease => '1 h')", ["fail " + zone])
            cursor.execute("select settle.fail(%s, 1, 'transient', 'T', 't', retry_after => '1 day')", ["fail " + zone])
    reader = session(connect, prepared, {"TimeZone": "Asia/Kathmandu"})
    with reader.cursor() as cursor:
        cursor.execute("select clock_timestamp()")
        now, = cursor.fetchone()
        for lease in leases:
            ends = []
            cursor.execute("select lease_until from settle.operations where key like %s union all"
                           " select lease_until from settle.leases where resource like %s", ["% " + lease] * 2)
            ends = [end for end, in cursor.fetchall()]
            assert len(ends) == 2 * len(zones)
            cursor.execute("select extract(epoch from %s::interval)::float8", [lease])
            seconds, = cursor.fetchone()
            for end in ends:
                assert abs((end - now).total_seconds() - seconds) < 60, lease
            assert max(ends) - min(ends) < datetime.timedelta(seconds=10), f"{lease}: {ends}"
        cursor.execute("select next_attempt_at, created_at from settle.operations where key like 'fail %'")
        rows = cursor.fetchall()
        assert len(rows) == len(zones)
        for due, _ in rows:
            assert abs((due - now).total_seconds() - 86400) < 30
        # Times inside JSON carry their offset, and are the same instants.
        cursor.execute("select lease ->> 'until', lease_until from settle.operations where lease is not null")
        for text, until in cursor.fetchall():
            assert text.endswith("+05:45") and datetime.datetime.fromisoformat(text) == until


def test_a_clock_that_the_caller_claims_is_not_asked(prepared, connect):
    """now() stands still in a long transaction; a lease is counted from the moment it is granted all the same."""
    connection = connect(prepared)
    with connection.cursor() as cursor:
        cursor.execute("select now() - interval '0', pg_sleep(0.3)")  # the thing under test: a transaction that lasts
        cursor.execute("select (settle.begin_operation('slow', 'k', lease => '10 s')).lease_until - now() > interval '10.25 s'")
        assert cursor.fetchone() == (True,)
        cursor.execute("select (settle.acquire_lease('slow', 'w', '10 s')).lease_until - now() > interval '10.25 s'")
        assert cursor.fetchone() == (True,)
        cursor.execute("select (settle.renew('slow', 1, '10 s')).lease_until - now() > interval '10.25 s'")
        assert cursor.fetchone() == (True,)
    connection.rollback()
