"""Models ctFS: each file contiguous in a partition of the process's addresses; its persistent page table is the only index.
Units: bytes, pages and blocks of 4096 bytes.
Source: ctFS (GitHub robinlee09201/ctFS): ctfs_func.c, ctfs_inode.c, ctfs_pgg.c, ctfs_cpy.c, kernel/device.c.
"""

from scmsim.fs.contiguous.recipes import SITES
from scmsim.fs.contiguous.state import space
from scmsim.fs.ctfs.operations import emit
from scmsim.fs.ctfs.state import start

__all__ = ["PARAMS", "SITES", "SOURCE", "SUMMARY", "emit", "space", "start"]

SUMMARY = (
    "ctFS: files contiguous in partitions from 2 MiB in powers of 8, grown and written atomically by swapping entries"
)
SOURCE = "ctFS (FAST 2022), ctfs_func.c, ctfs_inode.c, ctfs_pgg.c, ctfs_cpy.c, kernel/device.c"
PAGE_BYTES = 2 << 20  # a file takes whole pieces of 2 MiB,
HOLES = False  # from its first byte to its last
PAGING = "own"  # its own page tables
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the persistent-memory device"),
    "update": (
        "in-place",
        "in-place|atomic",
        "writes: in place, or to a staging partition swapped with the file's pages",
    ),
}
