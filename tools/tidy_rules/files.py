"""Which files are looked at, and their text with comments or strings blanked out."""

import functools
import os
import re

SKIPPED = re.compile(r"^(build.*|\.git|__pycache__|\.pytest_cache|node_modules)$")
TEXT_SUFFIXES = (".cpp", ".hpp", ".h", ".sql", ".spec", ".py", ".sh", ".cmake", ".txt", ".md", ".toml", ".yml", "")

CPP_TOKEN = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)'
    r'|(?P<raw>R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)")'
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<character>(?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])+')", re.DOTALL)

SQL_TOKEN = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?\*/)"
    r"|(?P<string>'(?:''|[^'])*')"
    r'|(?P<identifier>"(?:""|[^"])*")', re.DOTALL)


def every_file(root):
    """Paths of the text files under `root`, relative to it."""
    found = []
    for directory, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not SKIPPED.match(name))
        for name in sorted(names):
            if os.path.splitext(name)[1] in TEXT_SUFFIXES:
                found.append(os.path.relpath(os.path.join(directory, name), root))
    return found


def blank(text):
    """The text as spaces, with its line ends kept, so that line numbers stay true."""
    return re.sub(r"[^\n]", " ", text)


class Source:
    """One file."""

    def __init__(self, root, path):
        self.path = path
        self.folder = path.split(os.sep)
        self.suffix = os.path.splitext(path)[1]
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            self.text = file.read()
        self.lines = self.text.split("\n")

    def line_of(self, offset):
        return self.text.count("\n", 0, offset) + 1

    @property
    def is_cpp(self):
        return self.suffix in (".cpp", ".hpp", ".h")

    @functools.cached_property
    def cpp_code(self):
        """C++ without comments; strings are emptied."""
        def replace(match):
            if match["comment"]:
                return blank(match[0])
            quote = "'" if match["character"] else '"'
            return quote + blank(match[0][1:-1]) + quote
        return CPP_TOKEN.sub(replace, self.text)

    @functools.cached_property
    def cpp_strings(self):
        """The string literals of C++: (offset, text)."""
        return [(match.start(), match["raw"] or match["string"]) for match in CPP_TOKEN.finditer(self.text)
                if match["raw"] or match["string"]]

    @functools.cached_property
    def sql_code(self):
        """SQL without comments; strings are emptied, dollar-quoted bodies are kept."""
        def replace(match):
            if match["string"]:
                return "'" + blank(match[0][1:-1]) + "'"
            return blank(match[0]) if match["comment"] else match[0]
        return SQL_TOKEN.sub(replace, self.text)
