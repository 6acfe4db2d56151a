"""Turn operations on paths into rows: find the object that has a name now, and the name's directory.

It serves formats whose records have a path each.  A name seen for the first time is an object from before the trace; an
object becomes a directory when the first name below it appears.
"""

from posixpath import normpath

from scmsim.core.records import CREATE, DIRECTORY, LINK, MKDIR, READ, RENAME, RMDIR, UNLINK, WRITE
from scmsim.trace.reading.builder import OUTSIDE, TraceBuilder

_MAKES, _REMOVES = (CREATE, MKDIR), (UNLINK, RMDIR)


class Names:
    """The names of one trace and the numbers of their objects (-1: outside of the chosen directory)."""

    def __init__(self, builder: TraceBuilder) -> None:
        self.builder = builder
        self._table: dict[str, int | None] = {}  # None: known to be absent

    def is_there(self, path: str) -> bool | None:
        """Return whether an object has this name; None if the trace has not shown it yet."""
        path = _clean(path)
        return self._table[path] is not None if path in self._table else None

    def add(self, path: str, first: int, *, is_dir: bool = False, exact: bool = True) -> int:
        """Add an object at a path, of `first` bytes before the trace (-1: the trace creates it); return its number."""
        path = _clean(path)
        file = self._table[path] = self.builder.make(path, first, is_dir=is_dir, exact=exact)
        return file

    def find(self, path: str, *, is_dir: bool = False) -> int:
        """Return the object at a path; if none is known, add one from before the trace."""
        file = self._table.get(_clean(path))
        if file is None:
            return self.add(path, 0, is_dir=is_dir, exact=is_dir)
        if is_dir and file >= 0:
            self.builder.is_dir[file] = True
        return file

    def emit(
        self,
        now: int,
        op: int,
        path: str,
        path2: str = "",
        *,
        offset: int = -1,
        length: int = 0,
        thread: int = 0,
        flag: int = 0,
        buffer: int = 0,
    ) -> str | None:
        """Add a row; return the reason why it was left out, or None.

        `path2` is the new name of a rename or a link, and the second object of other operations.
        """
        file, file2 = self._objects(op, path, path2)
        if file < 0:
            return OUTSIDE
        if op in (READ, WRITE):
            self.builder.transferred(op, file, offset + length)
        flag |= DIRECTORY if self.builder.is_dir[file] else 0
        self.builder.row(now, op, file, offset, length, thread, flag, file2, buffer)
        return None

    def _objects(self, op: int, path: str, path2: str) -> tuple[int, int]:
        """Return the numbers of the two objects of an operation, and apply the operation's effect on names."""
        if op in _MAKES:
            return self.add(path, -1, is_dir=op == MKDIR), self._parent(path)
        if op in _REMOVES:
            file = self.find(path, is_dir=op == RMDIR)
            self._table[_clean(path)] = None
            return file, self._parent(path)
        if op == RENAME:
            return self._move(_clean(path), _clean(path2))
        file = self.find(path)
        if op == LINK:
            self._table[_clean(path2)] = file
            return file, self._parent(path2)
        return file, self.find(path2) if path2 else -1

    def _parent(self, path: str) -> int:
        path = _clean(path)
        return self.find(path.rpartition("/")[0] or ("/" if path[:1] == "/" else "."), is_dir=True)

    def _move(self, old: str, new: str) -> tuple[int, int]:
        file, replaced = self.find(old), self._table.get(new)
        if replaced == file:  # two names of one object: the kernel does nothing
            return file, -1
        self._table[old], self._table[new] = None, file
        if file >= 0 and self.builder.is_dir[file]:
            for path in [path for path in self._table if path.startswith(old + "/")]:
                self._table[new + path[len(old) :]] = self._table.pop(path)
        return file, -1 if replaced is None else replaced


def _clean(path: str) -> str:
    """Return a path without empty and dot components, so that an object has one name."""
    return normpath(path) if "//" in path or "/." in path or path[-1:] == "/" or path[:1] == "." else path
