"""Accessed and dirty bits of user pages: the MMU sets them with a locked write the first time (Intel SDM volume 3, 4.8).

Kernel mappings have both set from the start (Linux arch/x86/include/asm/pgtable_types.h, __PAGE_KERNEL), and Linux sets them
itself when a fault maps a user page.  So this is off unless a machine asks for it.  The bits of the pages used last are
remembered, in 16 Ki regions of 64 pages (4 GiB of small pages).  A page whose region was evicted counts again.
"""

from scmsim.jit import outlined
from scmsim.mmu.columns import UPDATE_CYCLES, UPDATES
from scmsim.mmu.state import ADDRESS, REGIONS


@outlined
def note(s, c, vaddr, order, walked, store):
    """A page was walked to or stored to: set its bits, counting those that were not set."""
    page = (vaddr & ADDRESS | s.space) >> order
    region = page >> 6 | order << 56
    # pages of the same number in other address spaces, or of another size, lie elsewhere
    row = (region * 0x1E3779B97F4A7C15 >> 48) & (REGIONS - 1)
    if s.region[row] != region:
        s.region[row], s.accessed[row], s.dirty[row] = region, 0, 0
    bit = 1 << (page & 63)
    fresh = (walked and s.accessed[row] & bit == 0) or (store and s.dirty[row] & bit == 0)  # one write sets both
    s.accessed[row] |= bit
    if store:
        s.dirty[row] |= bit
    c.at[UPDATES] += fresh
    c.at[UPDATE_CYCLES] += fresh * s.update_cycles
