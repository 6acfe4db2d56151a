"""What an strace importer remembers about the traced processes: inodes, descriptors, tasks, mappings."""

import bisect
from collections.abc import Iterator
from typing import Any

import numpy as np

from scmsim.core.records import OFFSET_UNKNOWN


class Node:
    """An inode, as far as the trace shows it.

    `length` is its length now (a lower bound unless `exact`), `written` the end of the furthest byte that the trace
    itself wrote, `first` its length before the trace (-1: made by the trace).  `open_question` is true while something
    seen later can still raise `first`.  `row` is the number of the CREATE row while the file is only assumed to be new,
    else -1.  `name` is its first path, `path` its present one.
    """

    __slots__ = (
        "exact", "first", "ident", "inside", "is_dir", "length", "name", "open_question", "path", "row", "written",
    )  # fmt: skip

    def __init__(self, path: str, inside: bool, *, created: bool = False, is_dir: bool = False) -> None:
        self.name = self.path = path
        self.inside = inside
        self.is_dir = is_dir
        self.ident = self.row = -1
        self.length = self.written = 0
        self.first = -1 if created else 0
        self.exact = created
        self.open_question = not created


class Description:
    """An open file description: what dup and fork share.  `node` is None where it is no file (pipe, socket, device).

    `doubt` is OFFSET_UNKNOWN while `position` is an assumption; `raw` is the text that -y printed last; `path_only` is
    that of O_PATH, which opens nothing.
    """

    __slots__ = ("append", "doubt", "node", "path_only", "position", "raw", "synchronous")

    def __init__(self, node: Node | None, raw: str | None = None, *, known: bool = True) -> None:
        self.node = node
        self.raw = raw
        self.position = 0
        self.doubt = 0 if known else OFFSET_UNKNOWN
        self.append = self.synchronous = self.path_only = False


class Table:
    """A descriptor table: descriptor (text of strace, number of perf) -> description; an execve closes `at_exec`."""

    __slots__ = ("at_exec", "slots")

    def __init__(self, slots: dict[Any, Description] | None = None, at_exec: set[Any] | None = None) -> None:
        self.slots = slots if slots is not None else {}
        self.at_exec = at_exec if at_exec is not None else set()

    def put(self, fd: str | int, description: Description, at_exec: bool) -> None:
        self.slots[fd] = description
        if at_exec:
            self.at_exec.add(fd)
        else:
            self.at_exec.discard(fd)

    def copy(self) -> "Table":
        return Table(dict(self.slots), set(self.at_exec))


class Place:
    """The working directory, shared by threads (CLONE_FS); `raw` is the text that -y printed last."""

    __slots__ = ("cwd", "raw")

    def __init__(self, cwd: str = "", raw: str | None = None) -> None:
        self.cwd = cwd
        self.raw = raw


class Maps:
    """File mappings of one address space, as disjoint ranges."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ranges: dict[int, tuple[int, Node, int, bool]] = {}  # start -> end, node, offset in the file, private
        self._columns: Any = None

    def copy(self) -> "Maps":
        other = Maps()
        other._starts, other._ranges = list(self._starts), dict(self._ranges)
        return other

    def add(self, start: int, end: int, node: Node, offset: int, private: bool = False) -> None:
        """Map [start, end); stores to a `private` mapping never reach the file."""
        self.cut(start, end)
        self._columns = None
        bisect.insort(self._starts, start)
        self._ranges[start] = end, node, offset, private

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[Node], list[bool]]:
        """Starts, ends, offsets in the files, nodes and whether they are private of all ranges, by address."""
        if self._columns is None:
            ranges = [self._ranges[start] for start in self._starts]
            starts, ends, offsets = (
                np.array(values, "i8")
                for values in (self._starts, [one[0] for one in ranges], [one[2] for one in ranges])
            )
            self._columns = starts, ends, offsets, [one[1] for one in ranges], [one[3] for one in ranges]
        return self._columns

    def private(self, address: int) -> bool:
        """Whether the mapping that holds this mapped address is private."""
        return self._ranges[self._starts[bisect.bisect_right(self._starts, address) - 1]][3]

    def within(self, start: int, end: int) -> Iterator[tuple[int, int, Node, int]]:
        """Yield (start, end, node, offset in the file) of every mapped piece of [start, end)."""
        at = max(bisect.bisect_right(self._starts, start) - 1, 0)
        for low in self._starts[at:]:
            if low >= end:
                break
            high, node, offset, _ = self._ranges[low]
            if high > start:
                first = max(low, start)
                yield first, min(high, end), node, offset + first - low

    def cut(self, start: int, end: int) -> list[tuple[int, int, Node, int]]:
        """Remove [start, end) and return the pieces that were mapped there."""
        if not self._starts:
            return []
        self._columns = None
        pieces = list(self.within(start, end))
        for first, last, _, _ in pieces:
            low = self._starts[bisect.bisect_right(self._starts, first) - 1]
            high, node, offset, private = self._ranges.pop(low)
            self._starts.remove(low)
            for left, right in ((low, first), (last, high)):
                if left < right:
                    bisect.insort(self._starts, left)
                    self._ranges[left] = right, node, offset + left - low, private
        return pieces


class Task:
    """A thread: its dense number and what it shares with others."""

    __slots__ = ("closing", "maps", "pending", "pid", "place", "table", "thread")

    def __init__(self, pid: str | None, table: Table, place: Place, maps: Maps) -> None:
        self.pid = pid
        self.thread = -1  # given at the first row
        self.table = table
        self.place = place
        self.maps = maps
        self.pending: tuple[str, str] | None = None  # name and text of a call whose second half is to come
        self.closing: Description | None = None  # what the pending close has closed already

    def spawn(self, pid: str | None, text: str) -> "Task":
        """The child that a clone, fork or vfork with these arguments makes."""
        return Task(
            pid,
            self.table if "CLONE_FILES" in text else self.table.copy(),
            self.place if "CLONE_FS" in text else Place(self.place.cwd, self.place.raw),
            self.maps if "CLONE_VM" in text or "vfork(" in text else self.maps.copy(),
        )

    def execute(self) -> None:
        """A successful execve: a new address space, an own table without the close-on-exec descriptors."""
        self.table = self.table.copy()
        for fd in self.table.at_exec:
            self.table.slots.pop(fd, None)
        self.table.at_exec.clear()
        self.maps = Maps()
