"""A block of strace's text as stretches of plain data calls, worked on all at once, and the lines between them."""

from collections.abc import Callable, Iterator

import numpy as np

from scmsim.core.records import DATA_ONLY, FSYNC, READ, WRITE
from scmsim.trace.formats import _strace_runs as runs
from scmsim.trace.formats._strace_clock import Clock
from scmsim.trace.formats._strace_importer import Importer
from scmsim.trace.formats._strace_state import Description, Task

_OPS = (READ, WRITE, READ, WRITE, runs.SEEK, FSYNC, FSYNC)  # by call of the kernel


class BulkLines:
    """The work on one block.

    Parameters
    ----------
    imp, clock : Importer, Clock
    block : bytes
        Whole lines.
    lines : callable(list of str)
        Works on lines one by one.
    bad : callable(number of the line, reason)
    """

    def __init__(
        self,
        imp: Importer,
        clock: Clock,
        block: bytes,
        lines: Callable[[list[str]], None],
        bad: Callable[[int, str], None],
    ) -> None:
        from scmsim.trace.kernels import strace_text

        self.imp, self.clock, self.block, self.text = imp, clock, block, strace_text
        self._lines, self._bad = lines, bad
        self.rows = np.empty((block.count(b"\n") + (not block.endswith(b"\n")), strace_text.WIDTH), "i8")
        strace_text.take_apart(np.frombuffer(block, np.uint8), self.rows)

    def work(self) -> None:
        """Work on all lines, in order."""
        done = 0
        for start, end in self._long():
            self._plain(done, start)
            if not self._stretch(self.rows[start:end]):
                self._plain(start, end)
            done = end
        self._plain(done, len(self.rows))

    def _long(self) -> Iterator[tuple[int, int]]:
        """Where the stretches are that pay."""
        timed = self.rows[:, self.text.TIME] >= 0
        good = self.rows[:, self.text.CALL] != self.text.OTHER
        good &= timed if self.clock.is_absolute else ~timed if self.clock.is_counted else False
        yield from runs.stretches(good)

    def _plain(self, start: int, end: int) -> None:
        if start < end:
            first, last = int(self.rows[start, self.text.START]), int(self.rows[end - 1, self.text.END])
            self._lines(self.block[first:last].decode("latin-1").split("\n"))

    def _stretch(self, rows: np.ndarray) -> bool:
        """Work on a stretch; false, with nothing done, if its time or its descriptors are odd."""
        text, before = self.text, self.imp.report.lines
        now = self.clock.many(rows[:, text.TIME], before + 1)
        named = None if now is None else self._names(rows)
        if now is None or named is None:
            return False
        self.imp.report.lines += len(rows)
        self.clock.now = int(now[-1])
        call = rows[:, text.CALL]
        positioned = (call == text.PREAD) | (call == text.PWRITE)
        run = runs.Run(
            now=now,
            op=np.array(_OPS)[call],
            at=np.where(positioned, rows[:, text.OFFSET], runs.HERE),
            asked=np.where(call == text.FDATASYNC, DATA_ONLY, rows[:, text.ASKED]),
            moved=rows[:, text.RESULT],
            task=named[1],
            found=named[3],
        )
        if not runs.apply(self.imp, run, named[0], named[2]):
            runs.one_by_one(
                self.imp, run, named[0], named[2], lambda i, e: self._bad(before + i + 1, f"{text.NAMES[call[i]]}: {e}")
            )
        return True

    def _names(self, rows: np.ndarray) -> tuple[list[Task], np.ndarray, list[Description | None], np.ndarray] | None:
        """Tasks and descriptions of a stretch with the index of each line's, or None if a descriptor changes its path."""
        text = self.text
        pids, task = runs.distinct(rows[:, text.PID])
        keys, found = runs.distinct(_mixed(task, rows[:, text.FD], rows[:, text.HASH]))
        descriptors = [(int(task[i]), int(rows[i, text.FD])) for i in keys]
        if len(set(descriptors)) < len(descriptors):
            return None
        tasks = [self._task(int(rows[i, text.PID])) for i in pids]
        if len({(id(tasks[t].table), fd) for t, fd in descriptors}) < len(descriptors):
            return None
        each = [
            self.imp.describe(tasks[which], str(fd), self._raw(rows[i]))
            for i, (which, fd) in zip(keys.tolist(), descriptors, strict=True)
        ]
        founds, place = runs.unique(each)
        return tasks, task, founds, place[found]

    def _task(self, pid: int) -> Task:
        key = None if pid < 0 else str(pid)
        return self.imp.tasks.get(key) or self.imp.task(key)

    def _raw(self, row: np.ndarray) -> str | None:
        start, end = int(row[self.text.RAW]), int(row[self.text.RAW_END])
        return None if start < 0 else self.block[start:end].decode("latin-1")


def _mixed(task: np.ndarray, fd: np.ndarray, digest: np.ndarray) -> np.ndarray:
    """One number for three (products wrap around)."""
    return (task * 0x9E3779B97F4A7C1 + fd) * 0x100000001B3 ^ digest
