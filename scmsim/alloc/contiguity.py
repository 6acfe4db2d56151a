"""Measure how contiguous free space is: free bytes in whole aligned 2 MiB pages, the largest run, and runs by length.

Reads bitmaps of one bit per block (1 = free), as kept by `first_fit` and `frames`.
"""

from typing import Any

import numpy as np

from scmsim.alloc import aligned_holes

BLOCK = 4096
HUGE = 512  # blocks per 2 MiB

Runs = tuple[np.ndarray, np.ndarray]  # first block and length of each run


def runs(words: np.ndarray, more: int = 0) -> Runs:
    """Return (first block, length) of each free run in the bitmap; `more` free blocks follow the bitmap."""
    bits, differs = words.view(np.uint64), np.ones(len(words), np.bool_)
    np.not_equal(words[1:], words[:-1], out=differs[1:])
    # look only at words that are not all 0 or all 1, or differ from the word before: few, since most runs are long
    at = np.flatnonzero(differs | (bits + np.uint64(1) > 1))
    changes = bits[at] ^ (bits[at] << np.uint64(1))  # bit set where a block differs from the previous block
    changes ^= np.where(at > 0, bits[at - 1], np.uint64(0)) >> np.uint64(63)
    word, bit = np.nonzero(np.unpackbits(changes.view(np.uint8), bitorder="little").reshape(-1, 64))
    edges, blocks = 64 * at[word] + bit, 64 * len(words)
    if len(edges) % 2:
        edges = np.append(edges, blocks + more)
    elif more:
        edges = np.append(edges, [blocks, blocks + more])
    return edges[::2], edges[1::2] - edges[::2]


def of_runs(start: np.ndarray, length: np.ndarray, block: int = BLOCK) -> dict[str, int]:
    """Return `free_bytes`, `free_2m_bytes` (in whole aligned 2 MiB pages) and `largest_free_bytes`; `block` is in bytes."""
    huge = HUGE * BLOCK
    whole = np.maximum((start + length) * block // huge - -(-start * block // huge), 0)
    return {
        "free_bytes": int(length.sum()) * block,
        "free_2m_bytes": int(whole.sum()) * huge,
        "largest_free_bytes": int(length.max(initial=0)) * block,
    }


def mappable(logical: np.ndarray, physical: np.ndarray, length: np.ndarray, page: int) -> int:
    """Count the whole pages of `page` bytes in the runs that have the same alignment in the file and on the device.

    All arguments are in bytes.
    """
    alike = (physical - logical) % page == 0
    whole = (logical + length) // page - -(-logical // page)
    return int(np.maximum(whole[alike], 0).sum())


def histogram(length: np.ndarray, block: int = BLOCK) -> dict[int, int]:
    """Return the number of free runs by length, rounded down to a power of two (bytes)."""
    order = np.frexp(length.astype(np.float64))[1] - 1
    return {block << int(o): int(n) for o, n in zip(*np.unique(order, return_counts=True), strict=True)}


def joined(start: np.ndarray, length: np.ndarray) -> Runs:
    """Return the runs in order, with neighbours merged."""
    if not len(start):
        return start, length
    order = np.argsort(start)
    start, stop = start[order], (start + length)[order]
    apart = np.append(start[1:] != stop[:-1], True)
    first = start[np.append(True, apart[:-1])]
    return first, stop[apart] - first


def of_model(record: Any, arena: np.ndarray) -> tuple[np.ndarray, np.ndarray, int] | None:
    """Return (first block, length, bytes per block) of a model's free runs; None unless it uses `first_fit` or `aligned_holes`.

    `two_zone` is built on `first_fit`.  The SCM manager's family has its own block size, and `origin` is a multiple of it.
    """
    names = record.dtype.names or ()
    if "tracked" not in names or not record["blocks"]:
        return None
    if "first_of" in names:
        return *joined(*aligned_holes.free_runs(record, arena)), BLOCK
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
