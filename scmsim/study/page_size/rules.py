"""Derive the page size of each 2 MiB range of a file's mapping from the file's extents.

DAX maps a range at once if it is inside mapping and file and is one run of blocks that begins at a multiple of 2 MiB on the
device.  Blocks without content are mapped this way for loads only, by the huge page of zeros.  The address is assumed to agree
with the offset modulo 2 MiB, as Linux arranges (thp_get_unmapped_area).
Source: Linux 5.13 fs/dax.c: dax_iomap_pmd_fault; measured: tests/fs/mapping/measured_513.csv.
"""

from typing import NamedTuple

import numpy as np

PAGE, FAN = 4096, 512  # bytes of a page; pages in 2 MiB
HUGE = FAN * PAGE

# How a 2 MiB range of a file is mapped, and why
MEANING = {
    "huge": "mapped at once",
    "unwritten": "blocks without content: mapped at once for loads, as zeros; by 4 KiB for stores",
    "empty": "no blocks: mapped at once for loads, as zeros; by 4 KiB for stores",
    "hole": "some blocks are missing",
    "misaligned": "one run of blocks, but it does not begin at a multiple of 2 MiB on the device",
    "fragmented": "several runs of blocks, or with and without content",
    "edge": "the mapping or the file begins or ends within these 2 MiB",
    "never": "mapped by 4 KiB whatever the blocks are",
    "small folios": "the page cache has no folio of 2 MiB there",
}
CLASSES = tuple(MEANING)
WHOLE, UNWRITTEN, EMPTY, HOLE, MISALIGNED, FRAGMENTED, EDGE, NEVER, SMALL = range(len(CLASSES))


class Extents(NamedTuple):
    """Runs of blocks of a file by offset: int64 arrays in pages of 4 KiB; `place` is on the device, `unwritten`: no content."""

    first: np.ndarray
    pages: np.ndarray
    place: np.ndarray
    unwritten: np.ndarray


def extents_of_pages(place: np.ndarray) -> Extents:
    """Return extents from the place of each page, as the hook `place` of `scmsim.fs.mapping.hooks` reports it."""
    page = np.flatnonzero(place)
    lies, empty = place[page] >> 12, (place[page] & 1).astype(bool)
    return joined(Extents(page, np.ones(len(page), np.int64), lies, empty))


def joined(e: Extents) -> Extents:
    """Join extents that continue one another; extents with and without content stay separate."""
    if not len(e.first):
        return e
    follows = (e.first[1:] == e.first[:-1] + e.pages[:-1]) & (e.place[1:] == e.place[:-1] + e.pages[:-1])
    follows &= e.unwritten[1:] == e.unwritten[:-1]
    begin = np.flatnonzero(np.concatenate([[True], ~follows]))
    return Extents(e.first[begin], np.add.reduceat(e.pages, begin), e.place[begin], e.unwritten[begin])


def classes(e: Extents, length: int, offset: int = 0, mapped: int | None = None) -> np.ndarray:
    """Return the class (uint8 index into CLASSES) of each 2 MiB range that a mapping of a DAX file of `length` bytes reaches.

    The mapping has `mapped` bytes (None: to the file's end) from `offset` on.  The extents must be sorted by offset and joined.
    """
    end = length if mapped is None else min(offset + mapped, length)
    count = -(-end // HUGE)
    partly = _partly(e, count)
    found = np.where(partly == 0, EMPTY, np.where(partly == FAN, FRAGMENTED, HOLE)).astype(np.uint8)
    aligned = (e.place - e.first) % FAN == 0
    for what, which in ((WHOLE, aligned), (MISALIGNED, ~aligned), (UNWRITTEN, e.unwritten)):
        found[_inside(Extents(*(column[which] for column in e)), count)] = what
    found[at_edge(offset, end)] = EDGE
    return found[offset // HUGE :]


def at_edge(offset: int, end: int) -> np.ndarray:
    """Return whether each 2 MiB range of a file up to byte `end` extends beyond a mapping of the bytes [offset, end)."""
    region = np.arange(-(-end // HUGE))
    return (region * HUGE < offset) | ((region + 1) * FAN > -(-end // PAGE))


def cached_classes(offset: int, end: int, folio: np.ndarray | None = None) -> np.ndarray:
    """Return the class of each 2 MiB range of a page-cache mapping: EDGE at its ends, SMALL without a folio of 2 MiB.

    `folio` has the number of pages in each page's folio; None if all folios have 2 MiB.
    """
    found = np.where(at_edge(offset, end)[offset // HUGE :], EDGE, WHOLE).astype(np.uint8)
    if folio is not None:
        found[(folio[offset // HUGE * FAN :: FAN][: len(found)] != FAN) & (found == WHOLE)] = SMALL
    return found


def _inside(runs: Extents, count: int) -> np.ndarray:
    """Return whether each of the first `count` 2 MiB ranges is within one of the runs."""
    low, high = -(-runs.first // FAN), (runs.first + runs.pages) // FAN
    some = low < high
    steps = np.zeros(count + 1, np.int64)
    np.add.at(steps, np.minimum(low[some], count), 1)
    np.add.at(steps, np.minimum(high[some], count), -1)
    return np.cumsum(steps[:-1]) > 0


def _partly(runs: Extents, count: int) -> np.ndarray:
    """Return, for each of the first `count` 2 MiB ranges, the number of its pages in runs that begin or end inside it."""
    stop, covered = runs.first + runs.pages, np.zeros(count + 1, np.int64)
    first, last = runs.first // FAN, (stop - 1) // FAN
    begins = runs.first % FAN > 0
    ends = (stop % FAN > 0) & ((last > first) | ~begins)
    np.add.at(covered, np.minimum(first, count)[begins], (np.minimum(stop, (first + 1) * FAN) - runs.first)[begins])
    np.add.at(covered, np.minimum(last, count)[ends], (stop - last * FAN)[ends])
    return covered[:-1]


def pages_of(found: np.ndarray, length: int, offset: int = 0) -> np.ndarray:
    """Return the number of 4 KiB pages in each 2 MiB range of a mapping of the bytes [offset, length)."""
    begin = np.maximum((offset // HUGE + np.arange(len(found))) * FAN, offset // PAGE)
    return np.minimum((offset // HUGE + np.arange(len(found)) + 1) * FAN, -(-length // PAGE)) - begin


class Faults(NamedTuple):
    """Number of page faults if every page of a mapping is touched once, in order."""

    loads: int
    stores: int


def faults(found: np.ndarray, pages: int, around: int = 1, whole_blocks: bool = False) -> Faults:
    """Return the faults of a mapping of `pages` pages whose 2 MiB ranges have the classes `found`.

    A fault for a load maps `around` small pages at once; with `whole_blocks`, a fault for a store fills a hole of 2 MiB at once.
    """
    large, for_loads = int((found == WHOLE).sum()), int(np.isin(found, (UNWRITTEN, EMPTY)).sum())
    small = pages - FAN * large
    filled = int((found == EMPTY).sum()) if whole_blocks else 0
    return Faults(large + for_loads + -(-(small - FAN * for_loads) // around), large + small - filled * (FAN - 1))
