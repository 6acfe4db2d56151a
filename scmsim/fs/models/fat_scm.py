"""Models FAT on the SCM driver: page cache, two FATs, clusters of one 512-byte sector.
Units: bytes, instructions.
Source: Linux 2.6.24 fs/fat on the block driver of the SCM manager paper (section 4.1); costs in fat-scm.toml.
"""

from scmsim.fs.scm_manager import state
from scmsim.fs.scm_manager.operations import emit
from scmsim.fs.scm_manager.recipes import FAT, SITES
from scmsim.fs.scm_manager.state import FAT_LARGEST_FILE as LARGEST_FILE
from scmsim.fs.scm_manager.state import space

__all__ = ["LARGEST_FILE", "PARAMS", "SITES", "SOURCE", "SUMMARY", "emit", "space", "start"]

SUMMARY = "FAT on the SCM driver: page cache, two FATs, clusters of one 512-byte sector"
SOURCE = "Linux 2.6.24 fs/fat, fs/vfat on the block driver of the SCM manager paper, section 4.1; costs in fat-scm.toml"
PAGE_BYTES = 512
HOLES = False
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the SCM; the paper's board has 64MiB"),
    "boot": ("1MiB", "bytes", "the SCM driver's boot area"),
    "mount": ("async", "async|sync", "sync: every change is written to the device before its call ends"),
    "page_cache": ("warm", "warm|cold", "cold: file data is read from the device each time, as after a reboot"),
}


def start(params, files):
    """State of an empty file system that knows the trace's files (see state.start)."""
    return state.start(params, files, kind=FAT, shift=9)
