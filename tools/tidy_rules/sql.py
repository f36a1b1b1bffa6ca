"""Rules of SQL: grants, definers, static text, and how parameters are written."""

import re

NAME = r"[a-z_][a-z0-9_]*"
CREATE = re.compile(rf"\bcreate\s+(?:or\s+replace\s+)?(?:function|procedure)\s+({NAME}\.{NAME})\s*\(", re.IGNORECASE)
REVOKE = re.compile(r"\brevoke\s+(?:all|execute)(?:\s+privileges)?\s+on\s+(?:function|procedure|routine)\b([^;]*?)"
                    r"\bfrom\b[^;]*\bpublic\b[^;]*;", re.IGNORECASE)
WRITE = re.compile(r"\binsert\s+into\b|\bupdate\s+[\w.]+\s+(?:as\s+\w+\s+|\w+\s+)?set\b|\bdelete\s+from\b"
                   r"|\bmerge\s+into\b|\btruncate\b", re.IGNORECASE)
EXECUTE = re.compile(r"\bexecute\b(?!\s+(?:function|procedure|on)\b)", re.IGNORECASE)
GRANTING = re.compile(r"\b(?:grant|revoke)\b[^;]*$", re.IGNORECASE)
HANDLER_MARK = "the user's own handler"


class Function:
    """A `create function`: its name, where it starts, its options, its body and where that starts."""

    def __init__(self, source, match):
        code = source.sql_code
        self.name = match[1].lower()
        self.start = match.start()
        self.line = source.line_of(match.start())
        close = closing(code, match.end() - 1)
        self.parameters = parameter_names(code[match.end():close])
        opening = re.compile(r"\bas\s+(\$\w*\$)", re.IGNORECASE).search(code, close)
        end_of_statement = code.find(";", close)
        if opening is None or (end_of_statement != -1 and end_of_statement < opening.start()):
            self.body_start, self.body = close, ""
            self.options = code[close:end_of_statement]
            return
        self.body_start = opening.end()
        body_end = code.find(opening[1], opening.end())
        body_end = len(code) if body_end == -1 else body_end
        self.body = code[opening.end():body_end]
        after = body_end + len(opening[1])
        last = code.find(";", after)
        self.options = code[close:opening.start()] + " " + code[after:len(code) if last == -1 else last]
        self.options = re.sub(r"\s+", " ", self.options).lower()


def closing(code, at):
    """The offset of the parenthesis that closes the one at `at`."""
    depth = 0
    for offset in range(at, len(code)):
        depth += {"(": 1, ")": -1}.get(code[offset], 0)
        if depth == 0:
            return offset
    return len(code)


def parameter_names(text):
    """The names in a parameter list."""
    names, depth, part = [], 0, ""
    for character in text + ",":
        depth += {"(": 1, ")": -1, "[": 1, "]": -1}.get(character, 0)
        if character == "," and depth == 0:
            words = part.split()
            words = words[1:] if words and words[0].lower() in ("in", "out", "inout", "variadic") else words
            if len(words) > 1:
                names.append(words[0].lower())
            part = ""
        else:
            part += character
    return names


def functions_of(source):
    return [Function(source, match) for match in CREATE.finditer(source.sql_code)]


def is_ours(source):
    return source.suffix == ".sql" and source.folder[0] == "sql" and source.folder[1] in ("api", "schema")


def grants(source):
    """Everybody may call a new function until that is taken away, so it is taken away in the same file."""
    if not is_ours(source):
        return
    revoked = " ".join(match[1] for match in REVOKE.finditer(source.sql_code)).lower()
    for function in functions_of(source):
        if not re.search(rf"(?<![\w.]){re.escape(function.name)}\s*\(", revoked):
            yield function.line, f"{function.name}: no `revoke all on function … from public` in this file"


def definers(source):
    """A definer's names are looked up where its owner says, not where its caller does."""
    if source.suffix != ".sql" or source.folder[0] != "sql":
        return
    for function in functions_of(source):
        if "security definer" in function.options and "set search_path" not in function.options \
                and not marked(source, function.line):
            yield function.line, f"{function.name}: security definer without `set search_path`"


def writers(source):
    """`language sql` costs half the speed of a write."""
    if source.suffix != ".sql" or source.folder[0] != "sql":
        return
    for function in functions_of(source):
        if re.search(r"\blanguage sql\b", function.options) and WRITE.search(function.body):
            yield function.line, f"{function.name}: a write in `language sql`; use plpgsql"
        if re.search(r"\bbegin atomic\b", function.options):
            yield function.line, f"{function.name}: begin atomic; write the body as a dollar-quoted text"


def dynamic_sql(source):
    """Static SQL only; a user's own handler alone is called by a text."""
    if source.suffix != ".sql" or source.folder[0] != "sql":
        return
    for function in functions_of(source):
        for match in EXECUTE.finditer(function.body):
            before = function.body[:match.start()]
            line = source.line_of(function.body_start + match.start())
            if not GRANTING.search(before) and not marked(source, line):
                yield line, f"{function.name}: execute; static SQL only, or mark the line: {HANDLER_MARK}"


def marked(source, line):
    """Whether this line or the one before names the exception."""
    return any(HANDLER_MARK in text for text in source.lines[max(0, line - 2):line])


def qualified_parameters(source):
    """A parameter is written `function.parameter`: a bare name may mean a column, and silently does so one day."""
    if not is_ours(source):
        return
    for function in functions_of(source):
        if "language plpgsql" not in function.options or not function.body:
            continue
        short = function.name.split(".")[1]
        declared = re.split(r"\bbegin\b", function.body, maxsplit=1, flags=re.IGNORECASE)[0]
        for name in function.parameters:
            if name in declared_names(declared):
                yield function.line, f"{function.name}: a variable is called like the parameter {name}"
                continue
            if "_" not in name:
                continue  # likely a column's name too, which only the database can tell apart
            pattern = re.compile(rf"(?<![\w.\"]){name}\b(?!\s*(?:=>|:=|\(|\.))", re.IGNORECASE)
            for match in pattern.finditer(function.body):
                line = source.line_of(function.body_start + match.start())
                if not used_as_column(function.body, match):
                    yield line, f"{function.name}: write {short}.{name}"


def declared_names(text):
    return re.findall(rf"(?m)^\s*({NAME})\s+(?!alias)", re.sub(r"\bdeclare\b", "", text, flags=re.IGNORECASE))


def used_as_column(body, match):
    """A name in a list of columns, after `as`, or on the left of an assignment in `set`."""
    before, after = body[:match.start()].rstrip(), body[match.end():].lstrip()
    if re.search(r"\bas$", before, re.IGNORECASE):
        return True
    if after.startswith("=") and re.search(r"(\bset|,)$", before, re.IGNORECASE):
        return True
    return bool(re.search(r"\binsert\s+into\s+[\w.]+(\s+as\s+\w+)?\s*\([^()]*$", before, re.IGNORECASE))


RULES = (grants, definers, writers, dynamic_sql, qualified_parameters)
