"""Convert recorded memory accesses (as text) to rows on files, by following the calls that map files.

The calls are in the text itself, or in the text of a strace of the same run (`calls`); times then give the order.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.trace.formats.addresses._accesses import Accesses
from scmsim.trace.reading.importing import Import
from scmsim.trace.reading.input import Input
from scmsim.trace.reading.lines import BadLine, blocks
from scmsim.trace.reading.report import Report
from scmsim.trace.reading.smaps import by_file
from scmsim.trace.syscalls.conversion import Conversion
from scmsim.trace.syscalls.importer import Importer
from scmsim.trace.syscalls.names import Names
from scmsim.trace.syscalls.state import Maps, Task

USER_END = 1 << 47  # end of the addresses of programs
_AT_ONCE = 1 << 16  # maximum number of accesses converted at once
_SECOND = 10**9
_STAMP = re.compile(r"(?>(?:\[pid +\d+\] +|\d+ +)?)(\d{9,10})\.(\d{1,9}) ")
_SHOWN = 20  # number of files whose page sizes are in the header


class Joined:
    """Conversion of one text of memory accesses; if the text lacks the calls, the error gives the advice `how`."""

    def __init__(self, job: Import, form: str, tool: str, how: str, cwd: str = "") -> None:
        self.job, self.imp = job, Importer(Names(job.under), cwd)
        self.work = Conversion(job.given.path, job.strict, self.imp, form, tool)
        self.accesses = Accesses(self.imp)
        self.how = how
        self.smaps: dict[str, dict[str, int]] = {}  # sums by path, from the smaps text

    def read_smaps(self, path: str) -> None:
        """Read a text of /proc/PID/smaps, for the header."""
        if not path:
            return
        with Input(path) as text:
            self.smaps = by_file("\n".join(line for lines in blocks(text, "text of smaps") for line in lines))
        if not self.smaps:
            raise UsageError(f"{path!r} maps no file; copy /proc/PID/smaps while the program has its files mapped")

    def close(self, spots: list[str]) -> Report:
        """Write the remaining rows, the side table and the provenance, with the blind spots `spots`."""
        self.accesses.end_run()
        self.imp.writable.clear()  # no blind spots: the loads and stores of mappings are in the trace
        seen, work = self.accesses.facts(), self.work
        if not seen:
            raise UsageError(
                f"{work.path!r} is not {work.tool}: none of its {work.report.lines} lines is an access; record accesses, or "
                "name the file's format (--format)"
            )
        if not self.imp.report.calls and not work.understood:
            raise UsageError(f"{work.path!r} has accesses but no calls, so the mapped files are unknown; {self.how}")
        header, names = self.job.writer.header, self.imp.names
        header["accesses"] = seen
        if ours := {path: kib for path, kib in self.smaps.items() if (node := names.at(path)) and node.inside}:
            header["smaps"] = ours
        return work.finish(self.job.writer, spots)


class Access(NamedTuple):
    """One access; `page` is the size of its page as text ("" if the input lacks it)."""

    task: Task
    now: int
    kind: int
    address: int
    length: int
    page: str


class Timed(Joined):
    """Conversion of a text with times: before each access, the strace text at path `calls` is read up to the access's time."""

    def __init__(self, job: Import, form: str, tool: str, how: str, calls: str) -> None:
        super().__init__(job, form, tool, how)
        self.lines = _by_time(calls) if calls else iter(())
        self.next = next(self.lines, None)
        self.pages: Counter[tuple[int, str]] = Counter()  # (file, size of a page) -> accesses
        self.moment = 0  # latest time passed to `until`, ns
        self._maps: Maps | None = None  # mappings of the waiting accesses
        self._waiting: list[Access] = []

    def take(self, line: str) -> None:
        """Process one line of the text; raise BadLine if it is not understood."""
        raise NotImplementedError

    def read(self) -> None:
        """Process the whole text."""
        for lines in blocks(self.job.given, self.work.tool, self.job.progress):
            for line in lines:
                try:
                    self.take(line)
                except BadLine as error:
                    self.work.bad(str(error))
            self.imp.drain(self.job.writer)

    def until(self, ns: int) -> None:
        """Process strace's lines up to a time, in ns since 1970 or another origin; later rows have that time."""
        while self.next is not None and self.next[0] <= ns:
            self.line(self.next[1])
            self.next = next(self.lines, None)
        self.imp.now = self.work.clock.seconds(str(ns // _SECOND), f"{ns % _SECOND:09}")
        self.moment = max(self.moment, ns)

    def line(self, line: str) -> None:
        """Process a line of strace."""
        self.flush()
        self.accesses.end_run()
        self.work.line(line)

    def task(self, thread: str, process: str | None = None) -> Task:
        """Return a thread's task; a new task shares everything with its process's task, or, if unknown, with the first one."""
        tasks = self.imp.tasks
        if (found := tasks.get(thread)) is None:
            first = tasks.get(process) if process is not None else next(iter(tasks.values()), None)
            if first is None and process not in (None, thread):
                first = self.imp.task(process)
            shares = "CLONE_FILES CLONE_FS CLONE_VM"
            found = tasks[thread] = first.spawn(thread, shares) if first else self.imp.task(thread)
        return found

    def access(self, task: Task, kind: int, address: int, length: int, page: str = "") -> None:
        """Add an access at the time last passed to `until`."""
        if self._maps is not task.maps or len(self._waiting) >= _AT_ONCE:
            self.flush()
            self._maps = task.maps
        self._waiting.append(Access(task, self.work.clock.now, kind, address, length, page))

    def flush(self) -> None:
        """Convert the waiting accesses with the mappings that held when they were made."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        now, kind, address, length = np.array([one[1:5] for one in waiting], "i8").T
        tasks = [one.task for one in waiting]
        file = self.accesses.take(tasks[0], now, kind, address, length, tasks)
        self.pages.update((n, one.page) for n, one in zip(file.tolist(), waiting, strict=True) if n >= 0 and one.page)

    def finish(self, spots: list[str]) -> Report:
        """Process the rest of strace's text and write the remaining rows."""
        while self.next is not None:
            self.line(self.next[1])
            self.next = next(self.lines, None)
        self.flush()
        if self.pages:
            self.job.writer.header["page_sizes"] = self._page_sizes()
        return self.close(spots)

    def _page_sizes(self) -> dict[str, dict[str, int]]:
        """Return the number of accesses by page size, for the files with the most accesses."""
        found: dict[str, dict[str, int]] = {}
        for (file, page), count in self.pages.most_common():
            node: Any = self.imp.names.numbered[file]
            name = node if isinstance(node, str) else node.name
            if name in found or len(found) < _SHOWN:
                found.setdefault(name, {})[page] = count
        return found


def _by_time(path: str) -> Iterator[tuple[int, str]]:
    """Yield strace's lines with their times in ns; a line without a time gets the time of the line above."""
    now = -1
    with Input(path) as text:
        for lines in blocks(text, "text of strace"):
            for line in lines:
                if m := _STAMP.match(line):
                    now = max(now, int(m[1]) * _SECOND + int(f"{m[2]:0<9}"))
                if now < 0:
                    raise UsageError(f"{path!r} has no times since 1970; record it with 'strace -f -y -ttt'")
                yield now, line
