"""Rights: the documented table and the catalog are one, and what is forbidden fails, as each role."""

import os
import re

import psycopg2
import pytest

from conftest import ROOT

ROLES = ["settle_viewer", "settle_app", "settle_worker", "settle_operator", "settle_admin", "settle_handler"]
PERMISSION_DENIED = "42501"


@pytest.fixture
def catalog(database, connect):
    """run(sql, *values) → rows, as the superuser, each call a transaction of its own that is kept."""
    connection = connect(database)
    connection.autocommit = True

    def run(sql, *values):
        with connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return cursor.fetchall() if cursor.description else []

    return run


def documented(heading):
    """The table under a heading of the page: {name: set of roles}."""
    with open(os.path.join(ROOT, "docs/reference/grants.md"), encoding="utf-8") as file:
        section = file.read().split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")]
    columns = ["settle_" + name for name in rows[0][1:]]
    assert sorted(columns) == sorted(ROLES)
    table = {}
    for row in rows[2:]:
        assert all(cell in ("", "yes") for cell in row[1:]) and len(row) == len(rows[0]), row
        table[row[0].strip("`")] = {role for role, cell in zip(columns, row[1:]) if cell == "yes"}
    assert table
    return table


def granted(catalog, schema):
    """What the catalog says of a schema's functions, inherited rights included."""
    rows = catalog("""
        select p.proname, r.rolname, has_function_privilege(r.oid, p.oid, 'execute')
          from pg_proc p cross join pg_roles r
         where p.pronamespace = %s::regnamespace and r.rolname = any (%s)""", schema, ROLES)
    table = {name: set() for name, _, _ in rows}
    for name, role, may in rows:
        if may:
            table[name].add(role)
    return table


def test_functions_are_granted_as_documented(catalog):
    assert granted(catalog, "settle") == documented("Functions of the schema `settle`")


def test_inner_functions_are_granted_as_documented(catalog):
    inner = {name: roles for name, roles in granted(catalog, "settle_data").items() if roles}
    assert inner == documented("Functions of the schema `settle_data`")


def test_views_are_granted_as_documented(catalog):
    table = {}
    for name, role, may_read, may_write in catalog("""
            select c.relname, r.rolname, has_table_privilege(r.oid, c.oid, 'select'),
                   has_table_privilege(r.oid, c.oid, 'insert, update, delete, truncate, references, trigger')
              from pg_class c cross join pg_roles r
             where c.relnamespace = 'settle'::regnamespace and c.relkind = 'v' and r.rolname = any (%s)""", ROLES):
        assert not may_write, f"{role} may write through {name}"
        table.setdefault(name, set())
        if may_read:
            table[name].add(role)
    assert table == documented("Views of the schema `settle`")


def test_the_roles_themselves_are_as_documented(catalog):
    with open(os.path.join(ROOT, "docs/reference/grants.md"), encoding="utf-8") as file:
        rows = re.findall(r"^\| `(settle_\w+)` \|[^|]*\|([^|]*)\|$", file.read(), re.MULTILINE)
    wanted = {role: set(re.findall(r"settle_\w+", members)) for role, members in rows}
    names = [name for name, in catalog("select rolname from pg_roles where rolname like 'settle\\_%%' and not rolcanlogin")]
    assert set(wanted) == set(names)
    for role in names:
        of = {name for name, in catalog("""
            select r.rolname from pg_auth_members m join pg_roles r on r.oid = m.roleid
             where m.member = (select oid from pg_roles where rolname = %s)""", role)}
        assert of == wanted[role], role
    assert catalog("""select rolname from pg_roles where rolname = any (%s) and (rolsuper or rolcanlogin or rolcreaterole
        or rolcreatedb or rolreplication or rolbypassrls)""", [*ROLES, "settle_owner"]) == []


def test_nothing_is_public_and_all_belongs_to_the_owner(catalog):
    assert catalog("""
        select p.oid::regprocedure::text from pg_proc p
         where p.pronamespace in ('settle'::regnamespace, 'settle_data'::regnamespace)
           and (p.proacl is null or exists (select from aclexplode(p.proacl) a where a.grantee = 0))""") == []
    assert catalog("""
        select c.oid::regclass::text from pg_class c
         where c.relnamespace in ('settle'::regnamespace, 'settle_data'::regnamespace)
           and exists (select from aclexplode(c.relacl) a where a.grantee = 0)""") == []
    assert catalog("""
        select n.nspname from pg_namespace n, lateral aclexplode(n.nspacl) a
         where n.nspname in ('settle', 'settle_data') and a.grantee = 0""") == []
    assert catalog("""
        select oid::regprocedure::text from pg_proc where proowner <> 'settle_owner'::regrole
           and pronamespace in ('settle'::regnamespace, 'settle_data'::regnamespace)
        union all
        select oid::regclass::text from pg_class where relowner <> 'settle_owner'::regrole
           and relnamespace in ('settle'::regnamespace, 'settle_data'::regnamespace)""") == []


