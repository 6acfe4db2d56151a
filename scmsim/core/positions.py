"""Find the line of each key of a TOML text by scanning the text again, because tomllib reports no positions.

tomllib must have accepted the text before: the scanner relies on valid syntax and checks nothing.
"""

import re

Path = tuple[str | int, ...]

_BLANK = re.compile(r"(?:\s|#[^\n]*)*")
_KEY = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*""")
_STRING = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\]|\\.)*"|\'[^\']*\'', re.DOTALL)
_SCALAR = re.compile(r"[^,\]}#\n]+")


def lines(text: str) -> dict[Path, int]:
    """Return the line (from 1) of every key, table header and array element, by path, e.g. ("set", "nova-cow", "pages")."""
    return _Scanner(text).run()


def line_of(found: dict[Path, int], path: Path) -> int:
    """Return the line of `path`, or of the innermost table around it; 1 if there is neither."""
    while path and path not in found:
        path = path[:-1]
    return found.get(path, 1)


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[Path, int] = {}
        self.tables: dict[Path, int] = {}  # array of tables -> number of its elements so far

    def run(self) -> dict[Path, int]:
        here: Path = ()
        self._skip()
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                here = self._header()
            else:
                self._pair(here)
            self._skip()
        return self.found

    def _header(self) -> Path:
        """Scan `[a.b]` or `[[a.b]]` and return the path that the following keys belong to."""
        start, depth = self.at, 2 if self.text.startswith("[[", self.at) else 1
        self.at += depth
        keys = self._key()
        self.at += depth
        path: Path = ()
        for key in keys[:-1]:
            path = (*path, key)
            if path in self.tables:
                path = (*path, self.tables[path] - 1)
        path = (*path, keys[-1])
        if depth == 2:
            self.tables[path] = self.tables.get(path, 0) + 1
            path = (*path, self.tables[path] - 1)
        self._note(path, start)
        return path

    def _pair(self, here: Path) -> None:
        """Scan `a.b = value` in the table at the path `here`."""
        start = self.at
        path = here + self._key()
        self._note(path, start)
        self.at += 1  # the equals sign
        self._value(path)

    def _key(self) -> tuple[str, ...]:
        keys = []
        while True:
            match = _KEY.match(self.text, self.at)
            assert match is not None
            keys.append(next(part for part in match.groups() if part is not None))
            self.at = match.end()
            if self.text[self.at] != ".":
                return tuple(keys)
            self.at += 1

    def _value(self, path: Path) -> None:
        self._skip()
        character = self.text[self.at]
        if character in "[{":
            self._sequence(path, "]" if character == "[" else "}")
            return
        match = (_STRING if character in "\"'" else _SCALAR).match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def _sequence(self, path: Path, closing: str) -> None:
        """Scan an array or an inline table, from its opening bracket to the closing one."""
        self.at += 1
        index = 0
        self._skip()
        while self.text[self.at] != closing:
            if closing == "}":
                self._pair(path)
            else:
                self._note((*path, index), self.at)
                self._value((*path, index))
                index += 1
            self._skip()
            if self.text[self.at] == ",":
                self.at += 1
                self._skip()
        self.at += 1

    def _skip(self) -> None:
        match = _BLANK.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def _note(self, path: Path, at: int) -> None:
        for end in range(1, len(path) + 1):
            self.found.setdefault(path[:end], self.text.count("\n", 0, at) + 1)
