"""Compute the cost of page sizes of a mapping on a machine: page walks of random touches, counted by scmsim.mmu."""

from typing import Any

import numpy as np

from scmsim.core.counters import COUNTERS
from scmsim.core.records import EVENT, LOAD
from scmsim.mmu import presets
from scmsim.mmu.replay import replay
from scmsim.study.page_size import rules

TOUCHES = 200_000  # counted touches; as many uncounted touches come first, to fill the TLBs
_AREA = 1 << 46  # address of the mappings in a program's address space


def walks_per_touch(machine: str | dict[str, Any], huge: np.ndarray, pages: np.ndarray, seed: int = 1) -> float:
    """Return the mean number of page walks per 8-byte load at a random address of the mappings.

    `huge` (bool) and `pages` (int64) have an entry for each 2 MiB range of the mappings: whether one page-table entry maps the
    range, and its number of 4 KiB pages, at most 512.
    """
    state, counters = presets.machine(machine).view(np.ndarray), np.zeros(2, COUNTERS)
    rng, events, row = np.random.default_rng(seed), np.zeros(TOUCHES, EVENT), np.zeros(TOUCHES, np.int64)
    ends = np.cumsum(pages)
    for part in range(2):
        touched = rng.integers(0, ends[-1], TOUCHES)
        region = np.searchsorted(ends, touched, side="right")
        events["code"], events["length"], events["width"] = LOAD, 8, 8
        events["vaddr"] = _AREA + region * rules.HUGE + (touched - ends[region] + pages[region]) * rules.PAGE
        events["order"] = np.where(huge[region], 21, 12)
        row[:] = part
        replay(state, counters, events, row, TOUCHES)
    return float(counters[1]["dtlb_load_misses_walk_completed"]) / TOUCHES
