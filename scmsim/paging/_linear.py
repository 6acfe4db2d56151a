"""Shared code of paging policies, which map each of SPACES in a linear window; only DRAM's direct map mixes page sizes.

A policy defines where persistent memory is mapped and with which pages; everything else is equal in all policies.  Addresses
are those of x86-64 with 4-level page tables, as signed 64-bit numbers (source: Linux 5.1 Documentation/x86/x86_64/mm.txt; KASLR,
which only shifts the windows, is not modelled).  A WORK event has amounts instead of an address; its `site` determines the page
of code that it runs in.

The kernel's objects are in the direct map of DRAM, whose pages Linux splits while it runs (arch/x86/mm/pat/set_memory.c).
/proc/meminfo has the bytes mapped with each page size (DirectMap4k, DirectMap2M, DirectMap1G), but not their addresses.  So each
size is spread evenly over the map: first the GiBs on 1 GiB pages, then the 2 MiB ranges on 4 KiB pages in the other GiBs.
"""

from collections.abc import Mapping

import numpy as np

from scmsim.core.errors import UsageError, unknown
from scmsim.core.records import CONTIGUOUS, KERNEL, ORDER, PM, SCM_TABLE, SPACES, STACK, TEXT, USER, WORK
from scmsim.core.units import format_bytes, parse_param
from scmsim.jit import kernel

DIRECT_MAP = 0xFFFF_8880_0000_0000 - (1 << 64)  # all physical memory
VMALLOC = 0xFFFF_C900_0000_0000 - (1 << 64)  # vmalloc and ioremap area
KERNEL_TEXT = 0xFFFF_FFFF_8100_0000 - (1 << 64)
MODULES = 0xFFFF_FFFF_A000_0000 - (1 << 64)
PM_START = 4 << 30  # physical address of persistent memory: above the 32-bit hole
DRAM_START = 32 << 40  # kernel objects are in the same window, too far above to overlap persistent memory
STACK_START = 16 << 40  # kernel stacks are in the vmalloc area (CONFIG_VMAP_STACK)
USER_BASE = 1 << 40  # a thread's buffers start at thread << 36 above this
SITE_BYTES = 16 << 10  # bytes of code for each mechanism (site) of a file system

# The default direct map is that of the emulated machine in which footprints were measured (Debian's 6.1 cloud kernel with 4 GiB of
# DRAM), read from its page tables (docs/validation/tlb.md).
PARAMS = {
    "user_page": ("4KiB", "bytes", "page size of the program's buffers: 4KiB or 2MiB"),
    "page_tables": ("dram", "dram|scm", "the memory that contains the page tables of persistent memory"),
    "text_page": ("2MiB", "bytes", "page size of the file system's code: 2MiB if built in, 4KiB if loaded as a module"),
    "direct_4k": (
        "16256KiB",
        "bytes",
        "amount of DRAM that the kernel maps with 4 KiB pages: DirectMap4k of /proc/meminfo",
    ),
    "direct_2m": (
        "4080MiB",
        "bytes",
        "amount of DRAM that the kernel maps with 2 MiB pages: DirectMap2M of /proc/meminfo",
    ),
    "direct_1g": ("0", "bytes", "amount of DRAM that the kernel maps with 1 GiB pages: DirectMap1G of /proc/meminfo"),
}

STATE = np.dtype(
    (
        np.record,
        [
            ("origin", "i8", (len(SPACES),)),
            ("order", "u1", (len(SPACES),)),
            ("site_bytes", "i8"),
            ("giant", "i8"),  # share of the direct map on pages of 1 GiB, in units of 1 / ALL
            ("small", "i8"),  # share of the rest on pages of 4 KiB, in units of 1 / ALL
        ],
    )
)
ALL = 1 << 32
SPREAD = 2654435769  # ALL / golden ratio, whose multiples modulo ALL are spread evenly


