"""vdbench's storage definitions (sd) on large files, and the workloads (wd) that read and write their blocks.

Source: vdbench 5.04.06 (WG_entry): blocks are multiples of the transfer size, and the first block is never touched.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import CLOSE, OPEN, READ, SYNCHRONOUS, WRITE, Files
from scmsim.workload._vdbench import Entry, Parameters, Turns, drawn, number

Row = tuple[int, ...]  # op, file, offset, length, file2, flag, thread


@dataclass
class Stream:
    """A workload on one device: its range of bytes, its threads, and its position (`next` -1: at the start)."""

    workload: Entry
    file: int
    low: int
    high: int
    first: int  # number of its first thread
    threads: int
    flag: int
    next: int = -1
    turn: int = 0


class Devices:
    """All devices of a parameter file, each a file of its size."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.entries = parameters.entries["sd"]

    def table(self) -> Files:
        """Return the side table, in which each device is a file that exists in full."""
        names = [f"/{each['lun'].strip('/')}" for each in self.entries]
        sizes = [each["size"] + each["offset"] for each in self.entries]
        return Files(names, np.array(sizes, np.int64), np.zeros(len(names), bool))

    def rows(self, run: Entry, workloads: list[Entry], operations: int, random: np.random.Generator) -> Iterator[Row]:
        """Yield the calls of one run: the devices are opened, the workloads take turns by their skew, the devices are closed."""
        streams = list(self._streams(workloads))
        used = {stream.file: stream.flag for stream in streams}
        for file in used:
            yield OPEN, file, -1, 0, -1, 0, 0
        turns = Turns([stream.workload["skew"] or 1 for stream in streams])
        left, bytes_left = operations or 1 << 62, run["maxdata"] or 1 << 62
        alive = list(range(len(streams)))
        while alive and left > 0 and bytes_left > 0:
            chosen = turns.next(alive)
            row = _block(streams[chosen], random)
            if row is None:
                alive.remove(chosen)
                continue
            left, bytes_left = left - 1, bytes_left - row[3]
            yield row
        for file in used:
            yield CLOSE, file, -1, 0, -1, 0, 0

    def _streams(self, workloads: list[Entry]) -> Iterator[Stream]:
        first = 0
        for each in workloads:
            for sd in self.parameters.named("sd", each["sd"]):
                unit = max(size for size, _ in each["xfersizes"])
                low, high = 0, sd["size"]
                if given := each["range"] or sd["range"]:
                    low, high = (number(text, f"{each.at}: range") for text in given[:2]) if len(given) == 2 else (0, 0)
                    if high <= 200:  # values up to 200 are percentages
                        low, high = sd["size"] * low // 100, sd["size"] * high // 100
                low, high = low // unit * unit or unit, min(high, sd["size"]) // unit * unit
                if high - low < unit:
                    raise UsageError(
                        f"{each.at}: no block of {unit:,} bytes after the first in sd={sd.name[:40]}; give a larger size"
                    )
                threads = each["threads"] or sd["threads"]
                is_synchronous = any(each.has(flag) or sd.has(flag) for flag in ("o_sync", "o_dsync"))
                flag = SYNCHRONOUS if is_synchronous else 0
                yield Stream(
                    each, self.entries.index(sd), low + sd["offset"], high + sd["offset"], first, threads, flag
                )
                first += threads


def _block(s: Stream, random: np.random.Generator) -> Row | None:
    """Return the next read or write of a workload, None at the end (seekpct=eof)."""
    w = s.workload
    unit = drawn(w["xfersizes"], random)
    seek = {"seq": "0", "sequential": "0", "eof": "0", "random": "100"}.get(w["seekpct"], w["seekpct"])
    if random.random() * 100 < number(seek, f"{w.at}: seekpct"):
        offset = s.low + int((s.high - s.low) // unit * random.random()) * unit
    else:
        offset = s.next if s.next >= 0 else s.low
        if offset + unit > s.high:
            if w["seekpct"] == "eof":
                return None
            offset = s.low
        s.next = offset + unit
    is_read = random.random() * 100 < w["rdpct"]
    thread = s.first + s.turn % s.threads
    s.turn += 1
    return READ if is_read else WRITE, s.file, offset, unit, -1, 0 if is_read else s.flag, thread
