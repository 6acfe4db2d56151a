"""Models the original NOVA: 40-byte write entries, 101 a log page, no page counters, copy-on-write data, full scan at extension.
Units: bytes, blocks of 4096 bytes, instructions.
Source: NOVA (FAST'16 release) inode.c (nova_inode_log_garbage_collection, curr_page_invalid), dax.c; costs as in 5.13 (see there).
"""

from scmsim.fs.nova import state
from scmsim.fs.nova.gc import collect
from scmsim.fs.nova.operations import emit
from scmsim.fs.nova.recipes import SITES
from scmsim.fs.nova.state import TALLIES, by_file, space

__all__ = ["PARAMS", "SITES", "SUMMARY", "TALLIES", "by_file", "collect", "emit", "space", "start"]

SUMMARY = "NOVA as published at FAST 2016: 40-byte entries, every log extension scans all entries"
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the persistent-memory device"),
    "tick": ("1", "bool", "timer interrupts that fall into long reads, as on the measured machine (1 ns a byte)"),
}


def start(params, files):
    """State of an empty file system that knows the trace's files (see state.start)."""
    return state.start(params, files, inplace=False, counters=False, cost_table="nova-5.13")
