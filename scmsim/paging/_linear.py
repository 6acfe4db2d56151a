"""Mapping policies in which each space of addresses is one linear window with one page size.

A policy file is a table: for each space a virtual base and a page size.  Addresses follow x86-64 with 4-level page
tables, as signed 64-bit numbers (source: Linux 5.1 Documentation/x86/x86_64/mm.txt; KASLR, left out, only shifts the
windows).  A WORK event has amounts where others have an address: its text page follows from `site`.
"""

from collections.abc import Mapping

import numpy as np

from scmsim.core.errors import UsageError, unknown
from scmsim.core.records import CONTIGUOUS, KERNEL, PM, SCM_TABLE, SPACES, STACK, TEXT, USER, WORK
from scmsim.core.units import format_bytes, parse_param
from scmsim.jit import kernel

DIRECT_MAP = 0xFFFF_8880_0000_0000 - (1 << 64)  # all physical memory
VMALLOC = 0xFFFF_C900_0000_0000 - (1 << 64)
KERNEL_TEXT = 0xFFFF_FFFF_8100_0000 - (1 << 64)
MODULES = 0xFFFF_FFFF_A000_0000 - (1 << 64)
PM_START = 4 << 30  # physical address of persistent memory: above the 32-bit hole
DRAM_START = 32 << 40  # kernel objects lie in the same window, so far above that neither grows into the other
STACK_START = 16 << 40  # kernel stacks lie in the vmalloc area (CONFIG_VMAP_STACK)
USER_BASE = 1 << 40  # a thread's buffers lie at thread << 36 above this
SITE_BYTES = 16 << 10  # text of one mechanism of a file system

STATE = np.dtype((np.record, [("origin", "i8", (len(SPACES),)), ("order", "u1", (len(SPACES),)), ("site_bytes", "i8")]))


def start(
    params: Mapping[str, int], known: Mapping[str, tuple[str, str, str]], pm: tuple[int, int], kernel_page: int
) -> np.recarray:
    """State of a policy.

    Parameters
    ----------
    params : mapping
        Parameter values (sizes in bytes); a missing one has its default.
    known : mapping
        The policy's PARAMS.
    pm : tuple of int
        Virtual base and page size (bytes) of persistent memory.
    kernel_page : int
        Page size (bytes) of kernel objects in DRAM.
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
        KERNEL: (DIRECT_MAP + DRAM_START, kernel_page),
        USER: (USER_BASE, value["user_page"]),
        TEXT: (KERNEL_TEXT if value["text_page"] == 2 << 20 else MODULES, value["text_page"]),
        STACK: (VMALLOC + STACK_START, 4 << 10),
    }
    state = np.zeros(1, STATE).view(np.recarray)
    for space, (origin, page) in windows.items():
        state.origin[0, space], state.order[0, space] = origin, int(page).bit_length() - 1
    for space in (PM, KERNEL):  # one window onto physical memory
        state.order[0, space] |= CONTIGUOUS
    if value["page_tables"] == "scm":
        state.order[0, PM] |= SCM_TABLE
    state.site_bytes = SITE_BYTES
    return state


@kernel
def place(state, events, n):
    """Fill in `vaddr` and `order` of the first `n` events.

    An event that has an order already keeps its address: its file system maps persistent memory itself.
    """
    s = state[0]
    for i in range(n):
        e = events[i]
        if e.order != 0:
            e.order |= s.order[PM] & SCM_TABLE
            continue
        e.order = s.order[e.space]
        e.vaddr = s.origin[e.space] + (e.site * s.site_bytes if e.code == WORK else e.addr)
