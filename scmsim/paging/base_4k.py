"""Map persistent memory in the kernel's vmalloc area with 4 KiB pages, as file systems with one range per file do.

Units: bytes.  Source: SIMFS (SCMFS's open-source relative; its page tables hold 4 KiB entries in the vmalloc area), and
SCMFS itself before its superpage extension.
"""

from scmsim.paging import _linear
from scmsim.paging._linear import place as place

SUMMARY = "persistent memory in the vmalloc area, 4 KiB pages (SCMFS, SIMFS)"
SOURCE = "SIMFS source; SCMFS superpage paper (2013), section III; Linux 5.1 Documentation/x86/x86_64/mm.txt"
PARAMS = {**_linear.PARAMS}


def start(params):
    """Return the state of the policy; see `_linear.start`."""
    return _linear.start(params, PARAMS, (_linear.VMALLOC, 4 << 10))
