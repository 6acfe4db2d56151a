"""Models SIMFS: each file has its own page table, hooked into the kernel's while the file is open; no index in software.
Units: bytes, pages and blocks of 4096 bytes.
Source: SIMFS with atomic updating (GitHub szllong123/simfsatomicupdating): file.c, pgtable.c, balloc.c, inode.c, namei.c, dir.c.
"""

from scmsim.fs.parts import contiguous_state
from scmsim.fs.parts.contiguous_emit import emit
from scmsim.fs.parts.contiguous_move import collect
from scmsim.fs.parts.contiguous_recipes import SITES
from scmsim.fs.parts.contiguous_state import space

__all__ = ["PARAMS", "SITES", "SOURCE", "SUMMARY", "collect", "emit", "space", "start"]

SUMMARY = "SIMFS: a page table of 4 KiB pages in each file, mapped while it is open; nothing is ordered"
SOURCE = "SIMFS with atomic updating, fs/simfs (file.c, pgtable.c, balloc.c, namei.c)"
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the persistent-memory device"),
    "update": ("in-place", "in-place|atomic", "writes: in place, or to a temporary file whose table entry is swapped"),
}


def start(params, files):
    """State of an empty file system that knows the trace's files (see contiguous_state.start)."""
    return contiguous_state.start(params, files, embedded=True)
