"""Count loads, stores and TLB look-ups of rep-strings (x86 instructions that copy or clear a run of bytes).

Events of rep-strings have `bytes_per_access` 0.  The measured tables leave rep-strings out, as the lab does.  A CPU retires one
instruction, yet its counters of loads and stores advance by a number between one and the number of bytes, and each step of the
microcode looks up an address.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from scmsim.core.records import LOAD, MILLI, STORE

LEAST = 64  # bytes; shorter copies are unrolled (Linux arch/x86/lib/copy_user_64.S)
MOVES = ("copy", "zeroing")  # sites of file systems in DRAM, which do not store to persistent memory
_SIDES = ((LOAD, "load", "loads"), (STORE, "store", "stores"))


def kinds_of(sites: Mapping[str, str]) -> np.ndarray:
    """Return what the rep-strings of each site do: 0 for nothing, 1 for copy, 2 for clear."""
    clears = {name for name, kind in sites.items() if kind == "zeroing" or name == "zeroing"}
    moves = {name for name, kind in sites.items() if kind == "data" or name in MOVES}
    return np.array([2 if name in clears else int(name in moves) for name in sites])


def count(
    counters: np.ndarray,
    system: Mapping[str, Any],
    kinds: np.ndarray,
    shift: np.ndarray,
    events: np.ndarray,
    rows: np.ndarray,
) -> None:
    """Add the counts of rep-strings among the events to the counters.

    The MMU has already counted one look-up per page.  `shift` is the table of log2 of page sizes by event code and `order`.
    """
    repeated = (events["bytes_per_access"] == 0) & (events["length"] >= LEAST) & (kinds[events["site"]] > 0)
    for code, side, retired in _SIDES:
        at = np.flatnonzero(repeated & (events["code"] == code))
        length, row = events["length"][at], rows[: len(events)][at]
        # a copy of n bytes is a run of loads and a run of stores, each of which counts half
        every = np.array([0, 2 * system["rep_copy_bytes"], system["rep_clear_bytes"]])[kinds[events["site"][at]]]
        amount = np.divide(MILLI * length, every, out=np.zeros(len(at)), where=every > 0)
        np.add.at(counters[f"mem_inst_retired_all_{retired}"], row, np.rint(amount).astype(np.int64))
        if system["rep_lookup_bytes"]:
            pages = _pages(events[at], shift[code, events["order"][at] & 63])
            more = np.maximum(0, -(-length // system["rep_lookup_bytes"]) - pages)
            for field in (f"dtlb_{side}_lookups", f"dtlb_{side}_l1_hit"):
                np.add.at(counters[field], row, more)
            np.add.at(counters["dtlb_user_lookups"], row, np.where(events["vaddr"][at] >= 0, more, 0))


def _pages(events: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Return how many pages each run touches."""
    last = events["vaddr"] + events["length"] - 1
    pages: np.ndarray = (last >> shift) - (events["vaddr"] >> shift) + 1
    return pages
