"""Divide the kernel's address space into regions (direct map, kernel image, modules, ...).

Source: Linux 6.1, Documentation/x86/x86_64/mm.rst, 4-level page tables without randomisation.  The image ends at the symbol
`_end`; modules are above it.
"""

from dataclasses import dataclass

import numpy as np

from scmsim.lab import qemu

REGIONS = (
    "direct map", "persistent memory", "vmalloc", "kernel image", "modules", "vmemmap", "CPU entry area", "other kernel",
    "program",
)  # fmt: skip
(DIRECT_MAP, PERSISTENT, VMALLOC, IMAGE, MODULES, VMEMMAP, ENTRY_AREA, OTHER, PROGRAM) = range(len(REGIONS))
IMAGE_AT = 0xFFFFFFFF80000000
IMAGE_END = 0xFFFFFFFFA0000000  # highest end of a kernel image without randomisation
_FIXED = (
    (0, PROGRAM),
    (1 << 47, OTHER),
    (0xFFFF888000000000, DIRECT_MAP),
    (0xFFFFC88000000000, OTHER),
    (0xFFFFC90000000000, VMALLOC),
    (0xFFFFE90000000000, OTHER),
    (0xFFFFEA0000000000, VMEMMAP),
    (0xFFFFEB0000000000, OTHER),
    (0xFFFFFE0000000000, ENTRY_AREA),
    (0xFFFFFE8000000000, OTHER),
    (IMAGE_AT, IMAGE),
    (0xFFFFFFFFFF000000, OTHER),
)


@dataclass(frozen=True)
class Layout:
    """First addresses of regions (uint64, ascending), and the region that begins at each, as an index into REGIONS."""

    first: np.ndarray
    region: np.ndarray

    def of(self, addresses: np.ndarray) -> np.ndarray:
        """Return the number of the region of each address (uint64)."""
        found: np.ndarray = self.region[np.searchsorted(self.first, addresses, side="right") - 1]
        return found


def layout(image_end: int = IMAGE_END, persistent: tuple[int, int] | None = None) -> Layout:
    """Return a kernel's regions; its image ends at `image_end`, `persistent` replaces the guest's persistent memory."""
    low, high = persistent or (qemu.DIRECT_MAP + qemu.PM_AT, qemu.DIRECT_MAP + qemu.PM_AT + qemu.PM_BYTES)
    found = sorted([*_FIXED, (low, PERSISTENT), (high, DIRECT_MAP), (image_end, MODULES)])
    return Layout(np.array([first for first, _ in found], np.uint64), np.array([which for _, which in found], np.int64))
