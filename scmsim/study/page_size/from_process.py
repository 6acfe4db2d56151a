"""Read how a running process maps a file: sums from smaps, and the page size of each 2 MiB range from pagemap."""

import array
import errno
import fcntl
import os
import pathlib
import struct
from collections.abc import Iterator

import numpy as np

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.study.page_size.rules import HUGE
from scmsim.trace.reading import smaps

_SCAN = 0xC0606610  # PAGEMAP_SCAN: _IOWR('f', 16, struct pm_scan_arg)
_PRESENT, _HUGE = 1 << 3, 1 << 6  # PAGE_IS_...: an entry exists; the entry is one of 2 MiB
_ARGUMENT, _REGION = struct.Struct("=12Q"), struct.Struct("=3Q")
_AT_ONCE = 512  # regions per PAGEMAP_SCAN request

# How a process maps a 2 MiB range of a file
NOW = ("nothing", "4 KiB", "2 MiB")
NOTHING, SMALL, LARGE = range(len(NOW))


def smaps_of(pid: int, proc: str = "/proc") -> str:
    """Return the text of a process's smaps."""
    try:
        return (pathlib.Path(proc) / str(pid) / "smaps").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise UsageError(f"cannot read the mappings of process {pid}: {(error.strerror or '').lower()}") from None


def sums(text: str, path: str) -> dict[str, int]:
    """Return the KiB of a file that a process maps, by field of smaps; empty if the process does not map the file."""
    found = smaps.by_file(text).get(os.path.realpath(path), {})
    return {name: kib for name, kib in found.items() if name != "KernelPageSize"}


def page_sizes(pid: int, text: str, path: str, count: int) -> np.ndarray:
    """Return how a process maps each of the first `count` 2 MiB ranges of a file: a uint8 array of indices into NOW.

    `text` is the process's smaps.  Of several mappings of a range, the one with the largest page counts.
    """
    found = np.full(count, NOTHING, np.uint8)
    mappings = smaps.ranges(text, os.path.realpath(path))
    if not mappings:
        return found
    try:
        descriptor = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise EnvironmentProblem(
            f"/proc/{pid}/pagemap cannot be read: {(error.strerror or '').lower()}; run as root or as the process's user"
        ) from None
    try:
        for start, end, offset in mappings:
            for low, high, large in _entries(descriptor, start, end):
                first, stop = (low - start + offset) // HUGE, -(-(high - start + offset) // HUGE)
                found[first:stop] = np.maximum(found[first:stop], LARGE if large else SMALL)
    except OSError as error:
        if error.errno not in (errno.ENOTTY, errno.EINVAL):
            raise
        raise EnvironmentProblem("needs Linux 6.7 or later (PAGEMAP_SCAN)") from None
    finally:
        os.close(descriptor)
    return found


def _entries(descriptor: int, at: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Yield (start, end, whether 2 MiB entries map it) of each mapped address range in [at, end)."""
    room = array.array("B", bytes(_AT_ONCE * _REGION.size))
    place = room.buffer_info()[0]
    while at < end:
        argument = bytearray(
            # start, end, walk_end, vec, vec_len, max_pages; categories: inverted, required, any of, reported
            _ARGUMENT.pack(_ARGUMENT.size, 0, at, end, 0, place, _AT_ONCE, 0, 0, _PRESENT, 0, _PRESENT | _HUGE)
        )
        for k in range(fcntl.ioctl(descriptor, _SCAN, argument)):
            low, high, told = _REGION.unpack_from(room, k * _REGION.size)
            yield low, high, told & _HUGE != 0
        at = _ARGUMENT.unpack(argument)[4]


def runs(now: np.ndarray, first: int = 0) -> list[dict[str, object]]:
    """Return runs of 2 MiB ranges that a process maps alike, as dicts: offset in the file, bytes, and how.

    `now` begins at the file's 2 MiB range number `first`.
    """
    if not len(now):
        return []
    begin = np.flatnonzero(np.diff(now, prepend=255))
    stop = np.append(begin[1:], len(now))
    return [
        {"offset": (first + int(low)) * HUGE, "bytes": int(high - low) * HUGE, "by": NOW[now[low]]}
        for low, high in zip(begin, stop, strict=True)
    ]
