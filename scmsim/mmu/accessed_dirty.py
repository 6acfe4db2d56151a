"""Accessed and dirty bits of user pages: the MMU sets them with a locked write the first time (Intel SDM volume 3, 4.8).

Kernel mappings have both bits set from the start (Linux arch/x86/include/asm/pgtable_types.h, __PAGE_KERNEL), and Linux sets
both when a fault maps a user page.  So the model is off unless a machine enables it.  A table of 16 Ki regions of 64 pages
(4 GiB of small pages) remembers the bits of recently used pages.  If a region was evicted, the bits of its
pages are set, and counted, a second time.
"""

from scmsim.jit import outlined
from scmsim.mmu.columns import UPDATE_CYCLES, UPDATES
from scmsim.mmu.state import ADDRESS, REGIONS


@outlined
def note(s, c, vaddr, order, walked, store):
    """Set the accessed bit of a walked page, and the dirty bit of a stored page; count an update if a bit was clear."""
    page = (vaddr & ADDRESS | s.space) >> order
    region = page >> 6 | order << 56
    # the hash spreads pages of the same number in other address spaces, or of another size, over other rows
    row = (region * 0x1E3779B97F4A7C15 >> 48) & (REGIONS - 1)
    if s.region[row] != region:
        s.region[row], s.accessed[row], s.dirty[row] = region, 0, 0
    bit = 1 << (page & 63)
    # one locked write sets both bits
    fresh = (walked and s.accessed[row] & bit == 0) or (store and s.dirty[row] & bit == 0)
    s.accessed[row] |= bit
    if store:
        s.dirty[row] |= bit
    c.at[UPDATES] += fresh
    c.at[UPDATE_CYCLES] += fresh * s.update_cycles
