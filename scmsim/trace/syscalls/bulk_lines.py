"""Convert a block of strace's text: stretches of plain calls (see `runs.py`) in bulk, the lines between them one by one."""

import re
from collections.abc import Callable, Iterator
from itertools import compress
from operator import eq
from typing import Any

import numpy as np

from scmsim.core.records import (
    CLOSE,
    DATA_ONLY,
    FSYNC,
    LINK,
    MKDIR,
    OPEN,
    READ,
    READDIR,
    RENAME,
    STAT,
    TRUNCATE,
    UNLINK,
    WRITE,
)
from scmsim.trace.kernels import file_rules
from scmsim.trace.reading.lines import line_ends
from scmsim.trace.syscalls import runs as runs
from scmsim.trace.syscalls.clock import Clock
from scmsim.trace.syscalls.forms import Forms
from scmsim.trace.syscalls.handlers import COUNTED
from scmsim.trace.syscalls.importer import NOT_A_FILE_OPERATION, Importer
from scmsim.trace.syscalls.names import above_of
from scmsim.trace.syscalls.paths import open_flags
from scmsim.trace.syscalls.state import Task
from scmsim.trace.syscalls.text import unescape

_MOST_FD = 1 << 16  # a larger descriptor is left to the patterns
_UNKNOWN_FLAGS = re.compile(r"O_PATH|O_TMPFILE|AT_EMPTY_PATH|RENAME_EXCHANGE|^\|").search
# commands without effect on the trace: locks and terminals are the most frequent
_FCNTL = re.compile(r"F_(?!DUPFD|SETFD|SETFL|GETFL)").match
_IOCTL = re.compile(r"TC|TIOC|FION").match
_CREAT = "O_WRONLY|O_CREAT|O_TRUNC"  # flags that creat() implies


