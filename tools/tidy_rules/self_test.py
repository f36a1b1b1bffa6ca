"""Each rule on a planted violation, and beside it what the rule must let pass."""

import os
import tempfile

LONG_FUNCTION = "int f() {\n" + "    work();\n" * 70 + "}\n"
SHORT_FUNCTION = "int f() {\n" + "    work();\n" * 68 + "}\n"
DEFINER = "create function settle.f(a_b text) returns void language plpgsql security definer {} as $$ begin {} end $$;\n"
REVOKE = "revoke all on function settle.f(text) from public;\n"
PINNED = "set search_path = pg_catalog"

# name of the rule, path, text, the line and a part of the message that must come; no line: nothing must come
CASES = [
    ("upward include", "src/pg/a.cpp", '#include "store/b.hpp"\n', 1, "pg (floor 1) must not include store (floor 2)"),
    ("sideways include", "src/pg/a.cpp", '\n#include "domain/b.hpp"\n', 2, "must not include domain"),
    ("sideways include", "src/handler/a.hpp", '#pragma once\n#include "engine/b.hpp"\n', 2, "must not include engine"),
    ("include by bare name", "src/pg/a.cpp", '#include "b.hpp"\n', 1, "includes are written from src"),
    ("include by relative path", "src/pg/a.cpp", '#include "../base/b.hpp"\n', 1, "includes are written from src"),
    ("include of an unknown folder", "src/pg/a.cpp", '#include "nowhere/b.hpp"\n', 1, "src has no folder nowhere"),
    ("folder without a floor", "src/attic/a.cpp", "int a;\n", 1, "src/attic has no floor"),
    ("lawful includes", "src/store/a.cpp", '#include "store/a.hpp"\n#include "pg/b.hpp"\n#include "settle/c.hpp"\n',
     None, None),
    ("public header", "include/settle/a.hpp", "#pragma once\n#include <libpq-fe.h>\n", 2, "a public header"),
    ("public header", "include/settle/a.hpp", '#pragma once\n#include "base/a.hpp"\n', 2, "a public header"),
    ("public header", "include/settle/a.hpp", '#pragma once\n#include <string>\n#include "settle/b.hpp"\n', None, None),
    ("wrapped library", "src/store/a.cpp", "#include <libpq-fe.h>\n", 1, "included in src/pg/ alone"),
    ("wrapped library", "src/pg/a.cpp", "#include <libpq-fe.h>\n", None, None),
    ("heavy header", ("src/cli/a.cpp", "src/cli/b.cpp"), "#include <CLI/CLI.hpp>\n", 1, "src/cli/a.cpp alone"),
    ("SQL text", "src/store/a.cpp", 'auto a = "select 1";\n', 1, "SQL text in C++ (select)"),
    ("SQL text", "src/store/a.cpp", 'auto a = R"(\n Insert Into t values (1))";\n', 1, "SQL text in C++ (Insert)"),
    ("SQL text", "src/pg/a.cpp", 'auto a = "update t set a = 1";\n', 1, "SQL text in C++ (update)"),
    ("SQL text", "src/pg/a.cpp", 'f("delete from t");\n', 1, "SQL text in C++ (delete)"),
    ("SQL text", "src/store/a.cpp", '// "select 1"\nauto a = "update the file, then select";\n', None, None),
    ("transaction control", "src/store/a.cpp", 'f("COMMIT");\n', None, None),
    ("long function", "src/pg/a.cpp", "namespace n {\n" + LONG_FUNCTION + "}\n", 2, "a function of 72 lines"),
    ("long method", "src/pg/a.hpp", "#pragma once\nclass A : B {\npublic:\n" + LONG_FUNCTION + "};\n", 4, "72 lines"),
    ("long function", "src/pg/a.cpp", "// {\nauto a = \"{\";\n" + SHORT_FUNCTION * 2, None, None),
    ("long source", "src/pg/a.cpp", "int a;\n" * 501, 501, "501 lines; the limit of such a file is 500"),
    ("long source", "src/pg/a.cpp", "int a;\n" * 500, None, None),
    ("long header", "src/pg/a.hpp", "#pragma once\n" + "int a;\n" * 250, 251, "251 lines"),
    ("long SQL", "sql/query/a.sql", "-- a\n" * 401, 401, "401 lines"),
    ("header guard", "src/pg/a.hpp", "int a;\n", 1, "#pragma once"),
    ("left behind", "docs/a.md", "one\nTO" + "DO: two\n", 2, "finish it or leave it out"),
    ("left behind", "src/pg/a.cpp", "// FIX" + "ME\n", 1, "finish it or leave it out"),
    ("sleep", "tests/unit/a.cpp", "std::this_thread::sleep_" + "for(1s);\n", 1, "a sleep in a test"),
    ("sleep", "tests/sql/a.sql", "select pg_" + "sleep(1);\n", 1, "a sleep in a test"),
    ("sleep", "tests/program/test_a.py", "import time\ntime." + "sleep(1)\n", 2, "a sleep in a test"),
    ("sleep", "tests/program/a.sh", "sl" + "eep 1\n", 1, "a sleep in a test"),
    ("sleep", "tests/program/a.sh", "# the thing under test\nsl" + "eep 1\nsl" + "eep 2 # the thing under test\n", None,
     None),
    ("sleep", "tests/unit/a.cpp", "// every sleep of this file is the thing under test\n\n\nf(\"sl" + "eep 9\");\n", None,
     None),
    ("grants", "sql/api/a.sql", DEFINER.format(PINNED, "null;"), 1, "settle.f: no `revoke all on function"),
    ("grants", "sql/api/a.sql", DEFINER.format(PINNED, "null;") + "revoke all on function settle.ff(text) from public;\n",
     1, "settle.f: no `revoke all on function"),
    ("grants", "sql/api/a.sql", DEFINER.format(PINNED, "null;") + "-- " + REVOKE, 1, "no `revoke all on function"),
    ("definer", "sql/api/a.sql", "\n" + DEFINER.format("", "null;") + REVOKE, 2, "without `set search_path`"),
    ("definer", "sql/api/a.sql", DEFINER.format(PINNED, "null;") + REVOKE, None, None),
    ("write in language sql", "sql/api/a.sql",
     "create function settle.f(a text) returns void as $$ update t set a = 1; $$ language sql;\n" + REVOKE, 1,
     "a write in `language sql`"),
    ("read in language sql", "sql/api/a.sql",
     "create function settle.f(a text) returns int as $$ select 1; $$ language sql;\n" + REVOKE, None, None),
    ("execute", "sql/api/a.sql", DEFINER.format(PINNED, "\n execute format('x');") + REVOKE, 2, "static SQL only"),
    ("execute", "sql/api/a.sql", DEFINER.format(PINNED, "\n execute 'x';") + REVOKE, 2, "static SQL only"),
    ("execute", "sql/api/a.sql", DEFINER.format(PINNED, "\n -- the user's own handler\n execute 'x';") + REVOKE
     + "create trigger t after insert on u execute function f();\ngrant execute on function settle.f to a;\n", None, None),
    ("bare parameter", "sql/api/a.sql", DEFINER.format(PINNED, "\n x := a_b;") + REVOKE, 2, "write f.a_b"),
    ("bare parameter", "sql/api/a.sql",
     DEFINER.format(PINNED, "x := f.a_b; perform g(a_b => 'a_b'); update t set a_b = f.a_b; select 1 as a_b;") + REVOKE,
     None, None),
    ("shadowed parameter", "sql/api/a.sql",
     DEFINER.format(PINNED, "").replace("begin", "declare\n a_b text;\nbegin") + REVOKE, 1, "called like the parameter"),
]


def run(violations):
    """Prints each case that went wrong; 0 when none did."""
    wrong = 0
    for rule, paths, text, line, part in CASES:
        with tempfile.TemporaryDirectory() as root:
            paths = [paths] if isinstance(paths, str) else paths
            for path in paths:
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            found = violations(root)
        expected = [] if line is None else [(paths[-1], line)]
        if [entry[:2] for entry in found] != expected or any(part not in entry[2] for entry in found):
            wrong += 1
            print(f"the rule \"{rule}\" on {text[:60]!r}: expected {expected or 'nothing'}, found {found}")
    print(f"{len(CASES) - wrong} of {len(CASES)} planted cases were judged rightly")
    return 1 if wrong else 0
