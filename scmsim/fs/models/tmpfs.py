"""Models tmpfs (Linux 5.13 or 6.1): the page cache is the file, in DRAM; a baseline without persistence.
Units: bytes, pages of 4096 bytes, instructions.
Source: Linux 5.13 mm/shmem.c, mm/filemap.c, fs/libfs.c; costs in tmpfs-5.13.toml and tmpfs-6.1.toml.
"""

from scmsim.fs.tmpfs import state
from scmsim.fs.tmpfs.operations import emit
from scmsim.fs.tmpfs.recipes import SITES
from scmsim.fs.tmpfs.state import space

__all__ = ["PARAMS", "SITES", "SOURCE", "SUMMARY", "emit", "space", "start"]

SUMMARY = "tmpfs: files are pages of the page cache, accounted and swappable; nothing is persistent"
SOURCE = "Linux 5.13 mm/shmem.c, mm/filemap.c, fs/libfs.c; costs measured on 5.13.13 (names: 6.1) and on 6.1"
PARAMS = {
    "capacity": ("64GiB", "bytes", "DRAM that the file system may use"),
    "kernel": ("5.13", "5.13|6.1", "kernel whose costs are charged"),
    "tick": ("1", "bool", "timer interrupts that fall into long reads, as on the measured machine (1 ns a byte)"),
}


def start(params, files):
    """State of an empty file system that knows the trace's files (see state.start)."""
    return state.start(params, files, table=f"tmpfs-{params['kernel']}", activates=True)
