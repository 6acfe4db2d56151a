"""Models ext2 mounted with -o dax (Linux 5.13; 6.1, where the driver of ext4 serves it): no journal, pointer blocks.
Units: bytes, blocks of 4096 bytes, instructions.
Source: Linux fs/ext2, fs/dax.c (6.1: fs/ext4/indirect.c); costs in ext2-dax-5.13.toml and ext2-dax-6.1.toml.
"""

from scmsim.fs.ext2 import state
from scmsim.fs.ext2.operations import emit_by_either as emit
from scmsim.fs.ext2.recipes import SITES
from scmsim.fs.ext2.state import LARGEST_FILE, space

__all__ = ["LARGEST_FILE", "PARAMS", "SITES", "SOURCE", "SUMMARY", "emit", "space", "start"]

SUMMARY = "ext2 with DAX: no page cache and no journal; new blocks are zeroed and then written, pointer blocks stored by fsync"
SOURCE = (
    "Linux 5.13 fs/ext2, fs/dax.c, arch/x86/lib/usercopy_64.c; costs measured on 5.13.13 and on 6.1 (driver of ext4)"
)
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the persistent-memory device"),
    "kernel": ("5.13", "5.13|6.1", "5.13: ext2's own driver; 6.1: the driver of ext4 on an ext2 layout"),
    "dirty_expire": ("30s", "time", "age at which dirty metadata is stored in place (trace time)"),
    "timestamp_tick": (
        "0ns", "time", "a file's times change at most once per tick of the trace's clock; 0: once between two write-backs",
    ),
    "tick": ("1", "bool", "timer interrupts that fall into long reads, as on the measured machine (1 ns a byte)"),
    "copy_fence": ("1", "bool", "the fence that ends the kernel's non-temporal copy (one a run, as measured); 0: leave it out"),
}  # fmt: skip


def start(params, files):
    """State of an empty file system that knows the trace's files (see state.start)."""
    kernel = params["kernel"]
    return state.start(params, files, table=f"ext2-dax-{kernel}", dax=True, by_ext4=kernel == "6.1")
