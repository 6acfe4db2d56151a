"""Convert a block of strace's text: stretches of plain calls (see `runs.py`) in bulk, the lines between them one by one."""

import re
from collections.abc import Callable, Iterator

import numpy as np

from scmsim.core.records import CLOSE, DATA_ONLY, FSYNC, OPEN, READ, UNLINK, WRITE
from scmsim.trace.kernels import file_rules
from scmsim.trace.syscalls import runs as runs
from scmsim.trace.syscalls.clock import Clock
from scmsim.trace.syscalls.importer import Importer, split_raw
from scmsim.trace.syscalls.names import is_special
from scmsim.trace.syscalls.paths import open_flags
from scmsim.trace.syscalls.state import Task
from scmsim.trace.syscalls.text import COMMA, DIR, PATH

_MOST_FD = 1 << 16  # a larger descriptor is left to the patterns
_WHERE = re.compile(rf"(\w+)\((?:{DIR}{COMMA})?{PATH}(?:{COMMA}(\w[\w|]*))?").fullmatch
_UNKNOWN_FLAGS = re.compile(r"O_PATH|O_TMPFILE|AT_REMOVEDIR").search
_TEXTS, _FLAGS = 20, 7  # bits for the index of a text in a block, and for the flags of an open
_MASK = (1 << _TEXTS) - 1
_CREAT = "O_WRONLY|O_CREAT|O_TRUNC"  # flags that creat() implies


