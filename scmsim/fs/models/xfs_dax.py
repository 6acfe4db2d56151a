"""Models XFS mounted with -o dax (Linux 5.13, mkfs.xfs with reflink=0): data goes straight to persistent memory.
Units: bytes, blocks of 4096 bytes, instructions.
Source: Linux fs/xfs, fs/dax.c, arch/x86/lib/usercopy_64.c; costs in xfs-5.13.toml.
"""

from scmsim.fs.xfs import state
from scmsim.fs.xfs.operations import emit
from scmsim.fs.xfs.recipes import SITES
from scmsim.fs.xfs.state import space

__all__ = ["PARAMS", "SITES", "SOURCE", "SUMMARY", "emit", "space", "start"]

SUMMARY = "XFS with DAX: new blocks are zeroed and then written, changed pieces of metadata go through the log (delayed logging)"
SOURCE = "Linux 5.13 fs/xfs, fs/dax.c, arch/x86/lib/usercopy_64.c; costs measured on 5.13.13"
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the persistent-memory device"),
    "log": ("0", "bytes", "size of the log; 0: what mkfs.xfs chooses for the capacity"),
    "allocation_groups": ("4", "int", "number of allocation groups"),
    "log_unit": ("4KiB", "bytes", "multiple to which a log write is rounded up (log stripe unit, else the sector: 512)"),
    "log_buffer": ("32KiB", "bytes", "size of one in-core log buffer (mount option logbsize)"),
    "crc32c": (
        "instruction", "instruction|table",
        "checksum of a log record: by the processor's instruction (crc32c-intel), or by tables (crc32c-generic, if loaded first)",
    ),
    "sync_interval": ("30s", "time", "period of the log worker: log force, then all metadata in place (xfssyncd_centisecs)"),
    "timestamp_tick": (
        "0ns", "time", "a file's times change at most once per tick of the trace's clock; 0: once per checkpoint",
    ),
    "tick": ("1", "bool", "timer interrupts that fall into long reads, as on the measured machine (1 ns a byte)"),
    "copy_fence": ("1", "bool", "the fence that ends the kernel's non-temporal copy (one a write, as measured); 0: leave it out"),
}  # fmt: skip


def start(params, files):
    """State of an empty file system that knows the trace's files (see state.start)."""
    return state.start(params, files)
