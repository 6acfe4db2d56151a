"""Hold the state of one strace conversion: rows waiting to be written, inodes with their numbers, descriptors, paths."""

from array import array
from collections import Counter
from typing import Any

import numpy as np

from scmsim.core.records import CONTINUES, OFFSET_UNKNOWN, OP, OPEN, READ, WRITE, Files
from scmsim.trace.kernels import file_rules
from scmsim.trace.reading.report import Report
from scmsim.trace.store import TraceWriter
from scmsim.trace.syscalls import table as system_calls
from scmsim.trace.syscalls.names import Names, is_special
from scmsim.trace.syscalls.state import Description, Maps, Node, Place, Table, Task
from scmsim.trace.syscalls.text import SELF_FD, unescape

NOT_A_FILE = "not a file (pipe, socket, device, /proc, /sys, memory)"
NOT_A_FILE_OPERATION = "not a file operation"
NO_MODEL = "file operation without a model"
BOOKKEEPING = "bookkeeping (descriptors, positions, processes)"
FAILED_CALL = "failed call"
UNKNOWN_FD = "descriptor from before the trace"
LOST_FD = "descriptor that a line which was not understood may have opened"
UNKNOWN_CALL = "system call that the table lacks"
OUTSIDE = "outside of the chosen directory"
SYMLINK = "symbolic link"
FIRST_HALF = "first half of a split call"
NO_FIRST_HALF = "second half of a call from before the trace"
NEVER_RETURNED = "call that never returned"
PROCESS_EVENT = "signal or process event"
BLANK = "blank line"

# names of the cases in the header's counts `creates`, by the result of `file_rules.opened`
CREATES = ("", "certainly new", "emptied when opened, taken as new", "assumed new")

# keys of `Report.blind` that are not names of calls
RESULTS, LATE = "io_submit, results", "process, late"

_FIELDS = ("time_ns", "offset", "length", "file", "file2", "thread", "flag", "op")  # order in the buffer
WIDTH = len(_FIELDS)
_DELETED = " (deleted)"
KEEP = 1 << 16  # rows held back, so that an assumed CREATE can still be changed


