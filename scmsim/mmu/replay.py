"""Events with addresses -> TLB and page-walk counters.

LOAD, STORE, NTSTORE, FETCH: one look-up per instruction (`width` bytes each), at least one per page touched; the
first access to each page goes through the TLB and the others hit the first level.  FLUSH translates too: one load
look-up per page, no retired load.  WORK: its instructions, loads and stores are counted as retired, not as look-ups
(they have no address); it fetches once from its text page.  UNMAP, REMAP and INVALIDATE remove their pages from every
TLB array and empty the page-walk caches.  FENCE and MAP change nothing.  Every look-up is a first-level hit, a
second-level hit or a completed walk.

A walk reads one page-table entry per level; a page-walk cache cuts off the upper levels, and the lowest one that has
the address is used (source: Intel SDM volume 3, 4.10.3.2; an entry that maps a page is not cached there).  One walker
at a time: a walk's cycles are its references x the cost of one.  5-level tables add one reference, without a cache of
their own.
"""

import numpy as np

from scmsim._jit import kernel, part
from scmsim.counters import SCHEMA
from scmsim.mmu.state import ADDRESS, EMPTY, SLOTS
from scmsim.mmu.tlb import free, recent, touch
from scmsim.records import FLUSH, MAP, MILLI, WORK

_COLUMNS = list(SCHEMA)
_ROW = np.dtype((np.record, [("at", "i8", (len(_COLUMNS),))]))  # a record of counters with numbered fields

_INSTRUCTIONS, _LOADS, _STORES = map(_COLUMNS.index, _COLUMNS[:3])
_LOOKUPS = _COLUMNS.index("dtlb_load_lookups")
_BLOCK = _COLUMNS.index("dtlb_store_lookups") - _LOOKUPS  # fields of a side
_HIT, _FAR_HIT, _WALKS, _SIZED, _PENDING, _ACTIVE = (
    _COLUMNS.index(f"dtlb_load_{name}") - _LOOKUPS
    for name in (
        "l1_hit",
        "misses_stlb_hit",
        "misses_walk_completed",
        "misses_walk_completed_4k",
        "misses_walk_pending",
        "misses_walk_active",
    )
)
_USER_LOOKUPS = _COLUMNS.index("dtlb_user_lookups")
_USER_FAR_HIT = _COLUMNS.index("dtlb_user_misses_stlb_hit")
_USER_WALKS = _COLUMNS.index("dtlb_user_misses_walk_completed")
_WALKER_LOADS = _COLUMNS.index("page_walker_loads")
_SHORTENED = _COLUMNS.index("page_walk_cache_hits")
_INVALIDATIONS = _COLUMNS.index("tlb_invalidations")
SUPPLIED = tuple(_COLUMNS[: _INVALIDATIONS + 1])  # the counters that the MMU adds to


def replay(state: np.ndarray, counters: np.ndarray, events: np.ndarray, bins: np.ndarray, n: int) -> None:
    """Replay the first `n` events and add to the counters.

    Parameters
    ----------
    state : array of state.MMU, shape (1,)
        From `mmu.machine`; changed.
    counters : array of counters.COUNTERS, shape (bins,)
        Changed; the counters of retired instructions are in thousandths (records.MILLI).
    events : array of records.EVENT
        With `vaddr` (bytes) and `order` filled in by a paging policy.
    bins : int64 array, shape (n,) or longer
        Row of `counters` that each event counts in.
    """
    rows = counters.view(np.ndarray).view(_ROW)
    _relate(rows, -1)
    _replay(state, rows, events, bins, n)
    _relate(rows, 1)


