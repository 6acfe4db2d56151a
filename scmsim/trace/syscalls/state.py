"""Hold the state of the traced processes for an strace importer: inodes, descriptors, tasks, mappings."""

import bisect
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from scmsim.core.records import OFFSET_UNKNOWN
from scmsim.trace.rules import FILE_END


class Node:
    """An inode, as far as the trace shows it.

    `length` is its length now (a lower bound unless `exact`), `written` the end of the furthest byte that the trace
    itself wrote, `first` its length before the trace (-1: made by the trace).  `open_question` is true while a later
    call can still raise `first`.  `row` is the number of the CREATE row while the file is only assumed to be new,
    else -1.  `name` is its first path, `path` its present one.  `doubt` has the bits of `file_rules.LOST` for what a line that
    was not understood may have changed.
    """

    __slots__ = (
        "doubt", "exact", "first", "ident", "inside", "is_dir", "length", "name", "open_question", "path", "row", "written",
    )  # fmt: skip
    NUMBERS = (
        "first", "length", "written", "row", "ident", "exact", "open_question", "inside", "is_dir", "doubt",
    )  # fmt: skip

    def __init__(self, path: str, inside: bool, *, created: bool = False, is_dir: bool = False) -> None:
        self.name = self.path = path
        self.inside = inside
        self.is_dir = is_dir
        self.ident = self.row = -1
        self.length = self.written = self.doubt = 0
        self.first = -1 if created else 0
        self.exact = created
        self.open_question = not created

    def set_numbers(self, numbers: Iterable[Any]) -> None:
        """Set the attributes NUMBERS."""
        (
            self.first, self.length, self.written, self.row, self.ident, self.exact, self.open_question, self.inside,
            self.is_dir, self.doubt,
        ) = numbers  # fmt: skip


class Description:
    """An open file description, which dup and fork share; `node` is None if it is not a file (pipe, socket, device).

    `doubt` is OFFSET_UNKNOWN while `position` is an assumption, with POSITION_LOST where a line that was not understood is the
    cause; `raw` is the text that -y printed last; `path_only` is true after O_PATH, which opens nothing; `path` is the path of an
    object that is not a file, such as a directory of /proc.
    """

    __slots__ = ("append", "doubt", "node", "path", "path_only", "position", "raw", "synchronous")

    def __init__(self, node: Node | None, raw: str | None = None, *, known: bool = True, path: str = "") -> None:
        self.node = node
        self.path = path
        self.raw = raw
        self.position = 0
        self.doubt = 0 if known else OFFSET_UNKNOWN
        self.append = self.synchronous = self.path_only = False


class Table:
    """A descriptor table: descriptor (text of strace, number of perf) -> description; an execve closes `at_exec`.

    `unsure` has the descriptors that a line that was not understood may have opened or closed; if `doubt` is true, such a line may
    also have opened any descriptor without a description.
    """

    __slots__ = ("at_exec", "doubt", "slots", "unsure")

    def __init__(self, slots: dict[Any, Description] | None = None, at_exec: set[Any] | None = None) -> None:
        self.slots = slots if slots is not None else {}
        self.at_exec = at_exec if at_exec is not None else set()
        self.unsure: set[Any] = set()
        self.doubt = False

    def put(self, fd: str | int, description: Description, at_exec: bool) -> None:
        self.slots[fd] = description
        self.unsure.discard(fd)
        if at_exec:
            self.at_exec.add(fd)
        else:
            self.at_exec.discard(fd)

    def copy(self) -> "Table":
        other = Table(dict(self.slots), set(self.at_exec))
        other.unsure, other.doubt = set(self.unsure), self.doubt
        return other

    def is_unsure(self, fd: Any) -> bool:
        """Return whether a line that was not understood may have changed the file of a descriptor."""
        return fd in self.unsure or (self.doubt and fd not in self.slots)

    def lose(self, fd: Any) -> None:
        """Forget the file of a descriptor and mark the descriptor as uncertain."""
        self.slots.pop(fd, None)
        self.unsure.add(fd)

    def lose_all(self) -> None:
        """Mark every descriptor as uncertain: a line that was not understood may have changed any of them."""
        self.unsure.update(self.slots)
        self.doubt = True


