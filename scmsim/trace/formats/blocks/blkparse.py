"""Import requests on block devices from text of blkparse, or of ftrace's tracer `blk` with the option blk_classic.

`MAJ,MIN CPU [SEQ] SECONDS PID ACTION RWBS SECTOR + SECTORS [PROCESS]`; only blkparse has the sequence number.  Sectors have
512 bytes.
A request is one row, at its action `Q` (queued, before requests are merged or split); D (issued to the driver) or C
(completed) can be chosen.  RWBS (blk_fill_rwbs in kernel/trace/blktrace.c): R, W, D = read, write,
discard; a first F is a flush (FSYNC), an F after the letter makes a write synchronous.  A device is the file
`/dev/block/MAJ:MIN`.

A device on top of others (device mapper, md) passes its requests down; a line of action A (remap) then has the target:
`MAJ,MIN CPU SEQ SECONDS PID A RWBS SECTOR + SECTORS <- (MAJ,MIN) SECTOR`.  The row is that of the upper device; the same
request on the lower device is left out.
"""

import os
import re
from collections import Counter, defaultdict

from scmsim.core.errors import UsageError
from scmsim.core.records import CONTINUES, SYNCHRONOUS
from scmsim.trace.reading.builder import BLANK, SECTOR, TraceBuilder
from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.lines import BadLine, nanoseconds, whole
from scmsim.trace.reading.report import Report

