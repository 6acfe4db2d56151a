"""Small caches for tests, and the counts of a stream of events."""

import numpy as np

from scmsim.cache import state
from scmsim.cache.replay import simulate
from scmsim.core.records import EVENT, FLUSH, LOAD, NTSTORE, STORE

CODES = {"load": LOAD, "store": STORE, "nt": NTSTORE, "flush": FLUSH}


def cache(sets: int, ways: int, fill: str = "non-inclusive") -> dict:
    return {"size": 64 * sets * ways, "ways": ways, "fill": fill}


def events(accesses: list[tuple[str, int, int]]) -> np.ndarray:
    """Return events of (kind, first byte, length)."""
    found = np.zeros(len(accesses), EVENT)
    for event, (kind, first, length) in zip(found, accesses, strict=True):
        event["code"], event["vaddr"], event["length"] = CODES[kind], first, length
    return found


def counted(
    tables: list[dict], stream: np.ndarray, flush: str = "clwb", prefetch: str = "none", by_device: bool = False
) -> dict[str, int]:
    """Return the nonzero counts of a stream."""
    caches, counts = state.build(tables, flush, prefetch, by_device), np.zeros(1, state.ROW)
    simulate(caches.record, caches.arena, counts, stream, np.zeros(len(stream), np.int64))
    return {name: int(n) for name, n in zip(state.COLUMNS, counts["at"][0], strict=True) if n}
