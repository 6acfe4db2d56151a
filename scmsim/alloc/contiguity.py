"""How contiguous the free space of a device is: free bytes in whole aligned 2 MiB pages, the largest run, runs by length.

Reads bitmaps of one bit a block of 4096 bytes (1 = free), as `first_fit` and `frames` keep them.
"""

from typing import Any

import numpy as np

BLOCK = 4096
HUGE = 512  # blocks of 2 MiB


def runs(words: np.ndarray, behind: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(First block, length) of each free run in the bitmap words; `behind` further blocks follow, all of them free."""
    used = np.flatnonzero(words != -1)
    kept = int(used[-1]) + 1 if len(used) else 0  # nearly always most of a device has never been used
    bits = np.unpackbits(words[:kept].view(np.uint8), bitorder="little").view(np.int8)
    edges = np.diff(np.concatenate([[0], bits, [0]]).astype(np.int8))
    start, length = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)
    tail = 64 * (len(words) - kept) + behind
    if not tail:
        return start, length
    if len(start) and start[-1] + length[-1] == 64 * kept:
        length[-1] += tail
        return start, length
    return np.append(start, 64 * kept), np.append(length, tail)


def of_runs(start: np.ndarray, length: np.ndarray) -> dict[str, int]:
    """`free_bytes`, `free_2m_bytes` (in whole aligned pages of 2 MiB) and `largest_free_bytes`."""
    whole = np.maximum((start + length) // HUGE - -(-start // HUGE), 0)
    return {
        "free_bytes": int(length.sum()) * BLOCK,
        "free_2m_bytes": int(whole.sum()) * HUGE * BLOCK,
        "largest_free_bytes": int(length.max(initial=0)) * BLOCK,
    }


def histogram(length: np.ndarray) -> dict[int, int]:
    """Number of free runs by the power of two (bytes) that is at most their length."""
    order = np.frexp(length.astype(np.float64))[1] - 1
    return {BLOCK << int(o): int(n) for o, n in zip(*np.unique(order, return_counts=True), strict=True)}


def of_model(record: Any, arena: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The free runs of a file-system model that allocates with `first_fit`; None of any other."""
    if "tracked" not in (record.dtype.names or ()):
        return None
    tracked, blocks, bits = (int(record[name]) for name in ("tracked", "blocks", "bits"))
    words = arena[bits : bits + (tracked + 63) // 64].copy()
    beyond = min(-tracked % 64, blocks - tracked)
    if beyond:
        words.view(np.uint64)[-1] |= np.uint64(((1 << beyond) - 1) << (tracked & 63))
    return runs(words, max(0, blocks - 64 * len(words)))
