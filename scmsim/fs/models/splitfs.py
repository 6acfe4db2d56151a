"""Models SplitFS: a user-space library that writes to memory-mapped files of ext4-DAX, and the kernel's ext4-DAX below it.
Units: bytes, blocks of 4096 bytes, instructions.
Source: SplitFS (utsaslab/SplitFS: splitfs/fileops_nvp.c, log.c; kernel fs/ext4/move_extent.c); costs in splitfs.toml.
"""

from scmsim.fs.ext4.state import LARGEST_FILE
from scmsim.fs.splitfs import state
from scmsim.fs.splitfs.driver import emit
from scmsim.fs.splitfs.recipes import SITES
from scmsim.fs.splitfs.state import space, unsynced

__all__ = ["LARGEST_FILE", "PARAMS", "SITES", "SOURCE", "SUMMARY", "emit", "space", "start", "unsynced"]

SUMMARY = (
    "SplitFS over ext4-DAX: data is written by the program into mapped and staging files, fsync relinks staged blocks"
)
SOURCE = "utsaslab/SplitFS (kernel 4.13); kernel part as ext4-dax on Linux 5.13; costs of the library are estimates"
PARAMS = {
    "mode": ("posix", "posix|sync|strict", "what is atomic and synchronous: nothing more than POSIX, all calls, data too"),
    "capacity": ("64GiB", "bytes", "size of the persistent-memory device"),
    "journal": ("0", "bytes", "size of the journal; 0: what mke2fs chooses for the capacity"),
    "staging": ("16MiB", "bytes", "staging space that is filled in advance; what is used beyond is filled when taken"),
    "operation_log": ("128MiB", "bytes", "size of the operation log and of the append log each; at most 1/32 of the capacity"),
    "commit_interval": ("5s", "time", "age at which a running transaction is committed (trace time)"),
    "dirty_expire": ("30s", "time", "age at which logged metadata is written back (trace time)"),
    "timestamp_tick": (
        "0ns", "time", "a file's times change at most once per tick of the trace's clock; 0: once per transaction",
    ),
    "tick": ("1", "bool", "timer interrupts that fall into long reads (1 ns a byte)"),
}  # fmt: skip


def start(params, files):
    """State of an empty file system that knows the trace's files (see state.start)."""
    return state.start(params, files)
