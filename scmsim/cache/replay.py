"""Simulate the data caches: count, for events with addresses, the hits and misses of each level.

LOAD and STORE look up every line of their run once, whatever the width of an access (a rep-string is a run like any other); a
store allocates the line and makes it dirty.  NTSTORE bypasses the caches and evicts its lines.  FLUSH writes a dirty line back
and keeps it (clwb) or evicts it (clflushopt).  A prefetch (state.PREFETCHES) fills the second level like a load, but is counted
separately.  The loads and stores of WORK have no address, so they are counted as unchecked.  A page walk loads the lines of its
entries before the event that needs it.  In a real CPU instruction fetches and other cores use the caches too; they are not
modelled.

A line that misses is inserted into each level, from the nearest to the farthest; then the lines that it displaced are evicted,
from the farthest level to the nearest.

A line that leaves a level enters the next one if it is dirty, or if that level is exclusive.  A write-back is not a use, so it
does not change the order of the lines in the next level.  Source of these rules:
Hennessy and Patterson, Computer Architecture, 6th edition, appendix B (write-allocate, write-back); Intel SDM volume 1, 10.4.6
(non-temporal stores) and volume 2, CLWB, CLFLUSHOPT.
"""

import numpy as np

from scmsim.cache.level import clean, enter, fill_hole, first_slot, move_out, remove, slot_of
from scmsim.cache.state import (
    ADDRESS,
    AHEAD,
    EMPTY,
    EVICTED,
    EXCLUSIVE,
    FLUSHED,
    FLUSHED_LINES,
    FOUND,
    HIT,
    INCLUSIVE,
    L2,
    L3,
    LEVELS,
    MEMORY,
    NT_LINES,
    PER_SIDE,
    PM_BIT,
    PM_READ,
    PM_WRITTEN,
    PREFETCH,
    STREAM,
    STREAMS,
    UNCHECKED,
    WALK,
)
from scmsim.core.records import FETCH, FLUSH, KERNEL, LOAD, NTSTORE, PM, STORE, WORK
from scmsim.jit import inlined, kernel, outlined, subroutine
from scmsim.jit.vectors import fetch_ahead

_SOON = 8  # number of accesses in advance at which the host CPU prefetches slots of the last level
_PAGE_LINES = 64
_PM_LINE = PM_BIT >> 6
_DIRECTORY, _NEW_PAGE, _OPEN_FILE = 126, 127, 128  # values of a block's `cache`, as in footprint.interleave
_AREA, _BLOCKS = 40, 1  # log2 of an area's bytes, and the area of metadata blocks, as in footprint.settle
_NEW_PAGES = 16  # maximum number of distinct new pages of a call
OBJECTS = 1 << 48  # number of the first object's line, above the lines of all addresses and not in persistent memory
WALKS = 1 << 50  # number of the first line of page-table entries, above the lines of objects and of kernel addresses
_NUMBERS = (1 << 24) - 1
_BETWEEN = 17  # lines from one inode to the next; an inode has 1,088 bytes in ext4, 1,024 in XFS


@kernel
def simulate(caches, arena, counts, events, bins):
    """Run the events through the caches; add their counts to the rows `bins`."""
    s = caches[0]
    for i in range(events.size):
        take(s, arena, counts[bins[i]], events[i])


@kernel
def simulate_touched(caches, arena, counts, touched, slices, walked, events, bins, causes):
    """Do `simulate`; before each event, look up the lines of its slice of touches, then those that its page walks read.

    `touched` is (bounds, lines, blocks): fields of a footprint.FootprintTable, its blocks as state.BLOCK.  The lines of a block
    are counted in the row in `causes` of the event, plus the row of the block.  `slices` are records.SLICE in the order of their
    events.  `walked` has the lines that walks read (mmu.state.LOGGED).
    """
    s, k, w = caches[0], 0, 0
    bounds, which, blocks = touched
    for i in range(events.size):
        if k < slices.size and slices[k].event == i and events[i].op != s.op:
            s.op, s.new_pages, s.is_used = events[i].op, s.new_pages + _NEW_PAGES * s.is_used, 0
            if s.sums_commits and slices[k].block != 0:
                sum_blocks(s, arena, counts, events, i, bins)
        while k < slices.size and slices[k].event == i:
            for at in range(bounds[slices[k].first], bounds[slices[k].end]):
                block = blocks[which[at]]
                touch(s, arena, counts[causes[i] + block.row], block, slices[k])
            k += 1
        while w < walked.size and walked[w].event == i:
            read_entry(s, arena, counts[bins[i]], WALKS | walked[w].line & WALKS - 1)
            w += 1
        take(s, arena, counts[bins[i]], events[i])


