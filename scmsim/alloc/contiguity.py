"""How contiguous the free space of a device is: free bytes in whole aligned 2 MiB pages, the largest run, runs by length.

Reads bitmaps of one bit a block (1 = free), as `first_fit` and `frames` keep them.
"""

from typing import Any

import numpy as np

BLOCK = 4096
HUGE = 512  # blocks of 2 MiB

Runs = tuple[np.ndarray, np.ndarray]  # first block and length of each


def runs(words: np.ndarray, behind: int = 0) -> Runs:
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


def of_runs(start: np.ndarray, length: np.ndarray, block: int = BLOCK) -> dict[str, int]:
    """`free_bytes`, `free_2m_bytes` (in whole aligned pages of 2 MiB) and `largest_free_bytes`, of blocks of so many bytes."""
    huge = HUGE * BLOCK // block
    whole = np.maximum((start + length) // huge - -(-start // huge), 0)
    return {
        "free_bytes": int(length.sum()) * block,
        "free_2m_bytes": int(whole.sum()) * huge * block,
        "largest_free_bytes": int(length.max(initial=0)) * block,
    }


def histogram(length: np.ndarray, block: int = BLOCK) -> dict[int, int]:
    """Number of free runs by the power of two (bytes) that is at most their length."""
    order = np.frexp(length.astype(np.float64))[1] - 1
    return {block << int(o): int(n) for o, n in zip(*np.unique(order, return_counts=True), strict=True)}


def joined(start: np.ndarray, length: np.ndarray) -> Runs:
    """The same runs in order, neighbours as one."""
    order = np.argsort(start)
    start, stop = start[order], (start + length)[order]
    apart = np.append(start[1:] != stop[:-1], True)
    first = start[np.append(True, apart[:-1])]
    return first, stop[apart] - first


def of_model(record: Any, arena: np.ndarray) -> tuple[np.ndarray, np.ndarray, int] | None:
    """The free runs of a file-system model and the bytes of its blocks; None if it allocates by another than `first_fit`.

    `two_zone` lies over that.  The SCM manager's family has blocks of its own size from `origin` on, which is a multiple of it.
    """
    names = record.dtype.names or ()
    if "tracked" not in names or not record["blocks"]:
        return None
    tracked, blocks, bits = (int(record[name]) for name in ("tracked", "blocks", "bits"))
    words = arena[bits : bits + (tracked + 63) // 64].copy()
    beyond = min(-tracked % 64, blocks - tracked)
    if beyond:
        words.view(np.uint64)[-1] |= np.uint64(((1 << beyond) - 1) << (tracked & 63))
    start, length = runs(words, max(0, blocks - 64 * len(words)))
    if "origin" in names:
        block = 1 << int(record["shift"])
        return start + int(record["origin"]) // block, length, block
    if "free_supers" in names and record["free_supers"]:
        stack, supers = int(record["stack"]), int(record["free_supers"])
        start, length = joined(
            np.append(start, arena[stack : stack + supers]), np.append(length, np.full(supers, HUGE, np.int64))
        )
    return start, length, BLOCK