SUMMARY = "block trace as text: blkparse, or ftrace's blk tracer with blk_classic"
PARAMS: dict[str, tuple[str | int, str, str]] = {
    "action": ("Q", "Q|D|C", "event of a request that becomes a row: queued, issued to the driver, or completed")
}
_TOOL = "text of blkparse"
_LINE = re.compile(
    r"\s*(\d+),(\d+)\s+(\d+)\s+(?:\d+\s+)?(\d+\.\d+)\s+(\d+)\s+([A-Z]{1,2}|m)\s+"
    r"(?:([A-Z]{1,8})(?:\s+(\d+)\s+\+\s+(\d+))?(?:\s|$)|(?=\S))"
)
_FTRACE_TITLE = re.compile(r"\s*#|Input file \S.* added$")
_REMAP = re.compile(r"<-\s+\((\d+),(\d+)\)\s+(\d+)")
_MOST_REMAPS = 1 << 16  # maximum number of requests remembered until they appear on a lower device
_BELOW = "request of a device above it (see the note)"
_SUMMARY = re.compile(r"CPU\d+ \(|Total \(|Throughput \(|Events \(|Skips: |\s+\w[\w /]*:\s")


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether the first line that is not a title has the form of blkparse."""
    lines = [line for line in head.decode("latin-1").split("\n")[:50] if line.strip() and not _FTRACE_TITLE.match(line)]
    return bool(lines) and _LINE.match(lines[0]) is not None


@importer
def convert(job: Import, action: str = "Q") -> Report:
    """Convert a block trace and close the writer (see `scmsim.trace.formats`, and PARAMS)."""
    text = _Text(job.builder("block"), action)
    text.builder.lines(text.take, _TOOL)
    text.check()
    return text.builder.finish(
        "blkparse", _TOOL, clock="seconds of the tracer", action=action, notes=text.stack.notes()
    )


class _Text:
    """The conversion of one trace."""

    def __init__(self, builder: TraceBuilder, action: str) -> None:
        self.builder, self.action = builder, action
        self.actions: Counter[str] = Counter()
        self.ended = False  # whether blkparse's summary at the end has begun
        self.stack = _Stack()

    def take(self, line: str) -> str | None:
        """Process a line; return why it makes no row, or None."""
        m = _LINE.match(line)
        if m is None:
            return self._other(line)
        major, minor, cpu, seconds, _, action, kind, sector, sectors = m.groups()
        self.actions[action] += 1
        device = f"{major[:9]}:{minor[:9]}"
        if self.action != "D":  # an upper device issues no requests to a driver, so D shows only lower ones
            self._follow(line, m.end(8), action, device, sector)
        if action != self.action:
            return "another action of the same request"
        if kind is None:
            return "action without a request"
        now = self.builder.at(nanoseconds(seconds, 10**9))
        if self.stack.is_below(device, sector):
            self.stack.passed(device, sector)
            return _BELOW
        self.stack.asked(device, sector)
        file = self.builder.file(f"/dev/block/{device}")
        offset, length = whole(sector or "0", "sector") * SECTOR, whole(sectors or "0", "length") * SECTOR
        return self._request(now, file, kind, offset, length, self.builder.thread(cpu))

    def _follow(self, line: str, end: int, action: str, device: str, sector: str | None) -> None:
        """Record what a remap or a request shows about which devices are on top of others."""
        if action == "A" and sector and (remap := _REMAP.search(line, end)):
            self.stack.remap(f"{remap[1][:9]}:{remap[2][:9]}", remap[3], device, sector)
        elif action == "Q" and self.action == "C" and not self.stack.is_below(device, sector):
            self.stack.top.add(device)

    def _other(self, line: str) -> str | None:
        if not line.strip():
            return BLANK
        if _FTRACE_TITLE.match(line):
            return "title"
        if self.ended or _SUMMARY.match(line):
            self.ended = True
            return "summary at the end"
        raise BadLine("this is not a line of blkparse")

    def _request(self, now: int, file: int, kind: str, offset: int, length: int, thread: int) -> str | None:
        builder = self.builder
        flush, kind = kind.startswith("F"), kind.removeprefix("F")
        verb = kind[:1]
        if flush and not (verb in "RWD" and verb and length):
            return builder.sync(now, file, thread)
        if flush:
            builder.sync(now, file, thread)
            builder.report.extra_rows += file >= 0
        flag = CONTINUES if flush else 0
        if verb == "R":
            return builder.read(now, file, offset, length, thread)
        if verb == "W":
            return builder.write(now, file, offset, length, thread, flag | (SYNCHRONOUS if "F" in kind else 0))
        if verb == "D":
            return builder.trim(now, file, offset, length, thread)
        return "request without data"

    def check(self) -> None:
        """Raise UsageError if the chosen action does not occur; the text names the actions that do."""
        if self.actions and not self.actions[self.action]:
            there = ", ".join(f"{name} {count}" for name, count in self.actions.most_common() if name in "QDC")
            raise UsageError(
                f"{self.builder.given.path!r} has no line with the action {self.action!r} (it has {there or 'no request'}); "
                "choose one with --set action=D"
            )


class _Stack:
    """Which devices are on top of others, and the requests that were passed down and have not appeared below yet."""

    def __init__(self) -> None:
        self.top: set[str] = set()  # devices that programs send requests to
        self.on_way: dict[tuple[str, str], str] = {}  # (lower device, sector) -> device of the request
        self.under: defaultdict[str, Counter[str]] = defaultdict(Counter)  # upper device -> requests on each lower one
        self.flushes: Counter[tuple[str, str]] = Counter()  # (upper device, lower device) -> flushes on their way

    def remap(self, source: str, from_sector: str, target: str, sector: str) -> None:
        """Note that a request of one device is passed to another device, where it will appear again."""
        above = self.on_way.pop((source, from_sector), source if source in self.top else None)
        if above is None or source == target:
            return  # a partition: its requests appear only on the disk
        self.on_way[target, sector] = above
        self.under[above][target] += 0
        if len(self.on_way) > _MOST_REMAPS:
            del self.on_way[next(iter(self.on_way))]

    def is_below(self, device: str, sector: str | None) -> bool:
        """Return whether a request was passed down from an upper device."""
        if sector is not None:
            return (device, sector) in self.on_way
        return any(self.flushes[above, device] > 0 for above in self.under)

    def passed(self, device: str, sector: str | None) -> None:
        """Count a request that has appeared on a lower device."""
        if sector is not None:
            self.under[self.on_way.pop((device, sector))][device] += 1
            return
        above = next(above for above in self.under if self.flushes[above, device] > 0)
        self.flushes[above, device] -= 1
        self.under[above][device] += 1

    def asked(self, device: str, sector: str | None) -> None:
        """Note a request that no upper device passed down."""
        self.top.add(device)
        if sector is None:
            for below in self.under.get(device, ()):
                self.flushes[device, below] += 1

    def notes(self) -> list[str]:
        """Return notes about which rows of stacked devices were kept, and about what is unknown."""
        notes = [
            f"{above} is on top of {', '.join(name for name, count in below.items() if count)}: the rows are those of {above}; "
            f"{sum(below.values()):,} requests on the devices below are left out"
            for above, below in self.under.items()
            if sum(below.values())
        ]
        if len(self.top) > 1 and not self.under:
            notes.append(
                f"{len(self.top)} devices and no request passed from one to another (action A): if one lies on another, requests "
                "count twice; --under /dev/block/MAJ:MIN keeps one device"
            )
        return notes
