"""Map persistent memory with tailored page sizes: pages of any power of two, with one page-table entry each.

Units: bytes.  Source: thesis (University of Maine, 2020) 1.2.4, after Guvenilir and Patt, Tailored Page Sizes, ISCA 2020: pages
of 2**n bytes for all n from 12 up, with one entry per page.  No real CPU has such pages: use machine `tps`, whose TLBs hold any
page size; the TLBs of other machines hold such a page in pieces.
"""

from scmsim.core.errors import UsageError
from scmsim.core.units import format_bytes, parse_param
from scmsim.paging import _linear
from scmsim.paging._linear import place as place

SUMMARY = "persistent memory on pages of one tailored size, any power of two (machine tps)"
SOURCE = "Guvenilir and Patt, Tailored Page Sizes, ISCA 2020"
PARAMS = {
    "pm_page": ("64MiB", "bytes", "page size of persistent memory: a power of two from 4KiB to 1GiB"),
    **_linear.PARAMS,
}


def start(params):
    """Return the state of the policy; see `_linear.start`."""
    page = params.get("pm_page", parse_param(*PARAMS["pm_page"][:2]))
    if page < 4096 or page > 1 << 30 or page & (page - 1):
        raise UsageError(f"pm_page = {format_bytes(page)}; use a power of two from 4KiB to 1GiB")
    return _linear.start(params, PARAMS, (_linear.DIRECT_MAP + _linear.PM_START, page))
