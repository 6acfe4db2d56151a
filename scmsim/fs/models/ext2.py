"""Models an ext2 layout with the page cache on persistent memory, served by the driver of ext4 (Linux 6.1): no journal.
Units: bytes, blocks of 4096 bytes, instructions.
Source: Linux fs/ext4/{inode.c,indirect.c,fsync.c}, mm/filemap.c, drivers/nvdimm/pmem.c; costs in ext2-6.1.toml.
"""

from scmsim.fs.ext2 import state
from scmsim.fs.ext2.operations import emit_by_ext4 as emit
from scmsim.fs.ext2.recipes import SITES
from scmsim.fs.ext2.state import LARGEST_FILE, space

__all__ = ["LARGEST_FILE", "PARAMS", "SITES", "SOURCE", "SUMMARY", "emit", "space", "start"]

SUMMARY = (
    "ext2 layout with the page cache, by the driver of ext4: pointer blocks, blocks allocated in write(), no journal"
)
SOURCE = "Linux 6.1 fs/ext4/{inode.c,indirect.c,fsync.c}, mm/filemap.c, drivers/nvdimm/pmem.c; costs measured on 6.1"
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the persistent-memory device"),
    "dirty_expire": ("30s", "time", "age at which dirty pages and metadata are written back (trace time)"),
    "timestamp_tick": (
        "0ns", "time", "a file's times change at most once per tick of the trace's clock; 0: once between two write-backs",
    ),
    "tick": ("1", "bool", "timer interrupts that fall into long reads, as on the measured machine (1 ns a byte)"),
}  # fmt: skip


def start(params, files):
    """State of an empty file system that knows the trace's files (see state.start)."""
    return state.start(params, files, table="ext2-6.1", dax=False, by_ext4=True)
