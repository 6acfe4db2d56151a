"""Persistent memory that the file system maps itself.

Units: bytes.  Source: SCMFS, SIMFS and ctFS, whose models give their events an address and a page size; this policy places what
they leave: the kernel's objects, the program's buffers, code and stacks.
"""

from scmsim.paging import _linear
from scmsim.paging._linear import place as place

SUMMARY = "persistent memory on the file system's own page tables (of scmfs, scmfs-lp, simfs and ctfs only)"
SOURCE = "SCMFS superpage paper (2013), section III; SIMFS and ctFS sources; Linux 5.1 Documentation/x86/x86_64/mm.txt"
PARAMS = {**_linear.PARAMS}


def start(params):
    """State of the policy; see `_linear.start`."""
    return _linear.start(params, PARAMS, (_linear.DIRECT_MAP + _linear.PM_START, 1 << 30))