class Importer:
    """The state that the handlers of the calls read and change; `now` is the time of the current line, ns."""

    def __init__(self, names: Names, cwd: str) -> None:
        self.names = names
        self.report = Report()
        self.now = 0
        self.doubt = 0  # bits of file_rules.LOST for the current call
        self.orphans = False  # whether a fork was not understood: an unknown task may then have inherited descriptors
        self.tasks: dict[str | None, Task] = {}
        self.forks: dict[str | None, str] = {}  # process in an unfinished fork -> arguments of the fork
        self.adopted: dict[str, str | None] = {}  # a process seen before its parent's fork returned -> that parent
        # children whose number is below their parent's, and may be that of a PID namespace
        self.unseen: dict[str, Task] = {}
        self.started: set[str] = set()  # children without a line so far, forked by a process without a PID
        self.foreign: set[str | None] = set()  # processes that no fork has announced
        self.ended_lacking: set[str] = set()  # processes that have ended, with Task.lacked
        self.nameless = 0  # number of objects so far whose name is not known
        self.mistaken = 0  # children that may have inherited from a wrong process (several forks were pending)
        self.program = ""  # path of the first execve
        self.writable: dict[str, int] = {}  # path -> bytes mapped writable and shared
        self._cwd = cwd
        self.threads = 0
        self._buffer = array("q")
        self.drained = 0  # rows taken out of the buffer

    def emit(self, task: Task, op: int, node: Node, offset: int, length: int, flag: int, file2: int = -1) -> str | None:
        """Add a row; return None, or the reason why the row was left out."""
        if not node.inside:
            return OUTSIDE
        ident = node.ident
        if ident < 0:
            ident = self.number(node)
        if task.thread < 0:
            task.thread = self._next_thread()
        flag |= node.doubt | self.doubt
        self._buffer.extend((self.now, offset, length, ident, file2, task.thread, flag, op))
        return None

    def emit_many(self, now: Any, offset: Any, length: Any, ident: Any, thread: Any, flag: Any, op: Any) -> None:
        """Append rows that are given as columns of int64."""
        table = np.empty((len(op), WIDTH), "i8")
        for column, values in enumerate((now, offset, length, ident, -1, thread, flag, op)):
            table[:, column] = values
        self.emit_table(table)

    def emit_table(self, table: np.ndarray) -> None:
        """Append the rows of a table, which has the buffer's columns."""
        self._buffer.frombytes(table.tobytes())

    def thread(self, task: Task) -> int:
        """Return the dense number of a thread, which the thread's first row assigns."""
        if task.thread < 0:
            task.thread = self._next_thread()
        return task.thread

    def also(
        self, task: Task, before: str | None, op: int, node: Node, offset: int, length: int, flag: int
    ) -> str | None:
        """Add another row of the same call; `before` is what `emit` returned for the previous row."""
        reason = self.emit(task, op, node, offset, length, flag | (CONTINUES if before is None else 0))
        if before is None and reason is None:
            self.report.extra_rows += 1
        return before if before is None else reason

    def emit_sync(self, task: Task, op: int) -> None:
        """Add a row that has no file."""
        if task.thread < 0:
            task.thread = self._next_thread()
        self._buffer.extend((self.now, -1, 0, -1, -1, task.thread, 0, op))

    def _next_thread(self) -> int:
        self.threads += 1
        return self.threads - 1

    def nameless_path(self, task: Task, fd: int) -> str:
        """Return a unique path for an opened object whose name is not known."""
        self.nameless += 1
        return f"/process/{task.pid}/descriptor/{fd}/open/{self.nameless}"

    def next_row(self) -> int:
        """Return the number of the row that the next `emit` adds."""
        return self.drained + len(self._buffer) // WIDTH

    def number(self, node: Node) -> int:
        """Return the dense id of an inode, which the inode's first row assigns."""
        if node.ident < 0:
            node.ident = len(self.names.numbered)
            self.names.numbered.append(node)
        return node.ident

    def drain(self, writer: TraceWriter, keep: int | None = None) -> None:
        """Write all but the last `keep` rows (by default KEEP)."""
        count = len(self._buffer) // WIDTH - (KEEP if keep is None else keep)
        if count <= 0:
            return
        table = np.frombuffer(self._buffer, "i8", count * WIDTH).reshape(count, WIDTH)
        out = np.zeros(count, OP)
        for column, name in enumerate(_FIELDS):
            out[name] = table[:, column]
        del table  # the buffer cannot shrink while a view of it exists
        self._count_lost(out)
        del self._buffer[: count * WIDTH]
        self.drained += count
        self.report.rows += count
        self.report.unknown_offsets += int(np.count_nonzero(out["flag"] & OFFSET_UNKNOWN))
        writer.append(out)

    def _count_lost(self, rows: np.ndarray) -> None:
        """Count the rows that depend on lines that were not understood, and remove their marks."""
        report, moves = self.report, np.isin(rows["op"], (READ, WRITE))
        uncertain = rows["flag"] & file_rules.LOST != 0
        report.bytes += int(rows["length"][moves].sum())
        if uncertain.any():
            report.uncertain_rows += int(np.count_nonzero(uncertain))
            report.uncertain_bytes += int(rows["length"][moves & uncertain].sum())
            rows["flag"] &= ~np.int64(file_rules.LOST)

    def files(self) -> Files:
        """Return the side table of files."""
        nodes, closed = self.names.numbered, self.names.closed
        objects = [(i, node) for i, node in enumerate(nodes) if isinstance(node, Node)]
        paths: list[Any] = list(nodes)
        first, is_dir = np.zeros(len(nodes), "i8"), np.zeros(len(nodes), bool)
        first[list(closed)] = list(closed.values())
        for i, node in objects:
            paths[i], first[i], is_dir[i] = node.name, node.first, node.is_dir
        first[is_dir & (first > 0)] = 0
        return Files(paths, first, is_dir)

    def holds(self, node: Node, end: int) -> None:
        """Note that a read or seek has shown at least `end` bytes in the file now."""
        self.existed(file_rules.holds(node, end, self.drained))

    def measured(self, node: Node, length: int) -> None:
        """Note that a stat or seek has shown exactly `length` bytes in the file now."""
        self.holds(node, length)
        file_rules.set_length(node, length)

    def existed(self, row: int) -> None:
        """Change the CREATE at `row` (NONE: no row) to OPEN: the file has data that the trace did not write, so it is not new."""
        if row == file_rules.NONE:
            return
        at = (row - self.drained) * WIDTH
        creates = self.report.creates
        if at < 0:
            creates["found too late to be existing"] += 1
            return
        creates["assumed new"] -= 1
        creates["assumed new, then found existing"] += 1
        self._buffer[at + _FIELDS.index("op")] = OPEN
        self._buffer[at + _FIELDS.index("file2")] = -1

    def task(self, pid: str | None) -> Task:
        """Make the task of a new process or thread: a child of a pending fork, or a task of unknown origin."""
        for parent, text in self.forks.items():
            if pid is not None and parent in self.tasks and parent not in self.adopted.values():
                self.adopted[pid] = parent
                return self.add_child(pid, self.tasks[parent], text)
        if pid is not None and self.unseen:
            return self._born(pid)
        task = self.tasks[pid] = Task(pid, Table(), Place(self._cwd), Maps())
        task.table.doubt = self.orphans
        self.foreign.add(pid)
        return task

    def _born(self, pid: str) -> Task:
        """Return the oldest child in `unseen`, renumbered to `pid`: its fork returned the number of a PID namespace."""
        self.mistaken += len(self.unseen) > 1
        task = self.unseen.pop(next(iter(self.unseen)))
        self.tasks.pop(task.pid, None)
        task.pid = pid
        self.tasks[pid] = task
        return task

    def add_child(self, pid: str, parent: Task, text: str) -> Task:
        """Make the task of a fork's child; a child seen before keeps the descriptors that its calls opened."""
        before, task = self.tasks.get(pid), parent.spawn(pid, text)
        self.tasks[pid] = task
        if pid in self.ended_lacking or (before is not None and before.lacked):
            self.report.blind[LATE] += 1
        if before is not None:
            task.inherit_late(before)
        return task

    def describe(self, task: Task, fd: str, raw: str | None) -> Description | None:
        """Return a descriptor's description, checked against the text of -y; None if the descriptor is unknown."""
        table = task.table
        found, is_unsure = table.slots.get(fd), table.is_unsure(fd)
        if raw is None:
            self.doubt |= file_rules.FILE_LOST if is_unsure else 0
            return found
        if found is None or (raw != found.raw and not self._same(found, raw)):
            found, task.lacked = self.adopt(raw), True
            found.doubt |= file_rules.POSITION_LOST if is_unsure and found.doubt else 0
            table.put(fd, found, False)
        found.raw = raw
        table.unsure.discard(fd)
        return found

    def adopt(self, raw: str) -> Description:
        """Return a description of unknown position for a descriptor whose open is not in the trace; `raw` is its text of -y."""
        path, deleted = self.shown(raw)
        if not path.startswith("/") or is_special(path):
            return Description(None, raw, path=path if path.startswith("/") else "")
        node = self.names.deleted.get(path) if deleted else None
        return Description(node or self.names.node(path), raw, known=False)

    def shown(self, raw: str) -> tuple[str, bool]:
        """Return the path in the text of -y, and whether the file is deleted.

        Strace before 5.19 prints `<path (deleted)>`, which means a deleted file unless a file has that name.
        """
        path, deleted = split_raw(raw)
        if not deleted and path.endswith(_DELETED) and self.names.table.get(path) is None:
            return path.removesuffix(_DELETED), True
        return path, deleted

    def _same(self, found: Description, raw: str) -> bool:
        """Return whether a changed -y text can mean the same description, whose file was renamed, linked or deleted."""
        path, deleted = self.shown(raw)
        node = found.node
        if node is None:
            return not path.startswith("/") or is_special(path)
        return path == node.path or (self.names.deleted if deleted else self.names.table).get(path) is node

    def base(self, task: Task, fd: str, raw: str | None) -> str:
        """Return the directory that a relative path starts from: the working directory or that of a descriptor."""
        place = task.place
        if fd == "AT_FDCWD":
            if raw is not None:
                if raw != place.raw:
                    place.raw, place.cwd = raw, split_raw(raw)[0]
                place.doubt = 0
            self.doubt |= place.doubt
            return place.cwd
        if raw is not None:
            return self.shown(raw)[0]
        found = task.table.slots.get(fd)
        self.doubt |= file_rules.FILE_LOST if task.table.is_unsure(fd) else 0
        if found is None:
            return ""
        return found.path if found.node is None else found.node.path

    def path(self, task: Task, fd: str, raw: str | None, quoted: str) -> str:
        """Return the path of a call's quoted name, relative to the directory of a descriptor."""
        text, before = unescape(quoted), self.doubt
        base = self.base(task, fd, raw)
        if text.startswith("/"):
            self.doubt = before | task.place.root_doubt
        elif raw is None:
            task.lacked = True
        return self.names.join(base, text)

    def by_link(self, task: Task, path: str) -> Description | None:
        """Return the open file description that /proc/self/fd/N names, or None."""
        match = SELF_FD(path) if path.startswith("/proc/") else None
        return task.table.slots.get(match[1]) if match else None


