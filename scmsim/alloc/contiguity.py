"""How contiguous the free space of a device is: free bytes in whole aligned 2 MiB pages, the largest run, runs by length.

Reads bitmaps of one bit a block of 4096 bytes (1 = free), as `first_fit` and `frames` keep them.
"""

from typing import Any

import numpy as np

BLOCK = 4096
HUGE = 512  # blocks of 2 MiB


def runs(words: np.ndarray, behind: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(First block, length) of each free run in the bitmap words; `behind` further blocks follow, all of them free."""
    bits = words.view(np.uint64)
    changes = bits ^ (bits << np.uint64(1))  # a bit where a block differs from the one before
    changes[1:] ^= bits[:-1] >> np.uint64(63)
    at = np.flatnonzero(changes)  # few: nearly all of a device lies in long runs
    word, bit = np.nonzero(np.unpackbits(changes[at].view(np.uint8), bitorder="little").reshape(-1, 64))
    edges, blocks = 64 * at[word] + bit, 64 * len(words)
    if len(edges) % 2:
        edges = np.append(edges, blocks + behind)
    elif behind:
        edges = np.append(edges, [blocks, blocks + behind])
    return edges[::2], edges[1::2] - edges[::2]


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


def joined(start: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same runs in order, neighbours as one."""
    order = np.argsort(start)
    start, stop = start[order], (start + length)[order]
    apart = np.append(start[1:] != stop[:-1], True)
    first = start[np.append(True, apart[:-1])]
    return first, stop[apart] - first


def of_model(record: Any, arena: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The free runs of a file-system model that allocates with `first_fit`, or `two_zone` over it; None of any other."""
    if "tracked" not in (record.dtype.names or ()):
        return None
    tracked, blocks, bits = (int(record[name]) for name in ("tracked", "blocks", "bits"))
    words = arena[bits : bits + (tracked + 63) // 64].copy()
    beyond = min(-tracked % 64, blocks - tracked)
    if beyond:
        words.view(np.uint64)[-1] |= np.uint64(((1 << beyond) - 1) << (tracked & 63))
    found = runs(words, max(0, blocks - 64 * len(words)))
    if "free_supers" not in record.dtype.names or not record["free_supers"]:
        return found
    stack, supers = int(record["stack"]), int(record["free_supers"])
    return joined(
        np.append(found[0], arena[stack : stack + supers]), np.append(found[1], np.full(supers, HUGE, np.int64))
    )
