"""Map persistent memory in the direct map with the largest pages that the device's alignment and the CPU allow (Linux).

Units: bytes.  Source: Linux 5.1 mm/memremap.c and arch/x86/mm/init.c, split_mem_range(): 1 GiB pages map a range that
begins at a multiple of 1 GiB, if the CPU has them; otherwise 2 MiB pages map it.  A machine's largest page is the limit.
"""

from scmsim.core.errors import UsageError
from scmsim.core.units import format_bytes, parse_param
from scmsim.paging import _linear
from scmsim.paging._linear import place as place

SUMMARY = "persistent memory and DRAM in the kernel's direct map, with the page sizes that Linux chooses for each"
SOURCE = "Linux 5.1 arch/x86/mm/init.c, split_mem_range(); Documentation/x86/x86_64/mm.txt"
PARAMS = {
    "pm_page": ("1GiB", "bytes", "alignment of the persistent-memory device in the address space: 1GiB or 2MiB"),
    **_linear.PARAMS,
}


def start(params):
    """Return the state of the policy; see `_linear.start`."""
    page = params.get("pm_page", parse_param(*PARAMS["pm_page"][:2]))
    if page not in (2 << 20, 1 << 30):
        raise UsageError(f"pm_page = {format_bytes(int(page))}; use 2MiB or 1GiB")
    return _linear.start(params, PARAMS, (_linear.DIRECT_MAP + _linear.PM_START, page))