def test_counters_may_be_raised_and_no_more(catalog):
    for name, role, may_raise, may_set in catalog("""
            select c.relname, r.rolname, has_sequence_privilege(r.oid, c.oid, 'usage'),
                   has_sequence_privilege(r.oid, c.oid, 'update, select')
              from pg_class c cross join pg_roles r where c.relkind = 'S' and r.rolname = any (%s)
               and c.relnamespace in ('settle'::regnamespace, 'settle_data'::regnamespace)""", ROLES):
        wanted = name.startswith("duplicates_") and role in ("settle_app", "settle_worker", "settle_operator",
                                                             "settle_admin")
        assert (may_raise, may_set) == (wanted, False), f"{name} {role}"


def test_a_definer_has_a_pinned_path_and_run_has_none(catalog):
    assert catalog("""
        select oid::regprocedure::text from pg_proc
         where pronamespace in ('settle'::regnamespace, 'settle_data'::regnamespace) and prosecdef
           and proconfig is distinct from array['search_path=pg_catalog, pg_temp']""") == []
    # A definer, or a pinned path, would run the user's handler with other rights and names than the caller's.
    assert catalog("select prosecdef, proconfig from pg_proc where oid = 'settle.run'::regproc") == [(False, None)]
    # What writes on a caller's behalf is a definer; these look, or call those that do. fence_guard also runs casts
    # that a column's type brings along.
    invokers = {name for name, in catalog(
        "select proname from pg_proc where pronamespace = 'settle'::regnamespace and not prosecdef")}
    assert invokers == {"begin_operation", "run", "check_handler", "fence_guard"}


def test_every_function_answers_each_role_as_documented(catalog, database, connect):
    """The catalog's word is not enough: each function is called as each role."""
    calls = catalog("""
        select p.proname, format('select settle.%I(%s)', p.proname,
                   coalesce((select string_agg('null::' || format_type(t, null), ', ' order by n)
                             from unnest(p.proargtypes) with ordinality as a (t, n)), ''))
          from pg_proc p
         where p.pronamespace = 'settle'::regnamespace and p.prorettype <> 'trigger'::regtype order by 1""")
    table = documented("Functions of the schema `settle`")
    connection = connect(database)
    for role in ROLES:
        for name, call in calls:
            with connection.cursor() as cursor:
                cursor.execute(f"set role {role}")
                state = None
                try:
                    cursor.execute(call)
                except psycopg2.Error as error:
                    state = error.pgcode
            connection.rollback()
            assert (state == PERMISSION_DENIED) == (role not in table[name]), f"{name} as {role}: {state}"


FORBIDDEN = [
    "select * from settle_data.operation",
    "select request from settle_data.operation where key = 'a'",
    "insert into settle_data.operation (namespace, key, status, token, revision, attempt_count, counter, created_at)"
    " values ('default', 'forged', 'pending', 0, 0, 0, 0, now())",
    "update settle_data.operation set status = 'succeeded', finished_at = now()",
    "delete from settle_data.operation",
    "truncate settle_data.operation",
    "update settle_data.lease set token = 1",
    "delete from settle_data.lease",
    "delete from settle_data.execution",
    "delete from settle_data.decision",
    "select inner_pad from settle_data.kind_revision",
    "select setval('settle.duplicates_0', 1)",
    "alter sequence settle.duplicates_0 restart",
    "select settle_data.invalid('a', 'b')",
    "select settle_data.canonical('{}')",
    "select settle_data.finish('default', 'a', 1, 'succeeded', null, null, null, null)",
    "alter table settle_data.operation disable trigger operation_ended",
    "drop trigger operation_ended on settle_data.operation",
    "create table settle.mine (a integer)",
    "create table settle_data.mine (a integer)",
    "create function settle.mine() returns integer language sql as 'select 1'",
    "create or replace function settle.schema_version() returns integer language sql as 'select 99'",
    "insert into settle.operations (key) values ('a')",
    "update settle.kinds set revision = 1",
    "delete from settle.leases",
    "set role settle_owner",
]


