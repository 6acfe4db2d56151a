"""Models SCMFS: each file contiguous in its own range of virtual addresses on pages of 4 KiB; the page table is the index.
Units: bytes, pages and blocks of 4096 bytes, nanoseconds.
Source: Qiu and Reddy, Exploiting superpages in a nonvolatile memory file system (2013), III to IV; a reconstruction.
"""

from scmsim.fs.contiguous import state
from scmsim.fs.contiguous.move import collect
from scmsim.fs.contiguous.operations import emit
from scmsim.fs.contiguous.recipes import SITES
from scmsim.fs.contiguous.state import space

__all__ = ["PARAMS", "SITES", "SOURCE", "SUMMARY", "collect", "emit", "space", "start"]

SUMMARY = "SCMFS (reconstruction): files contiguous in virtual memory on 4 KiB pages, found by the page table alone"
SOURCE = "Qiu and Reddy, Exploiting superpages in a nonvolatile memory file system, MSST 2013 (reconstruction)"
PAGING = "own"  # its own page tables
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the storage-class memory"),
    "preallocate": ("64KiB", "bytes", "pages that a growing file gets beyond what it needs, at most 2MiB"),
    "null_files": ("64", "files", "unlinked files that are kept, with their range and first pages, for new files"),
    "collect_above": ("64MiB", "bytes", "unused pages (preallocated, null files) above which the collector frees them"),
    "collect_every": ("1s", "time", "least time between two runs of the collector"),
}  # fmt: skip


def start(params, files):
    """State of an empty file system that knows the trace's files (see state.start)."""
    return state.start(params, files)
