"""Models ext2 with the page cache on a RAM disk, a baseline of the SCMFS superpage paper (2013): everything lies in DRAM.
Units: bytes, blocks of 4096 bytes, instructions.
Source: Linux 5.13 fs/ext2, mm/filemap.c, drivers/block/brd.c; costs in ext2-ramdisk.toml.
"""

from scmsim.fs.ext2 import recipes, state
from scmsim.fs.ext2.operations import emit
from scmsim.fs.ext2.state import LARGEST_FILE, space

__all__ = ["LARGEST_FILE", "PARAMS", "SITES", "SOURCE", "SUMMARY", "emit", "space", "start"]

SUMMARY = "ext2 on a RAM disk: page cache and device both in DRAM (the direct map), so data is copied twice"
SOURCE = "Linux 5.13 fs/ext2, mm/filemap.c, drivers/block/brd.c; costs after those of ext2 on 6.1, see the table"
SITES = dict.fromkeys(recipes.SITES, "none")  # nothing is persistent
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the RAM disk"),
    "dirty_expire": ("30s", "time", "age at which dirty pages and metadata are written back (trace time)"),
    "timestamp_tick": (
        "0ns", "time", "a file's times change at most once per tick of the trace's clock; 0: once between two write-backs",
    ),
    "tick": ("1", "bool", "timer interrupts that fall into long reads, as on the measured machine (1 ns a byte)"),
}  # fmt: skip


def start(params, files):
    """State of an empty file system that knows the trace's files (see state.start)."""
    return state.start(params, files, table="ext2-ramdisk", dax=False, ram_disk=True)