class Place:
    """The working directory, shared by threads (CLONE_FS); `raw` is the text that -y printed last.

    `doubt` is FILE_LOST if relative paths may lead to other files than they seem to, `root_doubt` if absolute paths may.
    """

    __slots__ = ("cwd", "doubt", "raw", "root_doubt")

    def __init__(self, cwd: str = "", raw: str | None = None) -> None:
        self.cwd = cwd
        self.raw = raw
        self.doubt = self.root_doubt = 0

    def copy(self) -> "Place":
        other = Place(self.cwd, self.raw)
        other.doubt, other.root_doubt = self.doubt, self.root_doubt
        return other

    def move(self, cwd: str) -> None:
        """Change the working directory."""
        self.cwd = cwd
        self.doubt = self.doubt if not cwd.startswith("/") else 0


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
        """Map [start, end); stores to a `private` mapping never reach the file.

        Raises ValueError if the mapping reaches past FILE_END, the largest file size of any model.
        """
        if offset + end - start > FILE_END:
            raise ValueError(f"a mapping of {end - start} bytes at offset {offset} ends beyond 2^44 (16 TiB)")
        self.cut(start, end)
        self._columns = None
        bisect.insort(self._starts, start)
        self._ranges[start] = end, node, offset, private

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[Node], list[bool]]:
        """Return the starts, ends, file offsets, nodes and private marks of all ranges, in order of address."""
        if self._columns is None:
            ranges = [self._ranges[start] for start in self._starts]
            starts, ends, offsets = (
                np.array(values, "i8")
                for values in (self._starts, [one[0] for one in ranges], [one[2] for one in ranges])
            )
            self._columns = starts, ends, offsets, [one[1] for one in ranges], [one[3] for one in ranges]
        return self._columns

    def private(self, address: int) -> bool:
        """Return whether the mapping of a mapped address is private."""
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
        """Remove [start, end) and return the removed pieces of mappings."""
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
    """A thread: its dense number and what it shares with others; `lacked` is true if a call needed state that no line showed."""

    __slots__ = ("closing", "lacked", "maps", "pending", "pid", "place", "table", "thread")

    def __init__(self, pid: str | None, table: Table, place: Place, maps: Maps) -> None:
        self.pid = pid
        self.thread = -1  # assigned by its first row
        self.table = table
        self.place = place
        self.maps = maps
        self.lacked = False
        self.pending: tuple[str, str] | None = None  # name and text of a call that waits for its second half
        self.closing: Description | None = None  # the description that the pending close has freed already

    def spawn(self, pid: str | None, text: str) -> "Task":
        """Return the child task of a clone, fork or vfork, whose arguments are in `text`."""
        return Task(
            pid,
            self.table if "CLONE_FILES" in text else self.table.copy(),
            self.place if "CLONE_FS" in text else self.place.copy(),
            self.maps if "CLONE_VM" in text or "vfork(" in text else self.maps.copy(),
        )

    def inherit_late(self, before: "Task") -> None:
        """Take over the descriptors and working directory that a child got before the line of its fork."""
        self.thread = before.thread
        for fd, found in before.table.slots.items():
            mine = self.table.slots.get(fd)
            if mine is not None and mine.node is found.node and found.doubt:
                mine.doubt |= OFFSET_UNKNOWN  # the inherited description: the child's calls have moved its position
            else:
                self.table.slots[fd] = found
        if before.place.cwd.startswith("/"):
            self.place = before.place

    def is_doubtful(self) -> bool:
        """Return whether a line that was not understood may have changed descriptors or the working directory."""
        return bool(self.table.doubt or self.table.unsure or self.place.doubt or self.place.root_doubt)

    def execute(self) -> None:
        """Apply a successful execve: a new address space, and an unshared table without the close-on-exec descriptors."""
        self.table = self.table.copy()
        for fd in self.table.at_exec:
            self.table.slots.pop(fd, None)
            self.table.unsure.discard(fd)
        self.table.at_exec.clear()
        self.maps = Maps()
