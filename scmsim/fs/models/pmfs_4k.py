"""Models PMFS with data blocks of 4 KiB: B-tree of blocks, undo journal, linear directories; data in place or copy-on-write.
Units: bytes, device blocks of 4096 bytes, instructions.
Source: PMFS (port to DAX kernels) fs/pmfs; data_path = cow: VSM paper, section IV.A; costs in pmfs-5.13.toml.
"""

from scmsim.fs.pmfs import state
from scmsim.fs.pmfs.operations import emit
from scmsim.fs.pmfs.recipes import SITES
from scmsim.fs.pmfs.state import by_file, space

__all__ = ["PARAMS", "SITES", "SOURCE", "SUMMARY", "by_file", "emit", "space", "start"]

SUMMARY = "PMFS with data blocks of 4 KiB: undo journal for metadata, data written in place or copy-on-write"
SOURCE = "PMFS fs/pmfs (xip.c, journal.c, inode.c, balloc.c, dir.c, namei.c); costs measured on a 5.13.13 port"
PAGE_BYTES = 1 << 12  # of a data block
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the persistent-memory device"),
    "data_path": ("in-place", "in-place|cow", "overwrites: in place (the code of PMFS), or copy-on-write (added by VSM's authors)"),
    "version": ("dax", "dax|original", "dax: cached copy and clwb; original: non-temporal copy, whole new edge blocks cleared"),
    "journal": ("4MiB", "bytes", "size of the undo journal"),
}  # fmt: skip


def start(params, files):
    """State of an empty file system that knows the trace's files (see state.start)."""
    return state.start(params, files, shift=12)
