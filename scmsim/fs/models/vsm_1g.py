"""Models VSM with virtual superpages of 1 GiB: PMFS with multi-grained copy-on-write and zero-copy migration; a reconstruction.
Units: bytes, device blocks of 4096 bytes, instructions.
Source: VSM paper (2020), sections III and IV.A; PMFS fs/pmfs for what it builds on; costs in pmfs-5.13.toml and vsm.toml.
"""

from scmsim.fs.vsm import state
from scmsim.fs.vsm.operations import emit
from scmsim.fs.vsm.recipes import SITES
from scmsim.fs.vsm.state import space

__all__ = ["PARAMS", "SITES", "SOURCE", "SUMMARY", "emit", "space", "start"]

SUMMARY = "VSM, virtual superpages of 1 GiB on PMFS: multi-grained copy-on-write, zero-copy migration (reconstruction)"
SOURCE = (
    "VSM paper (2020), III.A to III.C; its source is not public, so PMFS fs/pmfs and its measured costs for the rest"
)
PAGE_BYTES = 1 << 30  # of a virtual superpage
TAIL_BYTES = 1 << 12  # a closed file's last superpage is held by pages of this size
PAGING = "virtual-superpages"  # its page table, whose entries it swaps
PARAMS = {
    "capacity": ("64GiB", "bytes", "size of the persistent-memory device"),
    "entries": ("4KiB", "bytes", "what an entry of the page table maps before it is swapped: 4KiB (the paper) or 2MiB"),
    "version": ("dax", "dax|original", "PMFS underneath: cached copy and clwb (dax), or non-temporal copy (original)"),
    "journal": ("4MiB", "bytes", "size of PMFS's undo journal"),
}


def start(params, files):
    """State of an empty file system that knows the trace's files (see state.start)."""
    return state.start(params, files, shift=30)
