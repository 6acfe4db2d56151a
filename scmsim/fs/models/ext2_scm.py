"""Models ext2 on the SCM driver: page cache, blocks of 1 KiB, bitmaps, inode table, indirect blocks.
Units: bytes, instructions.
Source: Linux 2.6.24 fs/ext2 on the block driver of the SCM manager paper (section 4.1); costs in ext2-scm.toml.
"""

from scmsim.fs.scm_manager import state
from scmsim.fs.scm_manager.operations import emit
from scmsim.fs.scm_manager.recipes import EXT2, SITES
from scmsim.fs.scm_manager.state import space

__all__ = ["PARAMS", "SITES", "SOURCE", "SUMMARY", "emit", "space", "start"]

SUMMARY = "ext2 on the SCM driver: page cache, blocks of 1 KiB, bitmaps, inode table, indirect blocks"
SOURCE = "Linux 2.6.24 fs/ext2 on the block driver of the SCM manager paper, section 4.1; costs in ext2-scm.toml"
PAGE_BYTES = 1024
HOLES = True
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the SCM; the paper's board has 64MiB"),
    "boot": ("1MiB", "bytes", "the SCM driver's boot area"),
    "mount": ("async", "async|sync", "sync: every change is written to the device before its call ends"),
    "page_cache": ("warm", "warm|cold", "cold: file data is read from the device each time, as after a reboot"),
}


def start(params, files):
    """State of an empty file system that knows the trace's files (see state.start)."""
    return state.start(params, files, kind=EXT2, shift=10)
