"""Simulate MMUs on a real kernel's stream of addresses; count look-ups, misses and walks by region and page size, or by code."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from scmsim.core.counters import COUNTERS
from scmsim.lab import pagetable
from scmsim.lab.measured import Measured
from scmsim.lab.regions import REGIONS
from scmsim.lab.stream import MARK, Kept, unpacked
from scmsim.mmu import page_runs, presets
from scmsim.mmu.replay import replay

SIZES = ("4KiB", "2MiB", "1GiB")
PLACES = len(REGIONS) * len(SIZES)
COLUMNS = ("lookups", "l1_misses", "stlb_hits", "walks")
_BATCH = 1 << 16  # runs of pages in a batch
Row = dict[str, Any]


def counted(
    kept: Kept, machines: Mapping[str, np.ndarray], progress: Callable[[int, int], None]
) -> dict[str, list[Row]]:
    """Simulate each machine's MMU on the stream, in order; return the rows by the machine's name.

    An MMU's state is kept from call to call.  `progress` is called with the number of page runs done and of all page runs.
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
        progress(done, kept.rows)
    distinct = _distinct(pages, kept)
    return {
        name: [{**row, "pages": distinct[row["region"], row["page"]]} for row in table(each)]
        for name, each in counters.items()
    }


def by_row(measured: Measured, machine: str) -> dict[str, np.ndarray]:
    """Return the first-level misses and walks of a guest's whole stream on a machine, by row of the plugin's counts.

    A page run can miss only at its first access, so the miss counts for the row of the code that began the run.
    """
    assert measured.stream is not None and measured.cells is not None
    state, number = presets.machine(machine), measured.rows["number"].astype(np.int64)
    row = np.zeros(int(number.max(initial=0)) + 1, np.int64)
    row[number] = np.arange(len(number))
    counters = np.zeros(len(number), COUNTERS)
    for start in range(0, len(measured.stream), _BATCH):
        packed = np.asarray(measured.stream[start : start + _BATCH])
        runs = packed < np.uint64(MARK)
        page, count, store = unpacked(packed[runs])
        events, which = page_runs.as_events(page, count, store, pagetable.orders(page, measured.ranges))
        of = row[measured.cells[start : start + _BATCH][runs]]
        replay(state, counters, events, of[which], len(events))
    both = _both(counters)
    return {name: both[name].astype(np.uint64) for name in ("l1_misses", "walks")}


def places(region: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return, for each access, the row of counters that counts it: by its region and log2 of its page's bytes (`order`)."""
    sizes = (order >= 21).astype(np.int64) + (order >= 30)
    out: np.ndarray = region * len(SIZES) + sizes
    return out


def table(counters: np.ndarray) -> list[Row]:
    """Return counters by place (region and page size) as table rows, without places that have no look-ups."""
    both = _both(counters)
    return [
        {
            "region": REGIONS[place // len(SIZES)],
            "page": SIZES[place % len(SIZES)],
            **{name: int(both[name][place]) for name in COLUMNS},
        }
        for place in range(PLACES)
        if both["lookups"][place]
    ]


def _both(counters: np.ndarray) -> dict[str, np.ndarray]:
    """Return the `COLUMNS` of the counters, with loads and stores added, and the first-level misses."""
    fields = {"lookups": "lookups", "stlb_hits": "misses_stlb_hit", "walks": "misses_walk_completed"}
    both = {name: counters[f"dtlb_load_{field}"] + counters[f"dtlb_store_{field}"] for name, field in fields.items()}
    return {**both, "l1_misses": both["stlb_hits"] + both["walks"]}


def _tops(page: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the distinct first addresses of the runs' pages, whose sizes may differ."""
    shift = order.astype(np.uint64)
    return np.unique(page >> shift << shift)


def _distinct(pages: np.ndarray, kept: Kept) -> dict[tuple[str, str], int]:
    """Return the number of distinct pages, by region and size."""
    rows = places(kept.layout.of(pages), pagetable.orders(pages, kept.ranges))
    counts = np.bincount(rows, minlength=PLACES)
    return {
        (region, size): int(counts[r * len(SIZES) + s])
        for r, region in enumerate(REGIONS)
        for s, size in enumerate(SIZES)
    }
