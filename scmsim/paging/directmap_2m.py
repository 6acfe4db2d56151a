"""Map persistent memory in the kernel's direct map with 2 MiB pages.

Units: bytes.  Source: Linux 5.1 arch/x86/mm/init.c, split_mem_range(): 2 MiB pages map a range
that is not aligned to 1 GiB, and every range on a CPU without 1 GiB pages or with `nogbpages`.
"""

from scmsim.paging import _linear
from scmsim.paging._linear import place as place

SUMMARY = "persistent memory in the direct map, 2 MiB pages (no 1 GiB alignment, or a CPU without 1 GiB pages)"
SOURCE = "Linux 5.1 arch/x86/mm/init.c, split_mem_range(); Documentation/x86/x86_64/mm.txt"
PARAMS = {**_linear.PARAMS}


def start(params):
    """Return the state of the policy; see `_linear.start`."""
    return _linear.start(params, PARAMS, (_linear.DIRECT_MAP + _linear.PM_START, 2 << 20))