class BulkLines:
    """The conversion of one block of text.

    Parameters
    ----------
    imp, clock : Importer, Clock
    block : bytes
        Whole lines.
    lines : callable(list of str)
        Converts lines one by one.
    """

    def __init__(self, imp: Importer, clock: Clock, block: bytes, lines: Callable[[list[str]], None]) -> None:
        from scmsim.trace.kernels import file_calls, strace_text

        self.imp, self.clock, self.block, self.text, self.calls = imp, clock, block, strace_text, file_calls
        self._lines, self._understood = lines, False
        count = block.count(b"\n") + (not block.endswith(b"\n"))
        self.rows = np.empty((count, strace_text.WIDTH), "i8")
        spans = np.empty((strace_text.MOST_TEXTS * count, 2), "i8")
        heads, known = np.full(2 << len(spans).bit_length(), -1), np.zeros(1, "i8")
        strace_text.take_apart(np.frombuffer(block, np.uint8), self.rows, spans, heads, known)
        places = spans[: known[0]].ravel().tolist()
        self.texts = [block[start:end].decode("latin-1") for start, end in zip(places[::2], places[1::2], strict=True)]
        self._raws = {text: i for i, text in enumerate(self.texts) if text[0] == "<"}

    def work(self) -> bool:
        """Convert all lines in order; return whether any were converted in bulk."""
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
            self._lines(self.block[first:last].decode("latin-1").split("\n"))

    def _stretch(self, start: int, end: int) -> int:
        """Convert the first lines of a stretch; return the number of converted lines."""
        rows, imp = self.rows[start:end], self.imp
        tasks, which = self._tasks(rows[:, self.text.PID])
        rows = rows[: len(which)]
        now = self.clock.many(rows[:, self.text.TIME], imp.report.lines + 1) if tasks else None
        if now is None or any(task.closing is not None for task in tasks):
            return 0
        fds, slot = np.unique(rows[:, self.text.FD], return_inverse=True)
        stretch = runs.Stretch(imp, tasks, [str(fd) for fd in fds.tolist()], self._raws)
        calls = self._as_calls(rows, now, which, slot)
        self._name(stretch, tasks, rows, calls)
        done = stretch.follow(calls)
        if done:
            self._understood = True
            imp.report.lines += done
            self.clock.now = int(now[done - 1])
            self._count_failed(rows[:done], which[:done], tasks)
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
        ops = np.array((READ, WRITE, READ, WRITE, kernel.SEEK, FSYNC, FSYNC, CLOSE, OPEN, OPEN, OPEN, UNLINK, UNLINK))
        call, failed = rows[:, text.CALL], rows[:, text.ERROR]
        positioned = (call == text.PREAD) | (call == text.PWRITE)
        calls = np.empty((len(rows), kernel.WIDTH), "i8")
        calls[:, kernel.OP] = np.where(failed > 0, kernel.FAILED, ops[call])
        calls[:, kernel.NOW], calls[:, kernel.TASK], calls[:, kernel.FD] = now, task, slot
        calls[:, kernel.RAW], calls[:, kernel.ASKED] = rows[:, text.RAW], rows[:, text.ASKED]
        calls[:, kernel.AT] = np.where(positioned, rows[:, text.OFFSET], file_rules.HERE)
        calls[:, kernel.MOVED] = np.where(failed > 0, failed == text.ENOENT, rows[:, text.RESULT])
        calls[:, kernel.PATH] = -1
        calls[:, kernel.FLAGS] = np.where(call == text.FDATASYNC, DATA_ONLY, 0)
        return calls

    def _name(self, stretch: runs.Stretch, tasks: list[Task], rows: np.ndarray, calls: np.ndarray) -> None:
        """Fill in the paths and open flags of calls on paths."""
        text, kernel = self.text, self.calls
        on_path = np.flatnonzero(rows[:, text.WHERE] >= 0)
        keys = calls[on_path, kernel.TASK] << 2 | rows[on_path, text.ERROR]
        for column in (text.RAW, text.WHERE):
            keys = keys << _TEXTS | rows[on_path, column] + 1
        each = keys.tolist()
        known = dict.fromkeys(each, 0)
        for key in known:
            where, raw, task = (key & _MASK) - 1, (key >> _TEXTS & _MASK) - 1, key >> 2 * _TEXTS
            path, flags = self._named(stretch, tasks[task >> 2], where, raw, task & 3)
            known[key] = path << _FLAGS | flags
        named = np.array([known[key] for key in each], "i8")
        calls[on_path, kernel.PATH], calls[on_path, kernel.FLAGS] = named >> _FLAGS, named & (1 << _FLAGS) - 1

    def _named(self, stretch: runs.Stretch, task: Task, where: int, raw: int, error: int) -> tuple[int, int]:
        """Return the index of a call's path and the flags of an open; ODD if the handlers must process the call."""
        enoent, odd, names = self.text.ENOENT, (self.calls.ODD, 0), self.imp.names
        m = _WHERE(self.texts[where])
        if m is None:
            return odd
        name, base, base_raw, quoted, words = m.groups()
        if error and (error != enoent or not quoted):
            return -1, 0
        if base_raw not in (None, task.place.raw) if base in (None, "AT_FDCWD") else base_raw is None:
            return odd
        asked = self.imp.path(task, base or "AT_FDCWD", base_raw, quoted)
        if error:
            return stretch.path(asked), 0
        words = words or (_CREAT if name == "creat" else "")
        if raw < 0 and is_special(asked) and name != "unlink":
            return odd  # a later path may be relative to this descriptor
        if _UNKNOWN_FLAGS(words) or asked.startswith("/proc/") or not names.is_plain(asked):
            return odd
        if raw >= 0 and (asked[:1] != "/" or split_raw(self.texts[raw])[0] != asked):
            return odd
        return stretch.path(asked), open_flags(words)

    def _count_failed(self, rows: np.ndarray, which: np.ndarray, tasks: list[Task]) -> None:
        text, imp = self.text, self.imp
        failed = rows[:, text.ERROR] > 0
        for call, count in enumerate(np.bincount(rows[failed, text.CALL]).tolist()):
            if count:
                imp.report.failed[text.NAMES[call]] += count
        for task in np.unique(which[failed]).tolist() if imp.forks else ():
            imp.forks.pop(tasks[task].pid, None)