@pytest.fixture
def log_in(catalog, database, connect):
    """log_in(name, *granted) → a connection of a role that is gone afterwards: roles are the whole cluster's."""
    made = []

    def run(name, *granted):
        catalog(f"create role {name} login")
        made.append(name)
        for role in granted:
            catalog(f"grant {role} to {name}")
        return connect(database.replace("user=postgres", f"user={name}"))

    yield run
    for name in made:
        catalog(f"drop role {name}")


@pytest.mark.parametrize("role", ROLES)
def test_what_no_role_may(catalog, log_in, role):
    catalog("select settle.begin_operation('a', 'k', lease => '1h')")
    before = catalog("select * from settle.operations")
    connection = log_in(f"test_{role}", role)
    for statement in FORBIDDEN:
        with connection.cursor() as cursor, pytest.raises(psycopg2.Error) as raised:
            cursor.execute(statement)
        assert raised.value.pgcode in (PERMISSION_DENIED, "55000"), f"{statement}: {raised.value}"
        connection.rollback()
    assert catalog("select * from settle.operations") == before


def test_who_has_no_role_sees_nothing(log_in):
    connection = log_in("test_stranger")
    for statement in [*FORBIDDEN, "select settle.begin_operation('a', 'k')", "select * from settle.operations",
                      "select settle.schema_version()", "select settle.digest('k', '{}')"]:
        with connection.cursor() as cursor, pytest.raises(psycopg2.Error) as raised:
            cursor.execute(statement)
        assert raised.value.pgcode in (PERMISSION_DENIED, "55000"), f"{statement}: {raised.value}"
        connection.rollback()


def test_every_view_shows_its_rows_to_each_role_that_may_look(catalog, database, connect):
    catalog("select settle.declare_kind('k', '{\"effect\": \"keyed\"}')")
    catalog("select settle.begin_operation('a', 'k', lease => '1h'), settle.fail('a', 1, 'defect', 'D', 'd')")
    catalog("select settle.begin_operation('b', 'k', lease => '1h'), settle.cancel('b', 'ann', 'r')")
    catalog("select settle.begin_operation('c', 'k', lease => '1h'), settle.complete('c', 1)")
    catalog("select settle.acquire_lease('r', 'w', '1h')")
    connection = connect(database)
    for view, roles in documented("Views of the schema `settle`").items():
        for role in ROLES:
            with connection.cursor() as cursor:
                cursor.execute(f"set role {role}")
                if role in roles:
                    cursor.execute(f"select * from settle.{view}")
                    assert cursor.fetchall(), f"{view} shows nothing to {role}"
                else:
                    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                        cursor.execute(f"select * from settle.{view}")
            connection.rollback()


def test_no_function_is_overloaded(catalog):
    """A call with named arguments must never become ambiguous."""
    assert catalog("""
        select p.proname from pg_proc p where p.pronamespace in ('settle'::regnamespace, 'settle_data'::regnamespace)
         group by p.pronamespace, p.proname having count(*) > 1""") == []


def test_plpgsql_check_finds_nothing(catalog):
    """Static analysis of every function; `namespace` is a parameter of all, also of those that have no use for it yet."""
    if not catalog("select 1 from pg_available_extensions where name = 'plpgsql_check'"):
        pytest.skip("the server has no plpgsql_check: apt-get install postgresql-15-plpgsql-check")
    catalog("create extension plpgsql_check")
    assert catalog("""
        select p.oid::regprocedure::text, c.level, c.message, c.detail
          from pg_proc p join pg_language l on l.oid = p.prolang
         cross join lateral plpgsql_check_function_tb(
                   p.oid, relid => case when p.proname in ('require_end', 'fence_guard')
                                        then 'settle_data.operation'::regclass else 0 end,
                   fatal_errors => false, extra_warnings => true, performance_warnings => false) c
         where l.lanname = 'plpgsql' and p.pronamespace in ('settle'::regnamespace, 'settle_data'::regnamespace)
           and c.message <> 'unused parameter "namespace"'""") == []
    assert catalog("""select count(*) > 50 from pg_proc p join pg_language l on l.oid = p.prolang
        where l.lanname = 'plpgsql' and p.pronamespace in ('settle'::regnamespace, 'settle_data'::regnamespace)""") == [(True,)]
