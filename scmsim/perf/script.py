"""Parse the output of `perf script` to a profile: events by symbol, without and with those of the symbol's callees.

Reads the default fields and any selection with event, ip and sym (`-F comm,tid,time,period,event,ip,sym,dso`), with or
without call graphs.
Source: builtin-script.c and util/evsel_fprintf.c of linux/tools/perf, and real output.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from scmsim.core.errors import UsageError

MAX_LINE = 1 << 14  # maximum characters of a line; a C++ symbol may have some KiB
MAX_FRAMES = 1 << 12  # perf records at most kernel.perf_event_max_stack frames, 127 by default
MAX_SYMBOLS = 1 << 20

_TIME = re.compile(r"(?:^|\s)\d+\.\d{6,9}:\s+")
_FRAME = re.compile(r"(?P<ip>[0-9a-f]{1,16}) (?P<symbol>\S.*)")
_OFFSET = re.compile(r"\+0x[0-9a-f]+$")
_KERNEL_HALF = 1 << 63
_Key = tuple[str, str, str, bool]  # event, symbol, dso, kernel


class Symbol(NamedTuple):
    """One row of a profile."""

    event: str  # this field and the next two are as perf printed them: "page-faults"
    symbol: str  # without the offset: "ext4_iomap_begin"
    dso: str  # "[kernel.kallsyms]"
    kernel: bool  # whether the address is in the kernel's half
    samples: int  # samples taken in the symbol itself
    own: int  # events of these samples: the sum of their periods if perf printed them, else the number of samples
    total: int  # events of the samples with the symbol anywhere in their call graph (once per sample)


@dataclass
class Profile:
    """Rows sorted by event, then by `own` (largest first), and the total of each event."""

    rows: list[Symbol] = field(default_factory=list)
    events: dict[str, int] = field(default_factory=dict)

    def share(self, row: Symbol) -> float:
        """Return the percentage of the event's total that was counted in the symbol itself."""
        return 100 * row.own / self.events[row.event] if self.events[row.event] else 0.0


def parse_script(text: str | Iterable[str]) -> Profile:
    """Return the profile by symbol of the output of `perf script`, given whole or as lines.

    Raises UsageError if no sample names a symbol.
    """
    return read(text, Table()).profile()


def read(text: str | Iterable[str], table: "Table") -> "Table":
    """Add every sample of the output of `perf script` to a table, and return the table; raises as `parse_script` does."""
    for number, line in enumerate(text.splitlines() if isinstance(text, str) else text, 1):
        if len(line) > MAX_LINE:
            raise UsageError(f"line {number} has {len(line)} characters, perf script's have at most {MAX_LINE}")
        table.add(line.rstrip(), number)
    table.end_sample()
    if not table.own:
        raise UsageError(
            "no sample with a symbol found; make the text with "
            "'perf script -F comm,tid,time,period,event,ip,sym,dso' from a perf record"
        )
    return table


class Table:
    """Events by (event, symbol, dso, kernel), collected as the samples are read."""

    def __init__(self) -> None:
        self.event, self.period = "", 1
        self.frames: list[tuple[str, str, bool]] = []
        self.samples, self.own, self.total = Counter[_Key](), Counter[_Key](), Counter[_Key]()

    def add(self, line: str, number: int) -> None:
        """Add one line: a sample's head, a frame of its call graph, or the empty line after it."""
        if not line or line.startswith("#"):
            self.end_sample()
            return
        # only frames start with a tab; the content does not tell: a sample's head starts with a command's name, which may look
        # like an address (dd, cafe)
        if line.startswith("\t"):
            frame = _frame(line.strip()) if self.event else None
            if not frame:
                return
            if len(self.frames) == MAX_FRAMES:
                raise UsageError(f"line {number}: a call graph of more than {MAX_FRAMES} frames; is it perf script's?")
            self.frames.append(frame)
            return
        self.end_sample()
        head = _head(line)
        if head:
            self.event, self.period, rest = head
            frame = _frame(rest)
            if frame:
                self.frames.append(frame)
                self.end_sample()

    def end_sample(self) -> None:
        """Count the sample that was read."""
        for depth, frame in enumerate(dict.fromkeys(self.frames)):
            key = (self.event, *frame)
            self.total[key] += self.period
            if depth == 0:
                self.own[key] += self.period
                self.samples[key] += 1
        if len(self.total) > MAX_SYMBOLS:
            raise UsageError(f"more than {MAX_SYMBOLS} symbols; is this the output of perf script?")
        self.event, self.frames = "", []

    def profile(self) -> Profile:
        """Return all rows, sorted."""
        rows = [
            Symbol(*key, samples=self.samples[key], own=self.own[key], total=total) for key, total in self.total.items()
        ]
        events = Counter[str]()
        for row in rows:
            events[row.event] += row.own
        rows.sort(key=lambda row: (row.event, -row.own, -row.total, row.symbol, row.dso))
        return Profile(rows, events)


def _head(line: str) -> tuple[str, int, str] | None:
    """Return (event, period, rest of the line) from `[comm] [tid] [cpu] [time:] [period] event: [payload]`; None for others."""
    time = _TIME.search(line)
    words = (line[time.end() :] if time else line).split()
    at = next((i for i, word in enumerate(words) if word.endswith(":") and len(word) > 1), None)
    if at is None or not re.match(r"[A-Za-z]", words[at]):
        return None
    # without a time, the number before the event may be the thread's number
    printed = at == 1 if not time else at > 0
    period = words[at - 1] if printed and words[at - 1].isdecimal() and len(words[at - 1]) < 20 else "1"
    return words[at][:-1], int(period), " ".join(words[at + 1 :])


def _frame(text: str) -> tuple[str, str, bool] | None:
    """Return (symbol, dso, whether the address is in the kernel) from `ip symbol+offset (dso)`; None for other text."""
    match = _FRAME.fullmatch(text)
    if not match:
        return None
    symbol, bracket, dso = match["symbol"].rpartition(" (")
    if not bracket or not dso.endswith(")"):
        symbol, dso = match["symbol"], ")"
    return _OFFSET.sub("", symbol), dso[:-1], int(match["ip"], 16) >= _KERNEL_HALF
