"""Which pages each call of a kept stream touches, in the order of their first touch: what a footprint is made of.

A TLB's misses need no more: the first touch of every page in each window of some thousand runs gives them to a few percent
(docs/validation-tlb.md).
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from scmsim.lab.stream import Kept, Runs

WINDOW = 1000  # runs


class Call(NamedTuple):
    """A call: its kind (a number of the header's `kinds`) and its first touches in order.

    `page` is the first address of a page of the size that the guest has there (uint64), `order` the log2 of that size, `region` a
    number of `regions.REGIONS`.  Loads and stores of a page are touches apart: some first levels have an array for each.
    """

    kind: int
    page: np.ndarray
    order: np.ndarray
    store: np.ndarray
    region: np.ndarray


def calls(kept: Kept, window: int | None = WINDOW) -> Iterator[Call]:
    """The calls of a stream in order; `window`: runs after which a page counts as touched anew, None: one list a call."""
    open_call: list[Runs] = []
    for runs in kept.batches():
        starts = np.flatnonzero(np.diff(runs.call)) + 1
        for first, last in zip(np.append(0, starts), np.append(starts, len(runs.call)), strict=True):
            if first == last:
                continue
            if open_call and open_call[0].call[0] != runs.call[first]:
                yield _call(open_call, window)
                open_call = []
            open_call.append(runs.part(slice(first, last)))
    if open_call:
        yield _call(open_call, window)


def _call(parts: list[Runs], window: int | None) -> Call:
    """One call, from its runs."""
    page, order, store, region = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("page", "order", "store", "region")
    )
    shift = order.astype(np.uint64)
    page = page >> shift << shift
    touch = page | store.astype(np.uint64)
    at = np.arange(len(page)) // window if window else np.zeros(len(page), np.int64)
    _, first = np.unique(np.rec.fromarrays([at, touch]), return_index=True)
    first.sort()
    return Call(int(parts[0].kind[0]), page[first], order[first], store[first], region[first])