def _distinct(*columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the distinct rows of some columns (-1 or more), and for each row the number of its distinct row."""
    keys = columns[0] + 1
    for column in columns[1:]:
        keys = keys * (int(column.max()) + 2) + column + 1
    return np.unique(keys, return_index=True, return_inverse=True)[1:]


class _Texts:
    """The distinct texts of a block, by their numbers; `number` returns the number of a text."""

    def __init__(self, kernel: Any, block: bytes, spans: np.ndarray, heads: np.ndarray) -> None:
        self._kernel, self._spans, self._heads = kernel, spans, heads
        self._bytes, self._block = np.frombuffer(block, np.uint8), block.decode("latin-1")
        self.is_plain = self._block.isascii() and "\\" not in self._block  # whether `unescape` changes no text

    def __getitem__(self, number: int) -> str:
        first, last = self._spans[number, :2].tolist()
        return self._block[first:last]

    def some(self, first: np.ndarray, last: np.ndarray) -> list[str]:
        """Return the texts between some limits in the block."""
        block = self._block
        return [block[start:end] for start, end in zip(first.tolist(), last.tolist(), strict=True)]

    def number(self, text: str) -> int:
        """Return the number of a text, -1 if the block does not have it."""
        wanted = np.frombuffer(text.encode("latin-1"), np.uint8)
        return int(self._kernel.number_of(wanted, self._bytes, self._spans, self._heads))


class BulkLines:
    """The conversion of one block of text.

    Parameters
    ----------
    imp, clock, forms : Importer, Clock, Forms
    block : bytes
        Whole lines.
    lines : callable(bytes)
        Converts lines one by one.
    """

    def __init__(self, imp: Importer, clock: Clock, forms: Forms, block: bytes, lines: Callable[[bytes], None]) -> None:
        from scmsim.trace.kernels import file_calls, strace_text

        self.imp, self.clock, self.block, self.text, self.calls = imp, clock, block, strace_text, file_calls
        self._lines, self._forms, self._understood = lines, forms, False
        count = line_ends(block) + (not block.endswith(b"\n"))
        self.rows = np.empty((count, strace_text.WIDTH), "i8")
        self.spans = np.empty((strace_text.MOST_TEXTS * count, strace_text.TEXT_WIDTH), "i8")
        heads = np.full(2 << len(self.spans).bit_length(), -1, "i4")
        strace_text.take_apart(np.frombuffer(block, np.uint8), self.rows, self.spans, heads, np.zeros(2, "i8"))
        self.texts = _Texts(strace_text, block, self.spans, heads)
        self._look_up(strace_text.NAMED, COUNTED.get)
        self._look_up(strace_text.FCNTL, _FCNTL)
        self._look_up(strace_text.IOCTL, _IOCTL)

    def _look_up(self, call: int, reason_of: Callable[[str], object]) -> None:
        """Leave the calls without a reason, by their column FLAGS, to the patterns."""
        text, rows = self.text, self.rows
        at = np.flatnonzero(rows[:, text.CALL] == call)
        some, which = np.unique(rows[at, text.FLAGS], return_inverse=True)
        reasons = [reason_of(self.texts[number]) for number in some.tolist()]
        rows[at[np.array([not reason for reason in reasons], bool)[which]], text.CALL] = text.OTHER
        # the handlers do not look at the result of a call that is not a file operation
        rows[at[np.array([reason == NOT_A_FILE_OPERATION for reason in reasons], bool)[which]], text.ERROR] = 0

    def work(self) -> bool:
        """Convert all lines in order; return whether any file operations were converted in bulk."""
        done = 0
        for start, end in self._long():
            self._plain(done, start)
            runs.in_parts(start, end, self._stretch, self._plain)
            done = end
        self._plain(done, len(self.rows))
        return self._understood

    def _long(self) -> Iterator[tuple[int, int]]:
        """Yield (start, end) of each series of lines that is long enough for bulk conversion to save time."""
        rows, text = self.rows, self.text
        timed = rows[:, text.TIME] >= 0
        good = (rows[:, text.CALL] != text.OTHER) & (rows[:, text.FD] < _MOST_FD)
        good &= timed if self.clock.is_absolute else ~timed if self.clock.is_counted else False
        yield from runs.stretches(good)

    def _plain(self, start: int, end: int) -> None:
        if start < end:
            first, last = int(self.rows[start, self.text.START]), int(self.rows[end - 1, self.text.END])
            self._lines(self.block[first:last])

    def _stretch(self, start: int, end: int) -> int:
        """Convert the first lines of a stretch; return the number of converted lines."""
        rows, imp = self.rows[start:end], self.imp
        tasks, which = self._tasks(rows[:, self.text.PID])
        rows = rows[: len(which)]
        now = self.clock.many(rows[:, self.text.TIME], imp.report.lines + 1) if tasks else None
        # the first line may end a call that a message of strace has split
        if now is None or self._forms.piece is not None or any(task.closing is not None for task in tasks):
            return 0
        fds, slot = np.unique(rows[:, self.text.FD], return_inverse=True)
        stretch = runs.Stretch(imp, tasks, [str(fd) for fd in fds.tolist()], self.texts)
        if stretch.is_doubtful():  # the look-up of a later path may remove the doubt from earlier calls
            return 0
        calls = self._as_calls(rows, now, which, slot)
        self._name(stretch, tasks, rows, calls)
        done = stretch.follow(calls)
        if done:
            imp.report.lines += done
            self.clock.now = int(now[done - 1])
            self._count(rows[:done], which[:done], tasks)
        return done

    def _tasks(self, pids: np.ndarray) -> tuple[list[Task], np.ndarray]:
        """Return the tasks of the first calls, and for each of these calls the index of its task.

        The calls end before the first call of a new task: a new task copies state, so its first call must begin a stretch.
        """
        first, which = runs.distinct(pids)
        known = self.imp.tasks
        keys = [None if pid < 0 else str(pid) for pid in pids[first].tolist()]
        new = [i for i, key in enumerate(keys) if key not in known and first[i] > 0]
        stop = int(first[new[0]]) if new else len(pids)
        keys = keys[: new[0]] if new else keys
        return [known.get(key) or self.imp.task(key) for key in keys], which[:stop]

    def _as_calls(self, rows: np.ndarray, now: np.ndarray, task: np.ndarray, slot: np.ndarray) -> np.ndarray:
        text, kernel = self.text, self.calls
        nothing = kernel.NOTHING
        ops = np.array((
            READ, WRITE, READ, WRITE, kernel.SEEK, STAT, TRUNCATE, READDIR, nothing, nothing, FSYNC, FSYNC, CLOSE, OPEN, OPEN, OPEN,
            UNLINK, UNLINK, UNLINK, MKDIR, MKDIR, STAT, STAT, STAT, STAT, STAT, STAT, RENAME, RENAME, RENAME, LINK, LINK, nothing,
        ))  # fmt: skip
        call, failed = rows[:, text.CALL], rows[:, text.ERROR]
        positioned = (call == text.PREAD) | (call == text.PWRITE) | (call == text.FTRUNCATE)
        to_end = (call == text.LSEEK) & (rows[:, text.ASKED] > 0)
        end = np.maximum(rows[:, text.RESULT] - rows[:, text.OFFSET], file_rules.HERE)
        asked = np.where((call == text.ACCESS) | (call == text.FACCESSAT), text.NO_LENGTH, rows[:, text.ASKED])
        calls = np.empty((len(rows), kernel.WIDTH), "i8")
        calls[:, kernel.OP] = np.where(failed > 0, kernel.FAILED, ops[call])
        calls[:, kernel.NOW], calls[:, kernel.TASK], calls[:, kernel.FD] = now, task, slot
        calls[:, kernel.RAW], calls[:, kernel.ASKED] = rows[:, text.RAW], asked
        calls[:, kernel.AT] = np.where(positioned, rows[:, text.OFFSET], np.where(to_end, end, file_rules.HERE))
        calls[:, kernel.MOVED] = np.where(failed > 0, failed == text.ENOENT, rows[:, text.RESULT])
        calls[:, kernel.PATH] = calls[:, kernel.PATH2] = -1
        calls[:, kernel.FLAGS] = np.where(call == text.FDATASYNC, DATA_ONLY, 0)
        return calls

    def _name(self, stretch: runs.Stretch, tasks: list[Task], rows: np.ndarray, calls: np.ndarray) -> None:
        """Fill in the paths and open flags of calls on paths."""
        text, kernel = self.text, self.calls
        error, spans = rows[:, text.ERROR], self.spans[rows[:, text.PATH]]
        is_empty = spans[:, text.FIRST] == spans[:, text.LAST]
        # other errors say nothing about a name, and neither does an empty path that was not found
        # and an error of a call on two paths may be about either
        says = (error == 0) | ((error == text.ENOENT) & ~is_empty & (rows[:, text.PATH2] < 0))
        at = np.flatnonzero((rows[:, text.PATH] >= 0) & says)
        if not len(at):
            return
        second = at[rows[at, text.PATH2] >= 0]
        flags, error = self._flags(rows[at]), error[at]
        rows, task = rows[np.concatenate((at, second))], calls[np.concatenate((at, second)), kernel.TASK]
        rows[len(at) :, [text.BASE, text.PATH]] = rows[len(at) :, [text.BASE2, text.PATH2]]
        base, opens = _distinct(task, rows[:, text.BASE])[1], self._opens(rows)
        asks, ask = _distinct(base, rows[:, text.PATH], rows[:, text.RAW], opens.astype("i8"))
        path, direct = (column[ask] for column in self._paths(stretch, tasks, rows[asks], task[asks]))
        is_known = (error > 0) | (direct[: len(at)] & (flags >= 0))
        calls[at, kernel.PATH] = np.where(is_known, path[: len(at)], kernel.ODD)
        calls[second, kernel.PATH2] = np.where(direct[len(at) :], path[len(at) :], kernel.ODD)
        calls[at, kernel.FLAGS] = np.where(error > 0, 0, flags)

    def _opens(self, rows: np.ndarray) -> np.ndarray:
        return (rows[:, self.text.CALL] >= self.text.OPEN) & (rows[:, self.text.CALL] <= self.text.CREAT)

    def _flags(self, rows: np.ndarray) -> np.ndarray:
        """Return the open flags of calls on paths; -1: flags that only the handlers know."""
        text, out = self.text, []
        some, which = _distinct(rows[:, text.FLAGS], rows[:, text.CALL])
        for number, call in rows[some][:, [text.FLAGS, text.CALL]].tolist():
            words = self.texts[number] if number >= 0 else _CREAT if call == text.CREAT else ""
            removes = call == text.RMDIR or (call == text.UNLINKAT and "AT_REMOVEDIR" in words)
            out.append(-1 if _UNKNOWN_FLAGS(words) else file_rules.DIR if removes else open_flags(words))
        return np.array(out)[which]

    def _paths(
        self, stretch: runs.Stretch, tasks: list[Task], rows: np.ndarray, task: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices of the calls' paths (ODD: unknown), and whether the kernel can follow each call.

        The work on a directory is done once for all plain names in it.
        """
        text, spans, names = self.text, self.spans, self.imp.names
        asked, raw, last = rows[:, text.PATH], rows[:, text.RAW], spans[rows[:, text.PATH], text.LAST]
        is_plain = spans[asked, text.ABOVE] >= 0
        tail = np.where(is_plain, spans[asked, text.TAIL], last)
        folder = np.where(is_plain, spans[asked, text.ABOVE], len(spans) + asked)
        first, which = _distinct(_distinct(task, rows[:, text.BASE])[1], folder)
        heads, above, direct, is_full, is_asked = [], [], [], [], []
        for i in first.tolist():
            head = self._head(tasks[task[i]], int(rows[i, text.BASE]), int(asked[i]), int(last[i] - tail[i]))
            heads.append(head or "")
            above.append(self.calls.ODD if head is None else stretch.path(above_of(head)))
            direct.append(names.is_direct(heads[-1].rpartition("/")[0]) and not heads[-1].startswith("/proc/"))
            is_full.append(heads[-1].startswith("/"))
            start = spans[asked[i], text.FIRST]
            is_asked.append([heads[-1]] == self.texts.some(start[None], tail[i, None]))
        index, is_followed = np.full(len(rows), self.calls.ODD), np.zeros(len(rows), bool)
        found = np.array(above)[which]
        known = found != self.calls.ODD
        if not known.any():
            return index, is_followed
        rows, raw, tail, last, which = (column[known] for column in (rows, raw, tail, last, which))
        paths = [heads[i] + name for i, name in zip(which.tolist(), self.texts.some(tail, last), strict=True)]
        index[known], special = stretch.paths(paths, found[known])
        follows = np.array(direct)[which] & ((raw < 0) | np.array(is_full)[which])
        if names.links:
            follows &= [path not in names.links for path in paths]
        # without the printed path, a later path may be relative to this descriptor
        follows &= (raw >= 0) | ~special | ~self._opens(rows)
        other = (raw >= 0) & ~((rows[:, text.ASKED] > 0) & np.array(is_asked)[which])
        led = self.texts.some(spans[raw[other], text.FIRST] + 1, spans[raw[other], text.LAST] - 1)
        led = led if self.texts.is_plain else list(map(unescape, led))
        follows[other] &= np.fromiter(map(eq, led, compress(paths, other.tolist())), bool, len(led))
        is_followed[known] = follows
        return index, is_followed

    def _head(self, task: Task, base: int, asked: int, cut: int) -> str | None:
        """Return a call's path without its last `cut` characters; None if only the handlers know where the path starts."""
        fd, less, rest = self.texts[base].partition("<") if base >= 0 else ("AT_FDCWD", "", "")
        raw = less + rest or None
        if raw not in (None, task.place.raw) if fd == "AT_FDCWD" else raw is None:
            return None
        path = self.imp.path(task, fd, raw, self.texts[asked])
        return path[: len(path) - cut]

    def _count(self, rows: np.ndarray, which: np.ndarray, tasks: list[Task]) -> None:
        """Count the calls that failed and those without effect, by name."""
        text, imp, report = self.text, self.imp, self.imp.report
        failed, named = rows[:, text.ERROR] > 0, rows[:, text.CALL] == text.NAMED
        odd = failed | np.isin(rows[:, text.CALL], (text.NAMED, text.FCNTL, text.IOCTL))
        self._understood |= not odd.all()
        if not odd.any():
            return
        found = np.where(named, rows[:, text.FLAGS], -1)[odd]
        first, each = _distinct(rows[odd, text.CALL], found, failed[odd].astype("i8"))
        counts = np.bincount(each).tolist()
        for i in np.argsort(first).tolist():  # in the order of the lines
            call, error = rows[odd][first[i], [text.CALL, text.ERROR]].tolist()
            name = self.texts[int(found[first[i]])] if call == text.NAMED else text.NAMES[call]
            reason = COUNTED.get(name, NOT_A_FILE_OPERATION)
            self._understood |= call != text.NAMED or reason != NOT_A_FILE_OPERATION
            if error:
                report.failed[name] += counts[i]
            else:
                report.left_out[reason] += counts[i]
                report.other[name] += counts[i]
        for task in np.unique(which[failed]).tolist() if imp.forks else ():
            imp.forks.pop(tasks[task].pid, None)
