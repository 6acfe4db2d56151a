"""The plugin's stream of addresses -> page runs with page sizes, as `scmsim mmu` reads them."""

import os

import numpy as np

from scmsim.lab import pagetable
from scmsim.mmu import page_runs

_COUNT_BITS = 27  # RUN_COUNT of plugin.c: page number << 28 | store << 27 | accesses - 1


def unpacked(packed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Addresses of the pages (uint64), accesses, and whether they are stores, of the plugin's records."""
    count = (packed & np.uint64((1 << _COUNT_BITS) - 1)) + np.uint64(1)
    store = packed >> np.uint64(_COUNT_BITS) & np.uint64(1)
    page = packed >> np.uint64(_COUNT_BITS + 1)
    kernel = page >> np.uint64(35) & np.uint64(1)  # 48-bit addresses: bit 47 fills the bits above it
    address = page << np.uint64(12) | np.where(kernel, np.uint64(0xFFFF << 48), np.uint64(0))
    return address, count, store.astype(bool)


def write(path: str | os.PathLike[str], packed: np.ndarray, found: list[pagetable.Range]) -> None:
    """Write a file of page runs."""
    address, count, store = unpacked(packed)
    page_runs.write(path, address, count, store, pagetable.orders(address, found))
