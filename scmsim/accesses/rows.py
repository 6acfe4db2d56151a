"""Convert events and write-backs to rows: the accesses of a replay, in order, for the writers of this package.

A row is a run of one kind: bytes loaded, stored, flushed or written back, the fetch of a line of code, a fence, or an
invalidation of the TLB.  The rows add up to the counters of the replay: a strided run has a row for each 4 KiB page, a line that
is flushed several times a row for each flush, and several fences a row for each fence.  Units: bytes.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from scmsim.core.records import EVENTS, FENCE, FETCH, FLUSH, INVALIDATE, LOAD, MAP, MILLI, NTSTORE, PM, STORE, WORK

WRITE_BACK = len(EVENTS)  # additional kind of a row: dirty lines leave the CPU's caches for the device
KINDS = (*(name.lower() for name in EVENTS), "writeback")
DATA = (LOAD, STORE, NTSTORE, FLUSH)  # kinds of rows that translate the address of data
PIECE = 1 << 16  # maximum number of lines that `lines` yields at once


class Causes(NamedTuple):
    """The operation of each event: its number in the trace, its thread, and whether it is setup, which is not counted."""

    operation: np.ndarray
    thread: np.ndarray
    setup: np.ndarray


class Rows(NamedTuple):
    """Table of rows: one array per column, all of the same length."""

    kind: np.ndarray  # code of an event (records.EVENTS) or WRITE_BACK; a FETCH represents WORK
    site: np.ndarray  # index into the model's sites
    space: np.ndarray
    order: np.ndarray  # as EVENT.order: log2 of the page size, CONTIGUOUS, SCM_TABLE; 0 for a write-back or fence
    virtual: np.ndarray  # address, int64; 0 for a write-back or fence
    device: np.ndarray  # offset in persistent memory; -1 if the row does not touch persistent memory
    length: np.ndarray
    width: np.ndarray  # bytes per access; for an invalidation, EVENT.cpu_count or EVENT.address_space
    instructions: np.ndarray  # thousandths of instructions: of the code that a FETCH starts, or one per access of a run
    operation: np.ndarray  # see Causes
    thread: np.ndarray
    setup: np.ndarray

    def of(self, chosen: np.ndarray) -> "Rows":
        """Return the rows that a mask or indices choose."""
        return Rows(*(column[chosen] for column in self))


def rows_of(events: np.ndarray, write_backs: tuple[np.ndarray, np.ndarray, np.ndarray], causes: Causes) -> Rows:
    """Return the rows of events; an event's write-backs follow its rows.

    `write_backs` has the indices of their events, their first bytes and their ends.
    """
    of_run, *runs = _runs(events)
    of_write, first, end = write_backs
    none = np.zeros(len(of_write), np.int64)
    written = (none + WRITE_BACK, events["site"][of_write], none + PM, none, none, first, end - first, none, none)
    event = np.concatenate([of_run, of_write])
    order = np.argsort(event, kind="stable")
    columns = [np.concatenate(pair)[order] for pair in zip(runs, written, strict=True)]
    return Rows(*columns, *(column[event[order]] for column in causes))


def _runs(events: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the index of each row's event and the columns of Rows up to `instructions`."""
    count = _rows_of_each(events)
    which = np.repeat(np.arange(len(events)), count)
    nth = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    code, site, space, order, width, addr, length, virtual = (
        events[name][which] for name in ("code", "site", "space", "order", "width", "addr", "length", "vaddr")
    )
    moves, is_work, is_fence = (code <= FLUSH) & (code != FETCH), code == WORK, code == FENCE
    strided = moves & (width < 0)
    stride = np.where(strided, nth << 12, 0)
    size = np.where(strided, -width, np.where(is_work, 1, np.where(is_fence, 0, length)))
    has_width = ~(strided | is_work | is_fence | (code == FLUSH))
    accesses = np.where(has_width & (code <= FETCH) & (width > 0), -(-size // np.maximum(width, 1)), 0)
    return (
        which,
        np.where(is_work, FETCH, code),
        site,
        space,
        np.where(is_fence, 0, order),
        np.where(is_fence, 0, virtual + stride),
        np.where(moves & (space == PM), addr + stride, -1),
        size,
        np.where(has_width, width, 0),
        np.where(is_work, addr, accesses * MILLI),  # the column `addr` of WORK is its instructions
    )


def _rows_of_each(events: np.ndarray) -> np.ndarray:
    """Return the number of rows of each event; 0 if the event touches no bytes and invalidates nothing."""
    code, length, width = events["code"], events["length"], events["width"]
    pages = ((events["addr"] + length - 1) >> 12) - (events["addr"] >> 12) + 1
    count = np.where(code == FLUSH, np.maximum(width, 1), 1)
    count = np.where((code <= FLUSH) & (code != FETCH) & (width < 0), pages, count)
    count = np.where(code == FENCE, length, count)
    nothing = (code <= FLUSH) & (length <= 0) | (code == MAP) | (code == INVALIDATE) & (length == 0) & (width <= 0)
    return np.where(nothing, 0, np.maximum(count, 0))


def line_count(first: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return how many 64-byte lines each run [first, first + length) touches."""
    return ((first + length - 1) >> 6) - (first >> 6) + 1


def lines(first: np.ndarray, length: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (index of each line's run, address of each line) for the lines that runs touch, in order, at most PIECE at once.

    A run's first line has the address of the run's first byte; further lines have the line's own address.
    """
    ends = np.cumsum(line_count(first, length))
    begins = np.append(0, ends[:-1])
    for start in range(0, int(ends[-1]) if len(ends) else 0, PIECE):
        number = np.arange(start, min(start + PIECE, int(ends[-1])))
        run = np.searchsorted(ends, number, "right")
        nth = number - begins[run]
        yield run, np.where(nth == 0, first[run], ((first[run] >> 6) + nth) << 6)
