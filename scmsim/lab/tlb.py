"""A real kernel's stream of addresses through the MMU of machines: look-ups, misses and walks by region and page size."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from scmsim.core.counters import COUNTERS
from scmsim.lab.regions import REGIONS
from scmsim.lab.stream import Kept
from scmsim.mmu import page_runs
from scmsim.mmu.replay import replay

SIZES = ("4KiB", "2MiB", "1GiB")
PLACES = len(REGIONS) * len(SIZES)
COLUMNS = ("lookups", "l1_misses", "stlb_hits", "walks")
Row = dict[str, Any]


def counted(
    kept: Kept, machines: Mapping[str, np.ndarray], progress: Callable[[int, int], None]
) -> dict[str, list[Row]]:
    """The stream in order through each MMU (by the machine's name), whose state is kept from call to call: its rows by machine.

    `progress` is called with the runs done and the runs in all.
    """
    counters = {name: np.zeros(PLACES, COUNTERS) for name in machines}
    pages = np.zeros(0, np.uint64)
    done = 0
    for runs in kept.batches():
        events, which = page_runs.as_events(runs.page, runs.count, runs.store, runs.order)
        rows = places(runs.region, runs.order)
        pages = np.union1d(pages, _tops(runs.page, runs.order))
        for name, state in machines.items():
            replay(state, counters[name], events, rows[which], len(events))
        done += len(runs.page)
        progress(done, kept.runs)
    distinct = _distinct(pages, kept)
    return {
        name: [{**row, "pages": distinct[row["region"], row["page"]]} for row in table(each)]
        for name, each in counters.items()
    }


def places(region: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Row of the counters of each access, by its region and the size of its page."""
    sizes = (order >= 21).astype(np.int64) + (order >= 30)
    out: np.ndarray = region * len(SIZES) + sizes
    return out


def table(counters: np.ndarray) -> list[Row]:
    """Rows of PLACES counters, those without look-ups left out."""
    both = {
        name: counters[f"dtlb_load_{field}"] + counters[f"dtlb_store_{field}"]
        for name, field in (
            ("lookups", "lookups"),
            ("stlb_hits", "misses_stlb_hit"),
            ("walks", "misses_walk_completed"),
        )
    }
    both["l1_misses"] = both["stlb_hits"] + both["walks"]
    return [
        {
            "region": REGIONS[place // len(SIZES)],
            "page": SIZES[place % len(SIZES)],
            **{name: int(both[name][place]) for name in COLUMNS},
        }
        for place in range(PLACES)
        if both["lookups"][place]
    ]


def _tops(page: np.ndarray, order: np.ndarray) -> np.ndarray:
    """First address of the page, of whatever size, of each run."""
    shift = order.astype(np.uint64)
    return np.unique(page >> shift << shift)


def _distinct(pages: np.ndarray, kept: Kept) -> dict[tuple[str, str], int]:
    """How many different pages, by region and size."""
    from scmsim.lab import pagetable

    rows = places(kept.layout.of(pages), pagetable.orders(pages, kept.ranges))
    counts = np.bincount(rows, minlength=PLACES)
    return {
        (region, size): int(counts[r * len(SIZES) + s])
        for r, region in enumerate(REGIONS)
        for s, size in enumerate(SIZES)
    }
