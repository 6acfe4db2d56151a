"""Models SIMFS: each file has its own page table, hooked into the kernel's while the file is open; no index in software.
Units: bytes, pages and blocks of 4096 bytes.
Source: SIMFS with atomic updating (GitHub szllong123/simfsatomicupdating): file.c, pgtable.c, balloc.c, inode.c, namei.c, dir.c.
"""

from scmsim.fs.contiguous.recipes import SITES
from scmsim.fs.contiguous.state import space
from scmsim.fs.simfs.operations import emit
from scmsim.fs.simfs.state import start

__all__ = ["PARAMS", "SITES", "SOURCE", "SUMMARY", "emit", "space", "start"]

SUMMARY = "SIMFS: a page table of 4 KiB pages in each file, mapped while it is open; nothing is ordered"
SOURCE = "SIMFS with atomic updating, fs/simfs (file.c, pgtable.c, balloc.c, namei.c)"
PAGING = "own"  # its own page tables
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the persistent-memory device"),
    "update": ("in-place", "in-place|atomic", "writes: in place, or to a temporary file whose table entry is swapped"),
}
