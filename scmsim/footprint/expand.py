"""Expand slices of touches into single events, e.g. to count each region, or for one stack per thread."""

from collections.abc import Iterator

import numpy as np

from scmsim.core.records import EVENT, KERNEL, LOAD, STORE
from scmsim.footprint import FootprintTable
from scmsim.footprint.interleave import OPEN_FILE

_PIECE = 1024  # events to expand together: a few MB with their touches


def expanded(
    book: FootprintTable, slices: np.ndarray, events: np.ndarray, bins: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (events, rows of the counters), with each slice of touches expanded before its event."""
    if not len(slices):
        yield events, bins
        return
    for first in range(0, len(events), _PIECE):
        some = slice(first, first + _PIECE)
        ahead = slice(*np.searchsorted(slices["event"], [some.start, some.stop]))
        out, cause = _merged(book, slices[ahead], slices["event"][ahead] - first, events[some])
        yield out, bins[some][cause]


def _merged(
    book: FootprintTable, slices: np.ndarray, ahead: np.ndarray, events: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return (events and touches in order, for each of them the index of the event that it belongs to).

    Slice i comes before event `ahead[i]`.
    """
    first, end = book.bounds[slices["first"]], book.bounds[slices["end"]]
    counts = end - first
    cause = np.repeat(ahead, counts)
    touches = book.touches[np.arange(len(cause)) + np.repeat(end - np.cumsum(counts), counts)]
    page = book.pages[_placed(book, np.repeat(slices, counts), touches >> 1)]
    made = np.zeros(len(cause), EVENT)
    made["code"] = np.where(touches & 1, STORE, LOAD)
    made["site"], made["op"], made["space"], made["length"] = events["site"][cause], events["op"][cause], KERNEL, 1
    made["order"], made["vaddr"], made["addr"] = page["order"], page["vaddr"], page["vaddr"]
    return np.insert(events, cause, made), np.insert(np.arange(len(events)), cause, cause)


def _placed(book: FootprintTable, slices: np.ndarray, page: np.ndarray) -> np.ndarray:
    """Replace pages of objects by the pages of each slice's inode and open file; return indices in `book.pages`.

    The last object of a kind represents all objects with higher numbers.
    """
    page = page.astype(np.int64)
    cache = book.pages["cache"][page]
    at = np.flatnonzero(cache)
    which = (cache[at] >= OPEN_FILE).astype(np.int64)
    number = np.minimum(slices["objects"][at, which], book.inodes.shape[1] - 1)
    page[at] = book.inodes[cache[at] % OPEN_FILE - 1, number]
    return page
