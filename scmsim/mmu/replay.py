"""Events with addresses -> TLB and page-walk counters.

LOAD, STORE, NTSTORE and FETCH make one look-up per instruction (of `bytes_per_access` bytes), at least one per page touched.  The
first look-up of each page goes through the TLBs; the further look-ups of that page count as first-level hits.  FLUSH makes one
load look-up per page and retires no load.  WORK: its instructions, loads and stores count as retired, not as look-ups (they have
no address); it fetches once from its text page.  UNMAP, REMAP and INVALIDATE invalidate their pages on `cpu_count` CPUs;
INVALIDATE without a length switches to address space `address_space` - 1.  FENCE and MAP change nothing.  Every look-up is a
first-level hit, a second-level hit or a completed walk.
"""

import numpy as np

from scmsim.core.records import FLUSH, INVALIDATE, MAP, MILLI, SLICE, WORK
from scmsim.jit import inlined, kernel, subroutine
from scmsim.mmu import accessed_dirty
from scmsim.mmu.columns import BLOCK, HIT, INSTRUCTIONS, LOADS, LOOKUPS, ROW, STORES, USER_LOOKUPS
from scmsim.mmu.columns import SUPPLIED as SUPPLIED
from scmsim.mmu.invalidate import invalidate, switch
from scmsim.mmu.state import BOTH, LRU, SLOTS
from scmsim.mmu.tlb import LANES, touch_short
from scmsim.mmu.touches import NOTHING, Table, look_up_touches
from scmsim.mmu.translate import missed, translate


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
        For each event, the row of `counters` to which it adds.
    """
    replay_touched(state, counters, NOTHING, NO_SLICES, events[:n], bins)


def replay_touched(
    state: np.ndarray, counters: np.ndarray, known: Table, slices: np.ndarray, events: np.ndarray, bins: np.ndarray
) -> None:
    """Replay events as `replay` does; before an event that has a slice of the touch table `known`, look up those touches.

    `slices` is an array of records.SLICE in the order of their events; `known` was prepared for the machine of `state`.
    """
    rows = counters.view(np.ndarray).view(ROW)
    relate(rows, -1)
    _replay(state, rows, known, slices, events, bins)
    relate(rows, 1)


NO_SLICES = np.zeros(0, SLICE)


@kernel
def _replay(state, counts, known, slices, events, bins):
    s, k = state[0], 0
    sliced = slices[0].event if slices.size > 0 else -1
    for i in range(events.size):
        c = counts[bins[i] & 0x7FFFFFFF]
        s.event = i
        if i == sliced:
            look_up_touches(s, c, known, slices[k])
            k += 1
            sliced = slices[k].event if k < slices.size else -1
        take(s, c, events[i])


@inlined
def take(s, c, e):
    """Replay one event."""
    at, code, length, width, vaddr = c.at, e.code, e.length, e.bytes_per_access, e.vaddr
    page = s.page[code, e.order & 63]
    if code == WORK:
        at[INSTRUCTIONS] += e.instructions - e.loads - e.stores
        at[LOADS] += e.loads
        at[STORES] += e.stores
        length, width = 1, 0
    elif code > FLUSH:
        if code > MAP:
            if length > 0:
                invalidate(s, c, vaddr, length, page.walk_order, e.cpu_count)
            elif code == INVALIDATE and e.address_space > 0:
                switch(s, c, e.address_space - 1)
        return
    if length <= 0:
        return
    lookups = 1
    # most events stay within one page, and most of those repeat the page used last in the set
    if (vaddr ^ (vaddr + length - 1)) >> page.order != 0:
        lookups = look_up(s, c, page, vaddr, length, e.order)
    elif not is_first(s, page, vaddr):
        look_up_one(s, c, page, vaddr, length, e.order)
    if width > 0:
        accesses = ((length + 7) >> 3 if width == 8 else (length + width - 1) // width) & page.by_width
        lookups = max(lookups, accesses)
        if page.retired >= 0:
            at[page.retired & 63] += MILLI * accesses
    at[page.column & 63] += lookups
    s.now += lookups
    if vaddr >= 0:
        at[USER_LOOKUPS] += lookups * page.split


@kernel
def relate(counts, sign):
    """Turn two counters into differences before events are replayed (sign -1), or turn them back afterwards (sign 1).

    `l1_hit` becomes hits - look-ups, `instructions` becomes instructions - loads - stores.  A look-up that hits then changes
    two counters instead of five.
    """
    for row in range(counts.size):
        at = counts[row].at
        at[INSTRUCTIONS] += sign * (at[LOADS] + at[STORES])
        for column in range(LOOKUPS, LOOKUPS + 3 * BLOCK, BLOCK):
            at[column + HIT] += sign * at[column]


@inlined
def is_first(s, page, address):
    """Return whether the page was used last in its first-level set.

    Most look-ups are hits on that page; they leave the set unchanged.
    """
    number = (address & s.low_bits) >> page.order
    slot = page.recent + ((number ^ number >> page.fold) & page.set_mask) * page.stride
    return s.tag[slot & SLOTS - 1] == number << page.order | page.low | s.space & ~(address >> 63)


@inlined
def look_up_one(s, c, page, vaddr, length, order):
    """Look up the page of an event that stays within one page.

    Most machines have LRU and sets of up to 16 ways in the first level.  This shortcut for them saves 6 ns per hit.
    """
    t = s.array[page.l1]
    if t.policy != LRU or t.lanes > LANES or s.filling != BOTH or s.track_bits:
        look_up(s, c, page, vaddr, length, order)
        return
    number = (vaddr & s.low_bits) >> page.order
    if not touch_short(s, t, number << page.order | page.order | (s.space & ~(vaddr >> 63)), number):
        missed(s, c, page, vaddr, order)


@subroutine
def look_up(s, c, page, vaddr, length, order):
    """Look up every page of [vaddr, vaddr + length); return the number of pages."""
    first, last = vaddr >> page.order, (vaddr + length - 1) >> page.order
    for number in range(first, last + 1):
        address = number << page.order
        if address < vaddr:
            address = vaddr
        walked = translate(s, c, page, address, order)
        if s.track_bits and address >= 0 and (walked or page.store):
            accessed_dirty.note(s, c, address, page.walk_order, walked, page.store)
    return last - first + 1
