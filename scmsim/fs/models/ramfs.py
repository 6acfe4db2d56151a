"""Models ramfs (Linux 6.1): the page cache is the file, in DRAM; a baseline without persistence.
Units: bytes, pages of 4096 bytes, instructions.
Source: Linux 6.1 fs/ramfs, fs/libfs.c, mm/filemap.c; costs in ramfs-6.1.toml.
"""

from scmsim.fs.tmpfs import state
from scmsim.fs.tmpfs.operations import emit
from scmsim.fs.tmpfs.recipes import SITES
from scmsim.fs.tmpfs.state import space

__all__ = ["PARAMS", "SITES", "SOURCE", "SUMMARY", "emit", "space", "start"]

SUMMARY = "ramfs: files are pages of the page cache, no limit but the memory; nothing is persistent"
SOURCE = "Linux 6.1 fs/ramfs, fs/libfs.c, mm/filemap.c; costs measured on 6.1"
PARAMS = {
    "capacity": ("64GiB", "bytes", "DRAM that the file system may use"),
    "tick": ("1", "bool", "timer interrupts that fall into long reads, as on the measured machine (1 ns a byte)"),
}


def start(params, files):
    """State of an empty file system that knows the trace's files (see state.start)."""
    return state.start(params, files, table="ramfs-6.1", activates=False)
