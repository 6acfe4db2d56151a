"""Leave the mapping of persistent memory to the file system.

Units: bytes.  Source: SCMFS, SIMFS and ctFS, whose models set the address and page size of their events in persistent
memory.  This policy places all other events: the kernel's objects, the program's buffers, code and stacks.
"""

from scmsim.paging import _linear
from scmsim.paging._linear import place as place

SUMMARY = "persistent memory mapped by the file system's own page tables (only scmfs, scmfs-lp, simfs and ctfs)"
SOURCE = "SCMFS superpage paper (2013), section III; SIMFS and ctFS sources; Linux 5.1 Documentation/x86/x86_64/mm.txt"
PARAMS = {**_linear.PARAMS}


def start(params):
    """Return the state of the policy; see `_linear.start`."""
    return _linear.start(params, PARAMS, (_linear.DIRECT_MAP + _linear.PM_START, 1 << 30))
