"""Persistent memory that the file system maps itself; the kernel's objects in the direct map with 1 GiB pages.

Units: bytes.  Source: SCMFS, SIMFS and ctFS, whose models give their events an address and a page size; this policy places what
they leave: the kernel's objects, the program's buffers, code and stacks.
"""

from scmsim.paging import _linear
from scmsim.paging._linear import place as place

SUMMARY = "persistent memory on the file system's own page tables (of scmfs, scmfs-lp, simfs and ctfs only)"
SOURCE = "SCMFS superpage paper (2013), section III; SIMFS and ctFS sources; Linux 5.1 Documentation/x86/x86_64/mm.txt"
PARAMS = {
    "user_page": ("4KiB", "bytes", "page of the program's buffers: 4KiB or 2MiB"),
    "page_tables": ("dram", "dram|scm", "where the page tables of persistent memory lie"),
    "text_page": ("2MiB", "bytes", "page of the file system's code: 2MiB if built in, 4KiB if loaded as a module"),
}


def start(params):
    """State of the policy; see `_linear.start`."""
    return _linear.start(params, PARAMS, (_linear.DIRECT_MAP + _linear.PM_START, 1 << 30), 1 << 30)
