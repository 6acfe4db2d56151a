"""Map persistent memory in a region of the kernel's ioremap area, as the original PMFS does.

Units: bytes.  Source: PMFS (linux-pmfs) super.c, `ioremap_hpage_cache`, and its lib/ioremap.c: page-table entries are as large as
the alignment of the region allows (1 GiB, 2 MiB or 4 KiB); with the mount option `nohugeioremap` they map 4 KiB.
"""

from scmsim.core.errors import UsageError
from scmsim.core.units import format_bytes
from scmsim.paging import _linear
from scmsim.paging._linear import place as place

SUMMARY = "persistent memory in an ioremap region, 1 GiB, 2 MiB or 4 KiB pages (the original PMFS)"
SOURCE = "PMFS super.c and lib/ioremap.c (linux-pmfs 3.11); Linux 5.1 Documentation/x86/x86_64/mm.txt"
PARAMS = {
    "pm_page": ("1GiB", "bytes", "page size of the region: 1GiB, 2MiB, or 4KiB (mount option nohugeioremap)"),
    **_linear.PARAMS,
}


def start(params):
    """Return the state of the policy; see `_linear.start`."""
    page = params.get("pm_page", 1 << 30)
    if page not in (4 << 10, 2 << 20, 1 << 30):
        raise UsageError(f"pm_page = {format_bytes(int(page))}; use 4KiB, 2MiB or 1GiB")
    return _linear.start(params, PARAMS, (_linear.VMALLOC, page))
