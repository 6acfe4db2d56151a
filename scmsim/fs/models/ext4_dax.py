"""Models ext4 mounted with -o dax (Linux 5.13): data goes straight to persistent memory, metadata through jbd2.
Units: bytes, blocks of 4096 bytes, instructions.
Source: Linux fs/ext4, fs/jbd2, fs/dax.c, arch/x86/lib/usercopy_64.c; costs in ext4-5.13.toml.
"""

from scmsim.fs.ext4 import state
from scmsim.fs.ext4.operations import emit
from scmsim.fs.ext4.recipes import SITES
from scmsim.fs.ext4.state import LARGEST_FILE, TALLIES, quiet_until
from scmsim.fs.linux.state import by_file, space

__all__ = [
    "LARGEST_FILE",
    "PARAMS",
    "SITES",
    "SOURCE",
    "SUMMARY",
    "TALLIES",
    "by_file",
    "emit",
    "quiet_until",
    "space",
    "start",
]

SUMMARY = "ext4 with DAX: no page cache, new blocks are zeroed and then written, metadata goes through the journal"
SOURCE = "Linux 5.13 fs/ext4, fs/jbd2, fs/dax.c, arch/x86/lib/usercopy_64.c; costs measured on 5.13.13"
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the persistent-memory device"),
    "journal": ("0", "bytes", "size of the journal; 0: what mke2fs chooses for the capacity"),
    "commit_interval": ("5s", "time", "age at which a running transaction is committed (trace time)"),
    "dirty_expire": ("30s", "time", "age at which logged metadata is written back (trace time)"),
    "timestamp_tick": (
        "0ns", "time", "a file's times change at most once per tick of the trace's clock; 0: once per transaction",
    ),
    "tick": ("1", "bool", "timer interrupts that fall into long reads, as on the measured machine (1 ns a byte)"),
    "copy_fence": ("1", "bool", "the fence that ends the kernel's non-temporal copy (one a write, as measured); 0: leave it out"),
}  # fmt: skip


def start(params, files):
    """State of an empty file system that knows the trace's files (see state.start)."""
    return state.start(params, files, dax=True)