@outlined
def sum_blocks(s, arena, counts, events, first, bins):
    """Look up the metadata blocks that the operation of event `first` commits, before its events look them up again.

    jbd2 first computes the checksums of all blocks (jbd2_journal_write_metadata_buffer), then copies them to the journal.
    """
    i = first
    while i < events.size and events[i].op == s.op:
        e = events[i]
        if e.space == KERNEL and e.code == LOAD and e.length > 0 and e.addr >> _AREA == _BLOCKS:
            take(s, arena, counts[bins[i]], e)
        i += 1


@outlined
def read_entry(s, arena, c, line):
    """Look up a line of page-table entries for a walk, like a load that the prefetcher does not see."""
    c.at[WALK] += 1
    gone = enter(arena, s.level[0], line << 1)
    if gone == FOUND:
        c.at[WALK + HIT] += 1
    else:
        miss(s, arena, c, line << 1, WALK, gone)


@inlined
def touch(s, arena, c, block, piece):
    """Look up a block's lines, which are in its page, in a slice's inode or open file, or in a page that is new in the call."""
    first, at, lines = (block.vaddr & ADDRESS) >> 6, 0, block.lines
    if block.cache == _NEW_PAGE:
        number = (s.new_pages + block.vaddr % _NEW_PAGES) & _NUMBERS
        s.is_used = 1
        first = OBJECTS + (block.cache << 24 | number) * _PAGE_LINES
    elif block.cache == _DIRECTORY:
        if piece.block != 0:
            first = (piece.block & ADDRESS) >> 6
    elif block.cache != 0:
        number = piece.objects[1] if block.cache >= _OPEN_FILE else piece.objects[0]
        # each object has its own page; objects begin on different lines of their pages, as in a slab
        first, at = OBJECTS + (block.cache << 24 | number) * _PAGE_LINES, number * _BETWEEN
    while lines != 0:
        if lines & np.uint64(1):
            look_up(s, arena, c, first + (at & _PAGE_LINES - 1), block.store != 0)
        lines >>= np.uint64(1)
        at += 1


@kernel
def simulate_lines(caches, arena, counts, codes, addresses):
    """Look up one access at each address; ignore addresses whose code is not LOAD or STORE."""
    s, c = caches[0], counts[0]
    last = s.level[s.levels - 1]
    for i in range(addresses.size):
        if codes[i] == LOAD or codes[i] == STORE:
            is_hit = look_up(s, arena, c, (addresses[i] & ADDRESS) >> 6, codes[i] == STORE)
            # prefetch into the host CPU's caches, which are smaller than the slots of the last level: after a miss, more misses
            # are likely
            if not is_hit and i + _SOON < addresses.size:
                at = first_slot(last, (addresses[i + _SOON] & ADDRESS) >> 6 << 1)
                fetch_ahead(arena, at)
                fetch_ahead(arena, at + last.ways - 1)


@subroutine
def take(s, arena, c, e):
    """Run one event through the caches; a strided run is processed page by page."""
    if e.code == WORK:
        c.at[UNCHECKED] += e.loads + e.stores
    if e.code > FLUSH or e.code == FETCH or e.length <= 0:
        return
    start = e.vaddr & ADDRESS
    if s.by_device and e.space == PM:
        start = e.addr | PM_BIT
    if e.negated_page_bytes >= 0:
        take_run(s, arena, c, e, start, start + e.length)
        return
    end = start + e.length
    while start < end:
        take_run(s, arena, c, e, start, start - e.negated_page_bytes)
        start += 4096


@subroutine
def take_run(s, arena, c, e, start, end):
    """Look up, bypass (NTSTORE) or flush each line of the bytes [start, end), according to the event's code."""
    for line in range(start >> 6, (end - 1 >> 6) + 1):
        if e.code <= STORE:
            look_up(s, arena, c, line, e.code == STORE)
        elif e.code == NTSTORE:
            c.at[NT_LINES] += 1
            c.at[PM_WRITTEN] += line >= _PM_LINE
            is_whole = start <= line << 6 and line + 1 << 6 <= end
            # a store of the whole line replaces its dirty bytes, so they are not written back
            if drop(s, arena, line << 1) and not is_whole:
                write_back(c, line << 1, EVICTED)
        else:
            c.at[FLUSHED_LINES] += max(1, e.flush_count)
            flush(s, arena, c, line << 1)


@inlined
def look_up(s, arena, c, line, is_store):
    """Look up a line for a load or store; return whether the first level has it."""
    side = PER_SIDE * is_store
    c.at[side] += 1
    gone = enter(arena, s.level[0], line << 1 | is_store)
    if gone == FOUND:
        c.at[side + HIT] += 1
        return True
    miss(s, arena, c, line << 1, side, gone)
    if s.prefetch:
        fetch_others(s, arena, c, line)
    return False


