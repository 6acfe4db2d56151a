"""Invalidate translations: of one page, a range, everything, or the address space that the CPU switches away from.

A range of more than 33 pages is flushed whole, as in Linux (arch/x86/mm/tlb.c, tlb_single_page_flush_ceiling).  For kernel
addresses Linux counts in 4 KiB pages, whatever maps them (flush_tlb_kernel_range), so a large page flushes everything.  INVLPG
and every flush also empty the page-walk caches (Intel SDM volume 3, 4.10.4.1).  A kernel address is invalidated on every CPU
(flush_tlb_kernel_range), a user address on the CPUs that run the program.  One multicast interrupts the other CPUs; it has a cost
for the first CPU and a smaller cost for each further CPU.  Alternatively, hardware broadcasts the invalidation
(`broadcast_pages`: INVLPGB, TLBI ..IS, RAR), and the sender waits until all CPUs are done.  Linux 6.15 broadcasts every range of
kernel addresses, and the ranges of a program that runs on at least `broadcast_from` CPUs (arch/x86/mm/tlb.c, broadcast_tlb_flush,
kernel_tlb_flush_range).
"""

from scmsim.jit import outlined, subroutine
from scmsim.mmu.columns import FLUSHES, INVALIDATION_CYCLES, INVALIDATIONS, SHOOTDOWNS
from scmsim.mmu.state import ADDRESS, ADDRESS_BITS, ASIDS, EMPTY, ROW_SHIFT
from scmsim.mmu.tlb import first_slot, free, way_of

_EVERYTHING = -1  # in place of an address space
_SMALL = 12  # log2 of the bytes of a small page


@outlined
def invalidate(s, c, vaddr, length, order, cpus):
    """Invalidate the pages (log2 size `order`) of [vaddr, vaddr + length), on `cpus` CPUs.

    If `cpus` is 0, invalidate on the CPUs that Linux would choose; if -1, do nothing: a later invalidation covers the pages.
    """
    at, kernel = c.at, vaddr < 0 and cpus == 0
    if cpus < 0:
        return
    if cpus == 0:
        cpus = s.cores if kernel else s.program_cpus
    space = s.space if vaddr >= 0 else 0
    first, last = vaddr >> order, (vaddr + length - 1) >> order
    pages = last - first + 1
    if vaddr < 0:  # Linux steps through kernel addresses by 4 KiB, whatever their page size
        pages = pages << order - _SMALL
    everything = pages > (s.kernel_ceiling if kernel else s.ceiling)
    if everything:
        flush(s, space if vaddr >= 0 else _EVERYTHING)
        at[FLUSHES] += 1
    else:
        # one entry may hold a piece of the page, so every (array, size) pair is searched
        start, span = first << order & ADDRESS, (last - first + 1) << order
        for k in range(s.held):
            remove(s, s.array[s.array_held[k]], s.order_held[k], start, span, space)
        # INVLPG empties the page-walk caches too
        empty_walk_caches(s)
        at[INVALIDATIONS] += pages
    if s.broadcast_pages > 0 and (kernel or cpus >= s.broadcast_from):
        requests = 1 if everything else (pages + s.broadcast_pages - 1) // s.broadcast_pages
        cycles = requests * s.broadcast_cycles + s.sync_cycles + (cpus - 1) * s.sync_cpu_cycles
    else:
        cycles = s.flush_cycles if everything else pages * s.invlpg_cycles
        at[SHOOTDOWNS] += cpus - 1
        if cpus > 1:
            cycles += s.shootdown_cycles + (cpus - 2) * s.shootdown_cpu_cycles
    at[INVALIDATION_CYCLES] += cycles


@subroutine
def remove(s, t, order, start, span, space):
    """Remove from array `t` the pages of 2**order bytes that overlap the addresses [start, start + span) of a space."""
    first, last = start >> order, (start + span - 1) >> order
    if last - first > t.sets * t.lanes:
        remove_scanning(s, t, first, last, order, space)
        return
    for page in range(first, last + 1):
        tag = (page << order & ADDRESS) | order | space
        at = first_slot(t, (tag & ADDRESS) >> order)
        way = way_of(s, t, tag, at)
        if way >= 0:
            free(s, t, at, way)


@subroutine
def remove_scanning(s, t, first, last, order, space):
    """Do `remove` by scanning the whole array: cheaper if the range has more pages than the array has slots."""
    for at in range(t.first, t.first + t.sets * t.lanes, t.lanes):
        # `free` moves later ways forward, so scan from the last way
        for way in range(t.ways - 1, -1, -1):
            tag = s.tag[at + way]
            page = (tag & ADDRESS) >> order
            if tag != EMPTY and tag & 31 == order and tag & ~ADDRESS == space and first <= page <= last:
                free(s, t, at, way)


@subroutine
def empty_walk_caches(s):
    """Empty the page-walk caches and the nested TLB."""
    tags = s.tag[s.walk_slots[0] : s.walk_slots[1]]
    marks = s.mark[s.walk_slots[0] : s.walk_slots[1]]
    for i in range(tags.size):
        tags[i] = EMPTY
    for i in range(marks.size):
        marks[i] = 0


@subroutine
def flush(s, space):
    """Remove all user pages of an address space, or everything (-1)."""
    for k in range(s.filled):
        at = s.filled_set[k]
        t = s.array[s.array_of[at >> ROW_SHIFT]]
        for way in range(t.ways - 1, -1, -1):
            tag = s.tag[at + way]
            user = tag >> (ADDRESS_BITS - 1) & 1 == 0
            if tag != EMPTY and (space < 0 or (user and tag & ~ADDRESS == space)):
                free(s, t, at, way)
        # after a flush of one space the set may still hold pages, so it stays in the list
        s.listed[at >> ROW_SHIFT] = space >= 0
    if space < 0:
        s.filled = 0
    empty_walk_caches(s)


@outlined
def switch(s, c, mm):
    """Switch to address space `mm`: use its PCID, or without PCIDs flush the user pages of the previous space."""
    for number in range(ASIDS if s.pcid else 1):
        if s.mm[number] == mm:
            s.space = number << ADDRESS_BITS
            return
    number = s.next_mm if s.pcid else 0
    s.next_mm = (number + 1) % ASIDS
    s.space = number << ADDRESS_BITS
    if s.mm[number] >= 0:
        flush(s, s.space)
        c.at[FLUSHES] += 1
        c.at[INVALIDATION_CYCLES] += s.flush_cycles
    s.mm[number] = mm
