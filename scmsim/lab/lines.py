"""Store a real kernel's stream of cache lines, and simulate data caches on it.

The plugin leaves out an access whose line was the last one used among the lines with the same number modulo 64.  Such an access
hits in every first-level cache with LRU and a multiple of 64 sets, and does not change that cache's state.  So counts of misses
are exact, and counts of hits are unknown.  An inclusive last level may evict a line that the plugin considers present; the miss
that follows is not counted.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from scmsim import cache
from scmsim.cache import replay
from scmsim.cache.state import COLUMNS, ROW, Caches
from scmsim.core.errors import UsageError
from scmsim.core.records import EVENT
from scmsim.lab import kept
from scmsim.lab.measured import Measured
from scmsim.lab.plan import Plan
from scmsim.lab.regions import REGIONS

SUFFIX = ".lines.parquet"
FORMAT = 1
SETS = 64  # LINE_SETS of plugin.c: line numbers are taken modulo this
_KIND_BITS = 2  # LINE_KIND of plugin.c: line << 2 | kind, an event code
_SIDES = ("load", "store")
_FIELDS = ("lines", "l1_hit", "l2_lookups", "l2_hit", "memory")
Row = dict[str, Any]


class Kept(kept.Kept):
    """Stored stream of cache lines of one run."""

    COLUMN, FORMAT = "line", FORMAT
    REFUSAL = ("has no lines of the lab", "scmsim lab caches")

    def batches(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (events, each an access to one line; number of the region of each event) in order."""
        for packed in self.parts():
            address = packed >> np.uint64(_KIND_BITS) << np.uint64(6)
            events = np.zeros(len(packed), EVENT)
            events["code"], events["length"] = packed & np.uint64((1 << _KIND_BITS) - 1), 1
            events["vaddr"] = address.view(np.int64)
            yield events, self.layout.of(address)


def keep(path: str | os.PathLike[str], fs: str, plan: Plan, measured: Measured, kernel: str) -> None:
    """Write the cache lines of a run to a file, a part at a time."""
    assert measured.lines is not None
    Kept.write(path, measured.lines, (fs, plan, measured, kernel), {"buffer": int(measured.about["buffer"])})


def check(name: str, table: Mapping[str, Any]) -> Caches:
    """Return the empty caches of a machine; raise UsageError if the plugin omits accesses that may miss in them."""
    caches = cache.build(table)
    sets = int(caches.record[0]["level"][0]["sets"])
    if sets % SETS:
        raise UsageError(
            f"the L1D of machine {name!r} has {sets} sets; the lab's recording is exact only for a multiple of {SETS} sets; "
            "choose another machine"
        )
    return caches


def counted(stored: Kept, machines: Mapping[str, Caches], progress: Callable[[int, int], None]) -> dict[str, list[Row]]:
    """Simulate each machine's caches on the lines, in order; return the rows of misses by machine."""
    rows = {name: np.zeros(len(REGIONS), ROW) for name in machines}
    done = 0
    for events, region in stored.batches():
        for name, caches in machines.items():
            replay.simulate(caches.record, caches.arena, rows[name], events, region)
        done += len(events)
        progress(done, stored.rows)
    return {name: table(each) for name, each in rows.items()}


def table(rows: np.ndarray) -> list[Row]:
    """Return table rows with the misses of each cache level by region, loads and stores together."""
    found = []
    for region, name in enumerate(REGIONS):
        counts = dict(zip(COLUMNS, rows["at"][region].tolist(), strict=True))
        both = {column: sum(counts[f"{side}_{column}"] for side in _SIDES) for column in _FIELDS}
        if both["lines"]:
            found.append(
                {
                    "region": name,
                    "l1_misses": both["lines"] - both["l1_hit"],
                    "l2_misses": both["l2_lookups"] - both["l2_hit"],
                    "llc_misses": both["memory"],
                }
            )
    return found
