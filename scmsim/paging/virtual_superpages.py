"""Map persistent memory by a separate page table whose entries a file system rewrites (VSM).

Units: bytes.  Source: VSM paper (2020), III.A and IV.A: one window over the whole device, a four-level table in persistent memory.
A MAP event sets the entries of its range (`entry_order` 21: 2 MiB, less: 4 KiB); without a MAP, entries map 4 KiB.
A REMAP event exchanges entries.  If it exchanges only a part of an aligned 2 MiB range, entries of 4 KiB map the range from then
on, and its pages are no longer contiguous in physical memory.
"""

import numpy as np

from scmsim.core.records import CONTIGUOUS, MAP, ORDER, PM, REMAP, SCM_TABLE, WORK
from scmsim.jit import kernel
from scmsim.paging import _linear

SUMMARY = "persistent memory in a virtual window; the file system rewrites its page table, which is in persistent memory (vsm)"
SOURCE = "VSM paper (2020), III.A, IV.A; Linux 5.1 Documentation/x86/x86_64/mm.txt"
PARAMS = {
    **_linear.PARAMS,
    "page_tables": ("scm", "dram|scm", "the memory that contains the page tables of persistent memory"),
}

LARGE = 21  # log2 of the larger page
WORD = 32  # bits per word of a bitmap
WORDS = (1 << 50 - LARGE) // WORD  # words of a bitmap for 1 PiB
# Two bitmaps with one bit per 2 MiB range of addresses.  `large`: one entry maps the range; `torn`: its pages are not contiguous.
STATE = np.dtype((np.record, [*_linear.STATE.descr, ("large", "u4", (WORDS,)), ("torn", "u4", (WORDS,))]))


def start(params):
    """Return the state of the policy; see `_linear.start`.  The used part of the bitmaps grows with the device."""
    linear = _linear.start(params, PARAMS, (_linear.VMALLOC, 4 << 10))
    state = np.zeros(1, STATE).view(np.recarray)
    for name in linear.dtype.names:
        state[name] = linear[name]
    return state


@kernel
def is_set(bits, piece):
    """Return bit `piece` of a bitmap; a piece is 2 MiB of addresses."""
    return bits[piece // WORD] >> (piece & WORD - 1) & 1


@kernel
def put(bits, piece, value):
    """Set bit `piece` of a bitmap if `value` is true, else clear it."""
    bit = np.uint32(1 << (piece & WORD - 1))
    bits[piece // WORD] = bits[piece // WORD] | bit if value else bits[piece // WORD] & ~bit


@kernel
def change(s, e):
    """Update the bitmaps for a MAP or REMAP event of a range of persistent memory."""
    mask = (1 << LARGE) - 1
    first, stop = e.addr >> LARGE, (e.addr + e.length + mask) >> LARGE
    torn = e.code == REMAP and (e.addr | e.length) & mask != 0
    for piece in range(first, min(stop, WORDS * WORD)):
        if e.code == MAP:
            put(s.large, piece, e.entry_order >= LARGE)
        if torn:
            put(s.large, piece, False)
            put(s.torn, piece, True)


@kernel
def place(state, events, n):
    """Fill in `vaddr` and `order` of the first `n` events; an event that spans several entries gets the size of the first."""
    s = state[0]
    for i in range(n):
        e = events[i]
        if e.order != 0:  # the file system of the event maps persistent memory itself
            e.order |= s.order[PM] & SCM_TABLE
            continue
        _linear.locate(s, e)
        if e.space != PM or e.code == WORK:
            continue
        if e.code == MAP or e.code == REMAP:
            change(s, e)
        piece = min(e.addr >> LARGE, WORDS * WORD - 1)
        if is_set(s.large, piece):
            e.order = (e.order & 255 - ORDER) | LARGE
        elif is_set(s.torn, piece):
            e.order &= 255 - CONTIGUOUS
