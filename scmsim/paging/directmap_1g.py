"""Map persistent memory in the kernel's direct map with 1 GiB pages.

Units: bytes.  Source: Linux 5.1 mm/memremap.c and arch/x86/mm/init.c, split_mem_range(): a pmem range that starts at
a multiple of 1 GiB is mapped with 1 GiB pages if the CPU has them, otherwise with 2 MiB pages (a machine's
largest_page).
"""

from scmsim.paging import _linear
from scmsim.paging._linear import place as place

SUMMARY = "persistent memory in the direct map, 1 GiB pages (NOVA, ext4-DAX on a 1 GiB-aligned pmem device)"
SOURCE = "Linux 5.1 arch/x86/mm/init.c, split_mem_range(); Documentation/x86/x86_64/mm.txt"
PARAMS = {**_linear.PARAMS}
SMALLER = ("directmap-2m", "1GiB")  # policy that runs instead on a machine whose largest page is below this size


def start(params):
    """Return the state of the policy; see `_linear.start`."""
    return _linear.start(params, PARAMS, (_linear.DIRECT_MAP + _linear.PM_START, 1 << 30))