def start(params: Mapping[str, int], known: Mapping[str, tuple[str, str, str]], pm: tuple[int, int]) -> np.recarray:
    """Return the state of a policy.

    Parameters
    ----------
    params : mapping
        Parameter values (sizes in bytes); a missing parameter has its default.
    known : mapping
        The policy's PARAMS.
    pm : tuple of int
        Virtual base and page size (bytes) of persistent memory.
    """
    for name in params:
        if name not in known:
            raise unknown("parameter of this paging policy", name, known)
    value = {name: params.get(name, parse_param(default, unit)) for name, (default, unit, _) in known.items()}
    for name, allowed in (("user_page", (4 << 10, 2 << 20)), ("text_page", (4 << 10, 2 << 20))):
        if value[name] not in allowed:
            raise UsageError(f"{name} = {format_bytes(int(value[name]))}; use 4KiB or 2MiB")
    windows = {
        PM: pm,
        KERNEL: (DIRECT_MAP + DRAM_START, 2 << 20),
        USER: (USER_BASE, value["user_page"]),
        TEXT: (KERNEL_TEXT if value["text_page"] == 2 << 20 else MODULES, value["text_page"]),
        STACK: (VMALLOC + STACK_START, 4 << 10),
    }
    state = np.zeros(1, STATE).view(np.recarray)
    for space, (origin, page) in windows.items():
        state.origin[0, space], state.order[0, space] = origin, int(page).bit_length() - 1
    for space in (PM, KERNEL):  # windows onto physical memory, in which neighbouring pages are contiguous
        state.order[0, space] |= CONTIGUOUS
    if value["page_tables"] == "scm":
        state.order[0, PM] |= SCM_TABLE
    state.site_bytes = SITE_BYTES
    state.giant, state.small = shares(*(int(value[name]) for name in ("direct_4k", "direct_2m", "direct_1g")))
    return state


def shares(small: int, large: int, giant: int) -> tuple[int, int]:
    """Return the fields (giant, small) of STATE, from the bytes mapped by pages of 4 KiB, 2 MiB and 1 GiB."""
    total = small + large + giant
    if min(small, large, giant) < 0 or not total:
        raise UsageError("direct_4k, direct_2m and direct_1g are bytes of mapped DRAM; give at least one more than 0")
    return ALL * giant // total, ALL * small // max(1, small + large)


def measured_orders(state: np.ndarray, vaddr: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return log2 of the page sizes that the replay's kernel uses for addresses (int64) that a measured kernel maps by `order`.

    The replay's kernel may map a page of 2 MiB with 1 GiB.  It keeps pages of 4 KiB, because the measured kernel split them off
    for their contents or their neighbours; only a kernel whose direct map has no pages of 4 KiB maps them with 2 MiB.
    """
    direct = (vaddr >= DIRECT_MAP) & (vaddr < VMALLOC)
    order = np.where(direct & (order == 12) & (state["small"][0] == 0), np.uint8(21), order)
    giant = ((vaddr >> 30) & 0xFFFFFF) * SPREAD & ALL - 1 < state["giant"][0]
    return np.where(direct & (order == 21) & giant, np.uint8(30), order)


@kernel
def direct_order(s, vaddr):
    """Return log2 of the size of the page that maps an address of the direct map."""
    if ((vaddr >> 30) & 0xFFFFFF) * SPREAD & ALL - 1 < s.giant:
        return 30
    if ((vaddr >> 21) & 0xFFFFFFF) * SPREAD & ALL - 1 < s.small:
        return 12
    return 21


@kernel
def place(state, events, n):
    """Fill in `vaddr` and `order` of the first `n` events.

    An event that already has an order keeps its address, because its file system maps persistent memory itself.
    """
    s = state[0]
    for i in range(n):
        e = events[i]
        if e.order != 0:
            e.order |= s.order[PM] & SCM_TABLE
            continue
        locate(s, e)


@kernel
def locate(s, e):
    """Fill in the virtual address `vaddr` and the page `order` of an event."""
    e.order = s.order[e.space]
    e.vaddr = s.origin[e.space] + (e.site * s.site_bytes if e.code == WORK else e.addr)
    if e.space == KERNEL and e.code != WORK:
        e.order = (e.order & 255 - ORDER) | direct_order(s, e.vaddr)