def split_raw(raw: str) -> tuple[str, bool]:
    """Return the path and whether it is deleted, from `<path>` or `<path>(deleted)`."""
    deleted = raw.endswith("(deleted)")
    return unescape(raw[1 : raw.rindex(">")]), deleted


def blind_spots(report: Report) -> list[str]:
    """Return texts about calls that move data or change a length without a row, and calls that the table lacks."""
    blind, out = Counter(report.blind), []
    if rings := sum(blind.pop(name, 0) for name in list(blind) if name.startswith("io_uring_")):
        out.append(f"io_uring: {rings} calls; the reads and writes that they start are not in the trace")
    if results := blind.pop(RESULTS, 0):
        out.append(f"io_submit: {results} requests taken as complete; their results are not in the trace")
    if late := blind.pop(LATE, 0):
        out.append(
            f"{late} processes made calls before the line of the call that made them (strace -z); their calls on descriptors "
            "and paths of their parents may be missing or wrong"
        )
    out += [f"{name}: {count} calls; what they change is not in the trace" for name, count in blind.most_common()]
    if report.left_out[UNKNOWN_CALL]:
        lacking = [f"{name} {count}" for name, count in report.other.most_common() if system_calls.does(name) is None]
        out.append(f"system calls that the table lacks: {', '.join(lacking[:8])}; what they change is not known")
    return out


def not_in_the_trace(imp: Importer) -> list[str]:
    """Return texts about all blind spots: those of `blind_spots`, processes not followed, and writable mappings."""
    out = blind_spots(imp.report)
    if imp.started:
        out.append(
            f"{len(imp.started)} processes or threads that were started and not followed (strace -f follows them)"
        )
    for path, length in list(imp.writable.items())[:20]:
        out.append(f"writable shared mapping of {path!r} ({length} bytes): its loads and stores are not in the trace")
    if len(imp.writable) > 20:
        out.append(f"writable shared mappings of {len(imp.writable) - 20} more files")
    return out
