"""Text of blkparse, and of the ftrace tracer `blk` with the option blk_classic: what programs asked of block devices.

`MAJ,MIN CPU [SEQ] SECONDS PID ACTION RWBS SECTOR + SECTORS [PROCESS]`; only blkparse has the sequence number.  Sectors have
512 bytes.
A request is one row, at its action `Q` (queued: what was asked, before requests are merged or split); D (issued to the
driver) or C (completed) can be chosen.  RWBS (blk_fill_rwbs in kernel/trace/blktrace.c): R, W, D = read, write,
discard; a first F is a flush (FSYNC), an F after the letter makes a write synchronous.  A device is the file
`/dev/block/MAJ:MIN`.
"""

import os
import re
from collections import Counter

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
_FTRACE_TITLE = re.compile(r"\s*#")
_SUMMARY = re.compile(r"CPU\d+ \(|Total \(|Throughput \(|Events \(|Skips: |\s+\w[\w /]*:\s")


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Whether the first line that is no title has the form of blkparse."""
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
        return text.builder.finish("blkparse", _TOOL, clock="seconds of the tracer", action=action)


class _Text:
    """The lines of one trace."""

    def __init__(self, builder: TraceBuilder, action: str) -> None:
        self.builder, self.action = builder, action
        self.actions: Counter[str] = Counter()
        self.ended = False  # blkparse sums up at the end

    def take(self, line: str) -> str | None:
        """Work on a line."""
        m = _LINE.match(line)
        if m is None:
            return self._other(line)
        major, minor, cpu, seconds, _, action, kind, sector, sectors = m.groups()
        self.actions[action] += 1
        if action != self.action:
            return "another action of the same request"
        if kind is None:
            return "action without a request"
        now = self.builder.at(nanoseconds(seconds, 10**9))
        file = self.builder.file(f"/dev/block/{major[:9]}:{minor[:9]}")
        offset, length = whole(sector or "0", "sector") * SECTOR, whole(sectors or "0", "length") * SECTOR
        return self._request(now, file, kind, offset, length, self.builder.thread(cpu))

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
