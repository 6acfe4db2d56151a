"""Files of page runs (.pages.npz): consecutive accesses of one kind to one page, with the size of the page.

The lab writes them from a real kernel's accesses.  A file has four arrays of one length: `page` (uint64, address of the 4 KiB
page), `count` (uint32, accesses), `store` (bool), `order` (uint8, log2 of the size of the page that the page table maps
there).
"""

import os
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from scmsim.core.atomic import whole
from scmsim.core.errors import UsageError
from scmsim.core.records import EVENT, LOAD, STORE

SUFFIX = ".pages.npz"
_ARRAYS = {"page": "u8", "count": "u4", "store": "?", "order": "u1"}
_CHUNK = 1 << 16
_PAGE = 4096  # most accesses per event: more 1-byte accesses would run past the end of the smallest page
_EXPANDED = 256  # events expanded to addresses at a time: at most 1 Mi addresses
_MAX_RUNS = 1 << 28


def is_page_runs(path: str | os.PathLike[str]) -> bool:
    """Return whether the name has the suffix of files of page runs."""
    return str(path).endswith(SUFFIX)


def write(
    path: str | os.PathLike[str], page: np.ndarray, count: np.ndarray, store: np.ndarray, order: np.ndarray
) -> None:
    """Write a file of page runs atomically."""
    arrays = (page, count, store, order)
    values: dict[str, Any] = {n: np.asarray(a, kind) for (n, kind), a in zip(_ARRAYS.items(), arrays, strict=True)}
    with whole(path) as draft:
        np.savez_compressed(draft, **values)


def events(path: str | os.PathLike[str]) -> Iterator[np.ndarray]:
    """Yield arrays of EVENT for `mmu.replay`: each is a load or store run of up to 4096 1-byte accesses.

    Raises
    ------
    UsageError
        For a file that is missing, damaged, or not a file of page runs.
    """
    page, count, store, order = _read(path)
    for start in range(0, len(page), _CHUNK):
        part = slice(start, start + _CHUNK)
        yield as_events(page[part], count[part], store[part], order[part])[0]


def as_events(
    page: np.ndarray, count: np.ndarray, store: np.ndarray, order: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the EVENTs of page runs, and for each event the index of its run: a long run becomes several events."""
    pieces = -(-count.astype(np.int64) // _PAGE)
    which = np.repeat(np.arange(len(pieces)), pieces)
    out = np.zeros(len(which), EVENT)
    out["code"] = np.where(store[which], STORE, LOAD)
    out["vaddr"] = page.view(np.int64)[which]
    out["order"], out["bytes_per_access"] = order[which], 1
    out["length"] = _PAGE
    out["length"][np.cumsum(pieces) - 1] = count - (pieces - 1) * _PAGE
    return out, which


def addresses(path: str | os.PathLike[str]) -> Iterator[np.ndarray]:
    """Yield arrays with the page address of each access, in order; page sizes are dropped."""
    for runs in events(path):
        for start in range(0, len(runs), _EXPANDED):
            part = runs[start : start + _EXPANDED]
            yield np.repeat(part["vaddr"], part["length"])


def _read(path: str | os.PathLike[str]) -> tuple[np.ndarray, ...]:
    try:
        with np.load(path, allow_pickle=False) as file:
            found = tuple(np.ascontiguousarray(file[name]) for name in _ARRAYS)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(
            f"{str(path)!r} is not a file of page runs ({str(error)[:80]}); make it with scmsim lab run"
        ) from None
    same = all(
        array.dtype == np.dtype(kind) and array.shape == found[0].shape
        for array, kind in zip(found, _ARRAYS.values(), strict=True)
    )
    if not same or found[0].ndim != 1 or len(found[0]) > _MAX_RUNS:
        raise UsageError(
            f"{str(path)!r}: its arrays do not have the types or the common length of page runs; "
            "make the file again with scmsim lab run"
        )
    if len(found[0]) and (found[1].min() < 1 or not 12 <= found[3].min() <= found[3].max() <= 30):
        raise UsageError(
            f"{str(path)!r}: a run has no accesses or a page size that is not 4 KiB to 1 GiB; "
            "make the file again with scmsim lab run"
        )
    return found
