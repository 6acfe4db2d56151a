"""Simulate the data caches of one core: L1D, L2 and the last level.

- `build(table)` returns the empty caches of a machine's table.
- `simulate` runs batches of accesses through the caches and returns the counts.
- `scmsim.cache.replay.simulate` runs events through the caches and adds to rows of counts.

Importing this package compiles nothing.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from scmsim.core.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from scmsim.cache.state import Caches

OFF, ON, *_ = SETTINGS = ("off", "on", "next-line", "stream")  # the last two mean on, with this prefetcher


def build(table: Mapping[str, Any], setting: str = ON, by_device: bool = False) -> "Caches":
    """Return the empty caches of a machine's checked table, with the prefetcher of one of SETTINGS.

    `by_device`: events in persistent memory are looked up by their offset in the device.

    Raises UsageError for a machine without [[cache]] tables.
    """
    from scmsim.cache import state

    if "cache" not in table:
        raise UsageError(
            f"machine {table.get('summary', 'table')!r} has no [[cache]] tables, since no source for its data caches was at hand; "
            "choose another machine, add the tables to a copy of its file, or leave the caches off"
        )
    prefetch = setting if setting in state.PREFETCHES else state.PREFETCHES[0]
    return state.build(table["cache"], table.get("flush", state.FLUSHES[0]), prefetch, by_device)


def simulate(
    batches: "Iterable[tuple[np.ndarray | None, np.ndarray]]", table: Mapping[str, Any], setting: str = ON
) -> dict[str, int]:
    """Return the counts of one access at each address of `batches`.

    A batch is (event codes, byte addresses); None as codes means that all accesses are loads.
    An access is one look-up of one line, because files of addresses do not record lengths.  Instruction fetches are ignored.
    """
    import numpy as np

    from scmsim.cache import state
    from scmsim.cache.replay import simulate_lines

    caches, counts = build(table, setting), np.zeros(1, state.ROW)
    for codes, addresses in batches:
        kinds = np.zeros(len(addresses), np.uint8) if codes is None else np.ascontiguousarray(codes, np.uint8)
        simulate_lines(caches.record, caches.arena, counts, kinds, np.ascontiguousarray(addresses, np.int64))
    return _addressed(counts, table, setting)


def simulate_events(
    parts: "Iterable[tuple[np.ndarray, np.ndarray]]", table: Mapping[str, Any], setting: str = ON
) -> dict[str, int]:
    """Return the counts of events with virtual addresses; a part is (events, whether each is setup and not counted)."""
    import numpy as np

    from scmsim.cache import replay, state

    caches, counts = build(table, setting), np.zeros(2, state.ROW)
    for events, setup in parts:
        replay.simulate(caches.record, caches.arena, counts, events, setup.astype(np.int64))
    return _addressed(counts, table, setting)


def _addressed(counts: "np.ndarray", table: Mapping[str, Any], setting: str) -> dict[str, int]:
    """Return the first row of counts by name, without counts of unchecked accesses and page walks, which do not occur here."""
    found = named(counts["at"][0], len(table["cache"]), setting)
    return {name: n for name, n in found.items() if name != "cache_unchecked" and not name.startswith("cache_walk_")}


def named(row: "np.ndarray", levels: int, setting: str = ON) -> dict[str, int]:
    """Return counts by name, some also by perf's event name, without levels and prefetchers that the machine lacks."""
    from scmsim.cache.state import COLUMNS, PREFETCHES
    from scmsim.core.records import MILLI

    counts = {name: int(count) for name, count in zip(COLUMNS, row, strict=True)}
    counts["unchecked"] = (counts["unchecked"] + MILLI // 2) // MILLI
    absent = [f"_l{level}_" for level in range(levels + 1, 4)]
    absent += [] if setting in PREFETCHES else ["_prefetch_"]
    found = {f"cache_{name}": n for name, n in counts.items() if not any(part in f"_{name}" for part in absent)}
    found["l1d_replacement"] = sum(counts[f"{side}_lines"] - counts[f"{side}_l1_hit"] for side in ("load", "store"))
    if levels > 1:
        found["mem_load_retired_l2_miss"] = counts["load_l2_lookups"] - counts["load_l2_hit"]
    if levels > 2:
        found["mem_load_retired_l3_hit"] = counts["load_l3_hit"]
        found["mem_load_retired_l3_miss"] = counts["load_memory"]
    return found
