"""Models NOVA of the Linux 5.1 lineage with in-place data updates: an overwrite journals and updates its write entry.
Units: bytes, blocks of 4096 bytes, instructions.
Source: NOVA fs/nova/dax.c (do_nova_inplace_file_write), journal.c, log.c, gc.c; costs in nova-5.13.toml.
"""

from scmsim.fs.nova import state
from scmsim.fs.nova.gc import collect
from scmsim.fs.nova.operations import emit
from scmsim.fs.nova.recipes import SITES
from scmsim.fs.nova.state import TALLIES, by_file, space

__all__ = ["PARAMS", "SITES", "SUMMARY", "TALLIES", "by_file", "collect", "emit", "space", "start"]

SUMMARY = "NOVA (Linux 5.1 lineage, its default): existing blocks are overwritten in place"
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the persistent-memory device"),
    "tick": ("1", "bool", "timer interrupts that fall into long reads, as on the measured machine (1 ns a byte)"),
    "inode_fence": (
        "1",
        "bool",
        "the inode's write-back after each commit ends with a fence, as in the port to Linux 5.13; 0: without",
    ),
}


def start(params, files):
    """State of an empty file system that knows the trace's files (see state.start)."""
    return state.start(params, files, inplace=True, counters=True, cost_table="nova-5.13")
