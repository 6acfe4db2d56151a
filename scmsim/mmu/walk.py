"""A page walk: which page-table entries it reads, where each comes from, how long it takes, on which walker.

A walk reads one entry per level.  A page-walk cache holds entries of one level that refer to a table; the walk starts
below the lowest cached entry for the address and does not read the levels above (Intel SDM volume 3, 4.10.3.2; AMD APM
volume 2, 5.5).  In a virtual machine each of the guest's entries, and at the end the page itself, has a guest-physical
address that the host's table translates: 24 references for four levels over four (Bhargava et al., ASPLOS 2008), minus
hits of the nested TLB.

The caches of the machine's [[walk_memory]] tables serve the entries, then DRAM or storage-class memory.  The caches
hold only lines of page-table entries (the preset states the assumed number of lines).  The tables of a level are
assumed to be one array with entry n at byte 8 n, so eight neighbours share a line.

Each look-up takes one cycle.  A walk starts when a walker is free; the program waits only for a free walker, so the walkers
overlap as much as possible: `walk_pending` is the sum over walkers, `walk_active` is the time with at least one walker busy.
"""

from scmsim.jit import outlined, subroutine
from scmsim.jit.memory import store_at
from scmsim.mmu.columns import (
    ACTIVE,
    LOADS_FROM,
    LOADS_OF_LEVEL,
    NESTED_LOADS,
    PENDING,
    SHORTENED,
    SHORTENED_AT,
    WALKER_LOADS,
)
from scmsim.mmu.state import ADDRESS
from scmsim.mmu.tlb import touch

LEVEL_BITS = 44  # key of a line of page-table entries: level << LEVEL_BITS | number of the line in the level
_HOST = 8  # added to the level of the host's tables
_DATA = 1 << 61  # distinguishes the guest-physical address of a page from that of a table
MEMORY = 3  # index of DRAM, after the caches


@outlined
def walk(s, c, page, vaddr, scm):
    """Walk the page table for the page at `vaddr`; `scm` is 1 if the table is in storage-class memory."""
    at = c.at
    address, space = vaddr & ADDRESS, s.space
    if vaddr < 0:
        space = 0
    # the lowest page-walk cache that has the address cuts off the levels above
    top = page.leaf
    while top < s.levels:
        a, order = s.walk_cache[top + 1], s.shift[top + 1]
        if a >= 0 and touch(s, s.array[a], address >> order << order | space, address >> order):
            at[SHORTENED] += 1
            at[SHORTENED_AT + top - 1] += 1
            break
        top += 1
    at[WALKER_LOADS] += top - page.leaf + 1
    cycles = 0
    for level in range(top, page.leaf - 1, -1):
        at[LOADS_OF_LEVEL + level - 1] += 1
        line = level << LEVEL_BITS | address >> s.shift[level] + 3
        # the guest's entry has a guest-physical address, which the host's table translates first
        if s.nested_levels > 0:
            cycles += nested_walk(s, c, line << 6, scm)
        cycles += reference(s, c, line | space, scm)
    if s.nested_levels > 0:
        cycles += nested_walk(s, c, address | _DATA, scm)
    # the instruction side has no counter for 1 GiB pages, so its columns are one earlier
    at[page.column + PENDING - 1 + page.split] += cycles
    at[page.column + ACTIVE - 1 + page.split] += busy(s, cycles)


@subroutine
def reference(s, c, line, scm):
    """Return the cycles to fetch a line of page-table entries from the caches or memory."""
    at = c.at
    if s.log != 0:
        note(s, line)
    if s.caches == 0:
        return s.memory_cycles
    for k in range(s.caches):
        if touch(s, s.array[s.cache[k]], line, line):
            at[LOADS_FROM + k] += 1
            return s.cache_cycles[k]
    at[LOADS_FROM + MEMORY + scm] += 1
    if scm:
        return s.scm_cycles
    return s.memory_cycles


@outlined
def note(s, line):
    """Add a line of page-table entries to the log."""
    if s.logged < s.log_room:
        store_at(s.log, 2 * s.logged, s.event)
        store_at(s.log, 2 * s.logged + 1, line)
    s.logged += 1


@outlined
def nested_walk(s, c, address, scm):
    """Return the cycles to translate a guest-physical address."""
    order = s.nested_order
    if s.nested >= 0 and touch(s, s.array[s.nested], address >> order << order, (address & ADDRESS) >> order):
        return 0
    cycles = 0
    for level in range(s.nested_levels, s.nested_leaf - 1, -1):
        c.at[WALKER_LOADS] += 1
        c.at[NESTED_LOADS] += 1
        cycles += reference(s, c, (level + _HOST) << LEVEL_BITS | (address & ADDRESS) >> s.shift[level] + 3, scm)
    return cycles


@subroutine
def busy(s, cycles):
    """Assign a walk to the walker that is free first; return by how many cycles the time with a busy walker grows."""
    w = 0
    for k in range(1, s.walkers):
        if s.free_at[k] < s.free_at[w]:
            w = k
    start = s.now
    if s.free_at[w] > start:
        start = s.free_at[w]
        s.now = start
    end = start + cycles
    s.free_at[w] = end
    if start < s.active_until:
        start = s.active_until
    if end <= start:
        return 0
    s.active_until = end
    return end - start
