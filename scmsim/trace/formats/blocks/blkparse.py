"""Text of blkparse, and of the ftrace tracer `blk` with the option blk_classic: what programs asked of block devices.

`MAJ,MIN CPU [SEQ] SECONDS PID ACTION RWBS SECTOR + SECTORS [PROCESS]`; only blkparse has the sequence number.  Sectors have
512 bytes.
A request is one row, at its action `Q` (queued: what was asked, before requests are merged or split); D (issued to the
driver) or C (completed) can be chosen.  RWBS (blk_fill_rwbs in kernel/trace/blktrace.c): R, W, D = read, write,
discard; a first F is a flush (FSYNC), an F after the letter makes a write synchronous.  A device is the file
`/dev/block/MAJ:MIN`.

A device on top of others (device mapper, md) passes its requests down; a line of action A (remap) then says where to:
`MAJ,MIN CPU SEQ SECONDS PID A RWBS SECTOR + SECTORS <- (MAJ,MIN) SECTOR`.  The row is that of the device asked first; the same
request on the device below is left out.
"""

import os
import re
from collections import Counter, defaultdict

from scmsim.core.errors import UsageError
from scmsim.core.records import CONTINUES, SYNCHRONOUS
from scmsim.trace.reading.builder import BLANK, SECTOR, TraceBuilder
from scmsim.trace.reading.input import Input
from scmsim.trace.reading.lines import BadLine, Progress, nanoseconds, whole
from scmsim.trace.reading.report import Report
from scmsim.trace.store import TraceWriter

SUMMARY = "block trace as text: blkparse, or ftrace's blk tracer with blk_classic"
PARAMS: dict[str, tuple[str | int, str, str]] = {
    "action": ("Q", "Q|D|C", "the moment that makes a row: queued, issued to the driver, or completed")
}
_TOOL = "text of blkparse"
_LINE = re.compile(
    r"\s*(\d+),(\d+)\s+(\d+)\s+(?:\d+\s+)?(\d+\.\d+)\s+(\d+)\s+([A-Z]{1,2}|m)\s+"
    r"(?:([A-Z]{1,8})(?:\s+(\d+)\s+\+\s+(\d+))?(?:\s|$)|(?=\S))"
)
_FTRACE_TITLE = re.compile(r"\s*#|Input file \S.* added$")
_REMAP = re.compile(r"<-\s+\((\d+),(\d+)\)\s+(\d+)")
_MOST_REMAPS = 1 << 16  # requests on their way to the device below
_BELOW = "request of a device above it (see the note)"
_SUMMARY = re.compile(r"CPU\d+ \(|Total \(|Throughput \(|Events \(|Skips: |\s+\w[\w /]*:\s")


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether the first line that is not a title has the form of blkparse."""
    lines = [line for line in head.decode("latin-1").split("\n")[:50] if line.strip() and not _FTRACE_TITLE.match(line)]
    return bool(lines) and _LINE.match(lines[0]) is not None


def convert(
    path: str | os.PathLike[str] | Input,
    writer: TraceWriter,
    *,
    strict: bool = False,
    progress: Progress | None = None,
    under: str | None = None,
    action: str = "Q",
) -> Report:
    """Convert a block trace; closes the writer (see `scmsim.trace.formats`, and PARAMS)."""
    with Input.of(path) as given:
        text = _Text(TraceBuilder(given, writer, strict=strict, under=under, granularity="block"), action)
        text.builder.lines(text.take, _TOOL, progress)
        text.check()
        return text.builder.finish(
            "blkparse", _TOOL, clock="seconds of the tracer", action=action, notes=text.stack.notes()
        )


class _Text:
    """The lines of one trace."""

    def __init__(self, builder: TraceBuilder, action: str) -> None:
        self.builder, self.action = builder, action
        self.actions: Counter[str] = Counter()
        self.ended = False  # blkparse sums up at the end
        self.stack = _Stack()

    def take(self, line: str) -> str | None:
        """Work on a line."""
        m = _LINE.match(line)
        if m is None:
            return self._other(line)
        major, minor, cpu, seconds, _, action, kind, sector, sectors = m.groups()
        self.actions[action] += 1
        device = f"{major[:9]}:{minor[:9]}"
        if self.action != "D":  # a device above has no drivers that requests are issued to
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
        """Note what the remaps and requests of a trace show about devices that lie on others."""
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
        raise BadLine("this is no line of blkparse")

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
        """Raise UsageError if the chosen action does not occur, naming those that do."""
        if self.actions and not self.actions[self.action]:
            there = ", ".join(f"{name} {count}" for name, count in self.actions.most_common() if name in "QDC")
            raise UsageError(
                f"{self.builder.given.path!r} has no line with the action {self.action!r} (it has {there or 'no request'}); "
                "choose one with --set action=D"
            )


class _Stack:
    """Which device lies on which, and the requests on their way down."""

    def __init__(self) -> None:
        self.top: set[str] = set()  # devices with requests of their own
        self.on_way: dict[tuple[str, str], str] = {}  # (device below, sector) -> device that was asked
        self.under: defaultdict[str, Counter[str]] = defaultdict(Counter)  # device above -> requests on each below
        self.flushes: Counter[tuple[str, str]] = Counter()  # (device above, device below): flushes on their way

    def remap(self, source: str, from_sector: str, target: str, sector: str) -> None:
        """Note that a request of one device goes on to another, in whose name it will be seen again."""
        above = self.on_way.pop((source, from_sector), source if source in self.top else None)
        if above is None or source == target:
            return  # a partition: its requests are seen on the disk alone
        self.on_way[target, sector] = above
        self.under[above][target] += 0
        if len(self.on_way) > _MOST_REMAPS:
            del self.on_way[next(iter(self.on_way))]

    def is_below(self, device: str, sector: str | None) -> bool:
        """Return whether a request was asked of a device above."""
        if sector is not None:
            return (device, sector) in self.on_way
        return any(self.flushes[above, device] > 0 for above in self.under)

    def passed(self, device: str, sector: str | None) -> None:
        """Count a request that arrived on the device below."""
        if sector is not None:
            self.under[self.on_way.pop((device, sector))][device] += 1
            return
        above = next(above for above in self.under if self.flushes[above, device] > 0)
        self.flushes[above, device] -= 1
        self.under[above][device] += 1

    def asked(self, device: str, sector: str | None) -> None:
        """Note a request that no device above has asked for."""
        self.top.add(device)
        if sector is None:
            for below in self.under.get(device, ()):
                self.flushes[device, below] += 1

    def notes(self) -> list[str]:
        """Return which rows were kept of devices on top of others, and what could not be known."""
        notes = [
            f"{above} lies on {', '.join(name for name, count in below.items() if count)}: the rows are those of {above}; "
            f"{sum(below.values()):,} of the devices below are left out"
            for above, below in self.under.items()
            if sum(below.values())
        ]
        if len(self.top) > 1 and not self.under:
            notes.append(
                f"{len(self.top)} devices and no request passed from one to another (action A): if one lies on another, requests "
                "count twice; --under /dev/block/MAJ:MIN keeps one device"
            )
        return notes
