"""Lay out the state of a machine's data caches: a small record for the shapes, and an array for the lines.

A level is set-associative with LRU.  A set holds its lines in order of use, the most recent first, in 8 or a multiple of 16 slots.
The set of a line is the line's number modulo the number of sets; the hash by which real last-level caches choose a slice is not
documented, and not modelled.  Units: lines of 64 bytes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.units import parse_bytes

LEVELS = 3
LINE = 64  # bytes
EMPTY = -2  # an empty slot
FOUND = -1  # result of a look-up that found the line; other results are the evicted entry

# Inclusion policy: which lines of the levels nearer to the core a level also holds.
# - inclusive: all; a line that leaves this level leaves the nearer levels too
# - non-inclusive: the level is filled on a miss, and evicts lines independently of the nearer levels
# - exclusive: none; the level gets the lines that the next nearer level evicts, clean or dirty, and a hit moves a line back there
FILLS = ("inclusive", "non-inclusive", "exclusive")
INCLUSIVE, NON_INCLUSIVE, EXCLUSIVE = range(len(FILLS))

# The best write-back instruction of a CPU: clwb keeps the line, clflushopt and clflush evict it.
FLUSHES = ("clwb", "clflushopt", "clflush")

# Prefetch policy: which lines of the same 4 KiB page a miss in the first level also brings into the second level.
# - next-line: the next line
# - stream: the next AHEAD lines, if the latest miss in the page was on the line before
PREFETCHES = ("none", "next-line", "stream")
NEXT_LINE, STREAM = 1, 2
STREAMS = 16  # number of pages whose latest miss is remembered
AHEAD = 4  # lines that the policy stream prefetches

# An address in persistent memory is its device offset | PM_BIT; a line number is that address / LINE.  So the kernel's and
# a program's mapping of a page have the same lines.
PM_BIT = 1 << 57
ADDRESS = PM_BIT - 1  # bits of a virtual address that number its line

LEVEL = np.dtype(
    (
        np.record,
        [
            ("first", "i8"),  # first slot in the arena
            ("sets", "i8"),
            ("mask", "i8"),  # sets - 1 if the number of sets is a power of two, else -1
            ("lanes", "i8"),  # slots per set: `ways` rounded up for the vector search
            ("ways", "i8"),
            ("holds", "i8"),  # which lines of the nearer levels this level also holds: index into FILLS
        ],
    )
)

CACHES = np.dtype(
    (
        np.record,
        [
            ("levels", "i8"),
            ("keeps", "i8"),  # 1: a flush keeps the line
            ("by_device", "i8"),  # 1: look up events in persistent memory by their offset in the device
            ("prefetch", "i8"),  # index into PREFETCHES
            ("sums_commits", "i8"),  # 1: a commit reads each metadata block twice, first for its checksum
            ("stream", "i8", (STREAMS,)),  # line of the latest miss in each of STREAMS pages; EMPTY: unused
            ("next_stream", "i8"),  # element of `stream` that the next new page replaces
            # for footprints: operation of the latest touches, number of its first new page, and whether it has new pages
            ("op", "i8"),
            ("new_pages", "i8"),
            ("is_used", "i8"),
            ("level", LEVEL, (LEVELS,)),
        ],
    )
)

# Lines that a footprint's touch looks up, see footprint.LINES; `row` is added to the row of the counts.
BLOCK = np.dtype((np.record, [("vaddr", "i8"), ("lines", "u8"), ("store", "i8"), ("cache", "i8"), ("row", "i8")]))

SIDES = ("load", "store", "prefetch", "walk")
# Columns of the counts, shown as `cache_NAME`; `lines` are the look-ups of the first level.
SIDE = ("lines", "l1_hit", "l2_lookups", "l2_hit", "l3_lookups", "l3_hit", "memory")
OTHERS = (
    "nt_lines",
    "flushed_lines",
    "written_back_evicted",
    "written_back_flushed",
    "pm_read",
    "pm_written_back",
    "unchecked",
)
COLUMNS = (*(f"{side}_{name}" for side in SIDES for name in SIDE), *OTHERS)
ROW = np.dtype((np.record, [("at", "i8", (len(COLUMNS),))]))
(NT_LINES, FLUSHED_LINES, EVICTED, FLUSHED, PM_READ, PM_WRITTEN, UNCHECKED) = range(
    len(SIDES) * len(SIDE), len(COLUMNS)
)
# positions of counts within a side; hits of a level come after its look-ups
PER_SIDE, HIT, L2, L3, MEMORY = len(SIDE), 1, 2, 4, 6
PREFETCH, WALK = 2 * PER_SIDE, 3 * PER_SIDE


class Caches(NamedTuple):
    """State of the data caches: `record` has shape (1,), `arena` the slots of all levels."""

    record: np.ndarray
    arena: np.ndarray


def build(
    tables: Sequence[Mapping[str, Any]], flush: str = FLUSHES[0], prefetch: str = PREFETCHES[0], by_device: bool = False
) -> Caches:
    """Return empty caches from a machine's checked [[cache]] tables, nearest first.

    Raises UsageError if `tables` has no or too many levels, or if `check_fills` refuses a level's `fill`.
    """
    if not 1 <= len(tables) <= LEVELS:
        raise UsageError(f"a machine can have 1 to {LEVELS} [[cache]] tables, not {len(tables)}")
    check_fills(tables)
    record = np.zeros(1, CACHES)
    s = record[0]
    s["levels"], s["keeps"], s["by_device"] = len(tables), flush == FLUSHES[0], by_device
    s["prefetch"], s["stream"] = PREFETCHES.index(prefetch), EMPTY
    first = 0
    for k, table in enumerate(tables):
        sets = _sets(table)
        mask = sets - 1 if sets & (sets - 1) == 0 else -1
        fill = FILLS.index(table.get("fill", FILLS[NON_INCLUSIVE]))
        s["level"][k] = first, sets, mask, _lanes(table), table["ways"], fill
        first += sets * _lanes(table)
    room = np.zeros(first * 8 + 64, np.uint8)
    start = -room.ctypes.data % 64  # rows are on cache lines
    arena = room[start : start + first * 8].view(np.int64)
    arena[:] = EMPTY
    return Caches(record, arena)


def check_fills(tables: Sequence[Mapping[str, Any]]) -> None:
    """Raise UsageError if a level other than the third is exclusive, or if the first level is inclusive."""
    for k, table in enumerate(tables, 1):
        fill = table.get("fill", FILLS[NON_INCLUSIVE])
        if k < LEVELS and fill == FILLS[EXCLUSIVE]:
            raise UsageError(f"level {k} cannot be {fill!r}; only the third level can be")
        if k == 1 and fill == FILLS[INCLUSIVE]:
            raise UsageError(
                f"level 1 cannot be {fill!r}, since no level is nearer to the core; use {FILLS[NON_INCLUSIVE]!r}"
            )


def _sets(table: Mapping[str, Any]) -> int:
    return parse_bytes(table["size"]) // (LINE * int(table["ways"]))


def _lanes(table: Mapping[str, Any]) -> int:
    return 8 if table["ways"] <= 8 else -(-int(table["ways"]) // 16) * 16