@kernel
def _replay(state, counts, events, bins, n):
    s = state[0]
    for i in range(n):
        e, c = events[i], counts[bins[i] & 0x7FFFFFFF]
        at, code, length, width, vaddr = c.at, e.code, e.length, e.width, e.vaddr
        page = s.page[code, e.order & 31]
        if code == WORK:
            at[_INSTRUCTIONS] += e.addr - length - width
            at[_LOADS] += length
            at[_STORES] += width
            length, width = 1, 0
        if length <= 0:
            continue
        if code > FLUSH and code != WORK:
            if code > MAP:
                _invalidate(s, c, vaddr, length, 3 + 9 * page.leaf)
            continue
        lookups = 1
        if (vaddr ^ (vaddr + length - 1)) & page.keep or not recent(s, page, vaddr & page.keep | page.code):
            lookups = _look_up(s, c, page, vaddr, length)
        accesses = (length + 7) >> 3
        if width != 8:
            accesses = (length + width - 1) // width if width > 0 else 0
        accesses &= page.by_width
        if accesses > lookups:
            lookups = accesses
        at[page.column & 63] += lookups
        if page.retired >= 0:
            at[page.retired & 63] += MILLI * accesses
        if vaddr >= 0:
            at[_USER_LOOKUPS] += lookups * page.split


@kernel
def _relate(counts, sign):
    """Let `l1_hit` stand for -misses and `instructions` for neither loads nor stores (sign -1), or undo it (sign 1).

    A look-up that hits then changes two counters instead of five.
    """
    for row in range(counts.size):
        at = counts[row].at
        at[_INSTRUCTIONS] += sign * (at[_LOADS] + at[_STORES])
        for column in range(_LOOKUPS, _LOOKUPS + 3 * _BLOCK, _BLOCK):
            at[column + _HIT] += sign * at[column]


@part
def _look_up(s, c, page, vaddr, length):
    """Look every page of [vaddr, vaddr + length) up; returns how many they are."""
    at, column, user, near = c.at, page.column, ~(vaddr >> 63) & page.split, s.array[page.near]
    first, last = vaddr >> page.order, (vaddr + length - 1) >> page.order
    for number in range(first, last + 1):
        start, order, level = number << page.order, page.far_order, page.leaf
        if touch(s, near, start & page.keep | page.code, page.order):
            continue
        at[column + _HIT] -= 1
        if page.far >= 0 and touch(s, s.array[page.far], start >> order << order & ADDRESS | page.far_code, order):
            at[column + _FAR_HIT] += 1
            at[_USER_FAR_HIT] += user
            continue
        entries, hit = 1, False
        while not hit and level < s.levels:
            a, order = s.cache[level + 1], 9 * level + 12
            hit = a >= 0 and touch(s, s.array[a], start >> order << order & ADDRESS, order)
            level += 1
            entries += not hit
        at[column + _WALKS] += 1
        at[column + _SIZED + page.leaf - 1] += 1
        at[_USER_WALKS] += user
        at[_WALKER_LOADS] += entries
        at[_SHORTENED] += hit
        # the instruction side has no column for 1 GiB pages
        at[column + _PENDING - 1 + page.split] += entries * s.ref_cycles
        at[column + _ACTIVE - 1 + page.split] += entries * s.ref_cycles
    return last - first + 1


@part
def _invalidate(s, c, vaddr, length, order):
    """Remove the pages (log2 size `order`) of [vaddr, vaddr + length) from every TLB array; empty all walk caches."""
    pages = ((vaddr + length - 1) >> order) - (vaddr >> order) + 1
    c.at[_INVALIDATIONS] += pages
    start, span = vaddr >> order << order & ADDRESS, pages << order
    for a in range(s.caches):
        t = s.array[a]
        for row in range(t.first, t.first + ((t.mask + 1) << t.spread), 1 << t.spread):
            if s.tag[row * SLOTS + (s.lru[row] & 15)] == EMPTY:
                continue  # the most recent slot is empty, so the set is
            for way in range(t.ways - 1, -1, -1):
                key = s.tag[row * SLOTS + way]
                page, bytes_ = key & -4, 4096 << 9 * (key & 3)
                # INVLPG empties the page-walk caches whatever its address (Intel SDM volume 3, 4.10.4.1)
                if key != EMPTY and (
                    a >= s.arrays or (page - start) & ADDRESS < span or (start - page) & ADDRESS < bytes_
                ):
                    free(s, t, row, way)