@outlined
def fetch_others(s, arena, c, line):
    """Bring the lines that the prefetcher expects after a miss into the second level."""
    count = 1
    if s.prefetch == STREAM:
        count = AHEAD * follows(s, line)
    last = min(line + count, line | _PAGE_LINES - 1)
    for ahead in range(line + 1, last + 1):
        c.at[PREFETCH] += 1
        if slot_of(arena, s.level[0], ahead << 1) >= 0:
            c.at[PREFETCH + HIT] += 1
        else:
            miss(s, arena, c, ahead << 1, PREFETCH, EMPTY)


@inlined
def follows(s, line):
    """Return whether the latest miss in the page of `line` was on the line before; record `line` as the latest."""
    for k in range(STREAMS):
        if s.stream[k] >= 0 and (s.stream[k] ^ line) < _PAGE_LINES:
            is_next = s.stream[k] == line - 1
            s.stream[k] = line
            return is_next
    s.stream[s.next_stream] = line
    s.next_stream = (s.next_stream + 1) % STREAMS
    return False


@inlined
def miss(s, arena, c, entry, side, gone):
    """Look up a line that missed in the first level in the other levels; the first level has evicted the entry `gone` for it."""
    near = far = EMPTY
    if s.levels > 1:
        near = enter(arena, s.level[1], entry)
        c.at[side + L2] += 1
    if near == FOUND:
        c.at[side + L2 + HIT] += 1
    else:
        far = look_up_last(s, arena, c, entry, side)
        if far >= 0:
            near, gone = leave_last(s, arena, c, far, near, gone)
        if near >= 0:
            if s.level[1].holds == INCLUSIVE and (near ^ gone) >> 1 == 0:
                near, gone = near | gone, EMPTY
            leave(s, arena, c, 1, near)
    if gone >= 0 and (gone & 1 or s.levels == 1 or s.level[1].holds == EXCLUSIVE):
        leave(s, arena, c, 0, gone)


@inlined
def look_up_last(s, arena, c, entry, side):
    """Look up a line in the third level, if there is one; return the entry that it evicts, FOUND or EMPTY."""
    if s.levels == LEVELS:
        t = s.level[2]
        c.at[side + L3] += 1
        if t.holds == EXCLUSIVE:
            dirty = move_out(arena, t, entry)
            if dirty >= 0:
                arena[first_slot(s.level[1], entry)] |= dirty  # the line is at the front of its set in the second level
                c.at[side + L3 + HIT] += 1
                return FOUND
            far = EMPTY
        else:
            far = enter(arena, t, entry)
            if far == FOUND:
                c.at[side + L3 + HIT] += 1
                return FOUND
    else:
        far = EMPTY
    c.at[side + MEMORY] += 1
    c.at[PM_READ] += entry >> 1 >= _PM_LINE
    return far


@inlined
def leave_last(s, arena, c, far, near, gone):
    """Move the entry `far` out of the third level; return the entries that must still leave the second and first level."""
    if s.level[2].holds == INCLUSIVE:
        if (far ^ near) >> 1 == 0:
            far, near = far | near, EMPTY
        if (far ^ gone) >> 1 == 0:
            far, gone = far | gone, EMPTY
    leave(s, arena, c, 2, far)
    return near, gone


@subroutine
def leave(s, arena, c, k, entry):
    """Move an entry that level `k` evicted to the next level or to memory; repeat for the entry that this evicts."""
    while True:
        if s.level[k].holds == INCLUSIVE:
            entry |= recall(s, arena, k, entry)
        k += 1
        if k == s.levels:
            if entry & 1:
                write_back(c, entry, EVICTED)
            return
        t = s.level[k]
        if not (entry & 1 or t.holds == EXCLUSIVE):
            return
        slot = slot_of(arena, t, entry)
        if slot >= 0:  # a write-back is not a use, so the line does not move to the front of its set
            arena[slot] |= entry & 1
            return
        entry = fill_hole(arena, t, entry) if t.holds == EXCLUSIVE else enter(arena, t, entry)
        if entry == EMPTY:
            return


@inlined
def recall(s, arena, k, entry):
    """Remove a line from the levels nearer than `k`; return 1 if the line was dirty in one of these levels."""
    dirty = 0
    for near in range(k):
        dirty |= remove(arena, s.level[near], entry) > 0
    return dirty


@outlined
def drop(s, arena, entry):
    """Remove a line from all levels; return 1 if the line was dirty in any level."""
    return recall(s, arena, s.levels, entry)


@outlined
def flush(s, arena, c, entry):
    """Write a line back if it is dirty; evict the line unless the instruction keeps lines."""
    if s.keeps:
        dirty = 0
        for k in range(s.levels):
            dirty |= clean(arena, s.level[k], entry)
    else:
        dirty = drop(s, arena, entry)
    if dirty:
        write_back(c, entry, FLUSHED)


@inlined
def write_back(c, entry, cause):
    """Count the write-back of a dirty line to memory."""
    c.at[cause] += 1
    c.at[PM_WRITTEN] += entry >> 1 >= _PM_LINE
