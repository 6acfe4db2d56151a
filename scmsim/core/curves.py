"""Read loaded latency (latency as a function of bandwidth and share of reads) from files of measured points.

There are three formats: a CSV with the columns reads_percent, gb_s and ns; a folder of the Mess benchmark (one file
bwlat_PERCENT.txt per share of reads, with two columns, MB/s and ns); and a CSV of OptaneStudy (graphs/06-*.csv, with two columns
of the same name per device, ns and GB/s).  For the last format the name of the device follows the file's name after a #:
06-bandwidth_seqwrite_latency.csv#Optane.  Units: GB/s (bytes per ns), ns, percent of bytes that are read.
"""

import csv
import itertools
import math
import os
import pathlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from scmsim.core.errors import UsageError

Point = tuple[float, float]  # (GB/s, ns), ascending in both
_COLUMNS = ("reads_percent", "gb_s", "ns")
_MESS = re.compile(r"bwlat_(\d+)\.txt")
_HALVINGS = 60  # steps of the bisection; a double has 53 bits


@dataclass(frozen=True)
class Curves:
    """Curves of latency by bandwidth, one for each measured share of reads, ascending."""

    by_share: tuple[tuple[float, tuple[Point, ...]], ...]

    def latency(self, gb_s: float, reads_percent: float = 100.0) -> float:
        """Return the latency in ns at a bandwidth and a share of reads; outside of the measurements, the nearest point's."""
        shares = [share for share, _ in self.by_share]
        found = [_between(points, gb_s) for _, points in self.by_share]
        return _between(tuple(zip(shares, found, strict=True)), reads_percent)

    def slowdown(self, gb_s: float, reads_percent: float = 100.0) -> float:
        """Return the latency at a bandwidth divided by the latency of the idle device, at least 1."""
        return self.latency(gb_s, reads_percent) / self.latency(0.0, reads_percent)

    def largest(self, reads_percent: float = 100.0) -> float:
        """Return the largest measured bandwidth, GB/s."""
        return _between(tuple((share, points[-1][0]) for share, points in self.by_share), reads_percent)

    def widened(self, factor: float) -> "Curves":
        """Return the curves of a device with `factor` times the bandwidth at each latency."""
        return Curves(
            tuple((share, tuple((gb_s * factor, ns) for gb_s, ns in points)) for share, points in self.by_share)
        )

    def rate(self, lines: float, idle_ns: float, reads_percent: float = 100.0) -> float:
        """Return the bandwidth, GB/s, with `lines` 64-byte lines in flight, each of which takes the latency at that bandwidth.

        That latency is `idle_ns`, the latency of the idle device, times `slowdown`.
        """
        low, high = 0.0, 64 * lines / idle_ns
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if middle * idle_ns * self.slowdown(middle, reads_percent) < 64 * lines:
                low = middle
            else:
                high = middle
        return low


def read(name: str | os.PathLike[str]) -> Curves:
    """Return the curves of a file or folder.

    Raises
    ------
    UsageError
        For a file that cannot be read, has none of the formats, or has a point that is not two positive numbers.
    """
    given, _, device = os.fspath(name).partition("#")
    path = pathlib.Path(given)
    try:
        if path.is_dir():
            rows = list(_mess(path))
        else:
            with path.open(encoding="utf-8-sig", newline="") as file:
                rows = list(_table(path, list(csv.reader(file)), device))
    except (OSError, UnicodeError, csv.Error) as error:
        raise UsageError(f"cannot read the curves {given!r}: {getattr(error, 'strerror', None) or error}") from None
    if not rows:
        raise UsageError(f"the curves {given!r} have no point; give at least one line: {','.join(_COLUMNS)}")
    groups = itertools.groupby(sorted(rows), key=lambda row: row[0])
    return Curves(tuple((share, _rising((gb_s, ns) for _, gb_s, ns in group)) for share, group in groups))


def _mess(folder: pathlib.Path) -> Iterable[tuple[float, float, float]]:
    for file in sorted(folder.iterdir()):
        if named := _MESS.fullmatch(file.name):
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                if line.strip():
                    mb_s, ns = _numbers(file, number, line.split(), 2)
                    yield _point(file, number, float(named[1]), mb_s / 1000, ns)


def _table(path: pathlib.Path, rows: list[list[str]], device: str) -> Iterable[tuple[float, float, float]]:
    head = [cell.strip() for cell in rows[0]] if rows else []
    if tuple(head) == _COLUMNS:
        for number, row in enumerate(rows[1:], 2):
            if row:
                yield _point(path, number, *_numbers(path, number, row, 3))
        return
    devices = list(dict.fromkeys(head[1:]))
    if head[:1] != [""] or sorted(head[1:]) != sorted(2 * devices):
        raise UsageError(f"{str(path)!r}, line 1: the columns must be {','.join(_COLUMNS)}, not {','.join(head)!r}")
    if device not in devices:
        raise UsageError(f"{str(path)!r} has no device {device!r}; give {path.name}#DEVICE: {', '.join(devices)}")
    at = head.index(device)
    for number, row in enumerate(rows[1:], 2):
        if row:
            ns, gb_s = _numbers(path, number, row[at : at + 2], 2)
            yield _point(path, number, 0.0, gb_s, ns)


def _numbers(path: pathlib.Path, line: int, cells: list[str], count: int) -> list[float]:
    try:
        found = [float(cell) for cell in cells]
    except ValueError:
        found = []
    if len(found) != count or not all(math.isfinite(each) and each >= 0 for each in found):
        raise UsageError(
            f"{str(path)!r}, line {line}: {','.join(cells)!r}; give {count} numbers of at least 0, separated by commas"
        )
    return found


def _point(path: pathlib.Path, line: int, percent: float, gb_s: float, ns: float) -> tuple[float, float, float]:
    if percent > 100:
        raise UsageError(f"{str(path)!r}, line {line}: a share of reads is 0 to 100 percent, not {percent:g}")
    if ns == 0:
        raise UsageError(f"{str(path)!r}, line {line}: a latency must be more than 0 ns; leave the line out")
    return percent, gb_s, ns


def _rising(points: Iterable[Point]) -> tuple[Point, ...]:
    """Sort points by latency, and drop points whose bandwidth is not larger than before (a saturated device has many latencies)."""
    kept: list[Point] = []
    for gb_s, ns in sorted(points, key=lambda point: (point[1], point[0])):
        if not kept or gb_s > kept[-1][0]:
            kept.append((gb_s, ns))
    return tuple(kept)


def _between(points: tuple[Point, ...], x: float) -> float:
    """Interpolate linearly between points ascending in x; outside of them, return the nearest point's value."""
    if x <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return points[-1][1]
