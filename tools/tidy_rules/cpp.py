"""Rules of C++: floors, functions, and SQL text."""

import re

import files

FUNCTION_LINES = 70

FLOOR = {"base": 0, "domain": 1, "pg": 1, "store": 2, "engine": 3, "handler": 3, "sink": 3, "http": 3, "api": 4,
         "cli": 5}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
SQL_TEXT = re.compile(r"\bselect\s+\S|\binsert\s+into\b|\bupdate\s+\S+\s+set\b|\bdelete\s+from\b|\bmerge\s+into\b"
                      r"|\bcreate\s+(or\s+replace\s+)?(table|function|view|schema|role|type|index|database|extension)\b"
                      r"|\bdrop\s+(table|function|view|schema|role|type|index|database)\b"
                      r"|\balter\s+(table|function|view|schema|role|system|database)\b|\bcall\s+settle\.",
                      re.IGNORECASE)
LABEL = re.compile(r"\s*(public|private|protected)\s*:")
SCOPE = re.compile(r"^\s*(inline\s+)?(namespace|class|struct|enum|union|extern)\b")

# Where a library's headers may be included, and nowhere else.
HOME_OF = {"libpq-fe.h": "src/pg/", "CLI/": "src/cli/", "boost/beast": "src/http/"}
# Of these one file alone may, as they cost seconds of every compilation.
ONE_FILE = ("CLI/", "boost/beast")


def floors(source):
    """A floor includes only lower floors; neighbours do not see each other."""
    if not source.is_cpp or source.folder[0] != "src":
        return
    own = source.folder[1]
    if own not in FLOOR:
        yield 1, f"src/{own} has no floor: name it in tools/tidy_rules/cpp.py"
        return
    for number, line in enumerate(source.lines, 1):
        found = INCLUDE.match(line)
        if not found or found[1] != '"':
            continue
        folder = found[2].split("/")[0]
        if "/" not in found[2] or folder.startswith("."):
            yield number, f'"{found[2]}": includes are written from src, as in "{own}/{found[2].split("/")[-1]}"'
        elif folder not in FLOOR and folder != "settle":
            yield number, f'"{found[2]}": src has no folder {folder}'
        elif folder in FLOOR and folder != own and FLOOR[folder] >= FLOOR[own]:
            yield number, f'{own} (floor {FLOOR[own]}) must not include {folder} (floor {FLOOR[folder]})'


def public_headers(source):
    """Public headers carry no types of libraries, and nothing of src."""
    if not source.is_cpp or source.folder[0] != "include":
        return
    for number, line in enumerate(source.lines, 1):
        found = INCLUDE.match(line)
        if found and ("/" in found[2] or found[2].endswith(".h")) and not found[2].startswith("settle/"):
            yield number, f"a public header must not include {found[2]}"


def homes(source):
    """A library that is wrapped is included where it is wrapped, and nowhere else."""
    if not source.is_cpp or source.folder[0] != "src":
        return
    for number, line in enumerate(source.lines, 1):
        found = INCLUDE.match(line)
        for header, home in HOME_OF.items():
            if found and found[2].startswith(header) and not source.path.startswith(home):
                yield number, f"{found[2]} is included in {home} alone"


def only_one_place(root):
    """Heavy headers live in one file each."""
    users = {header: [] for header in ONE_FILE}
    for path in files.every_file(root):
        source = files.Source(root, path)
        if not source.is_cpp or source.folder[0] != "src":
            continue
        for number, line in enumerate(source.lines, 1):
            found = INCLUDE.match(line)
            for header in ONE_FILE:
                if found and found[2].startswith(header):
                    users[header].append((path, number))
    for header, places in users.items():
        for path, number in places:
            if path != places[0][0]:
                yield path, number, f"{header} is a heavy header: {places[0][0]} alone includes it"


def sql_text(source):
    """C++ carries no SQL text apart from transaction control."""
    if not source.is_cpp or source.folder[0] != "src":
        return
    for offset, text in source.cpp_strings:
        found = SQL_TEXT.search(text)
        if found:
            yield source.line_of(offset), f"SQL text in C++ ({found[0].split()[0]}): put it in a file of sql/query"


def functions(source):
    """Functions stay small."""
    if not source.is_cpp:
        return
    code = source.cpp_code
    scopes = []  # of each open brace: the line a function starts on, or nothing
    start = 0
    for match in re.finditer(r"[{};]", code):
        if match[0] == "{":
            head = re.sub(r"template\s*<[^{}]*?>(?=\s*\w)|\[\[[^\]]*\]\]", " ", code[start:match.start()])
            head = re.sub(r"(?m)^\s*#.*$|\b(public|private|protected)\s*:", " ", head)
            inside = any(line is not None for line in scopes)
            if not inside and "(" in head and not SCOPE.match(head):
                label = LABEL.match(code, start)
                first = label.end() if label else start
                first += len(code[first:]) - len(code[first:].lstrip())
                scopes.append(source.line_of(first))
            else:
                scopes.append(None)
        elif match[0] == "}" and scopes:
            line = scopes.pop()
            lines = source.line_of(match.start()) - line + 1 if line is not None else 0
            if lines > FUNCTION_LINES:
                yield line, f"a function of {lines} lines; the limit is {FUNCTION_LINES}"
        start = match.end()


def guards(source):
    """Headers are read once."""
    if source.suffix == ".hpp" and "#pragma once" not in source.lines:
        yield 1, "a header without #pragma once"


RULES = (floors, public_headers, homes, sql_text, functions, guards)
