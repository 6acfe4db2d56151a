"""Addresses -> TLB and page-walk counters, many addresses at a time.

The results equal those of `replay` with one event per address.  Where neither level depends on the other (fills
mostly-inclusive) and all arrays after the first level are LRU with up to 16 ways, a batch goes through one array at a
time: all accesses through the first level, those that missed through the second, those that walk through one page-walk
cache after another, then their page-table entries through one cache after another.  Each array sees the same accesses
in the same order as with one event per address.  Because each loop is short, this is 3 to 4 times as fast.

One detail is worth a factor of two: addresses are cut to 57 bits with a mask read from the record.  With a constant mask,
LLVM emits an instruction that depends on the previous look-up's result, and the look-ups no longer overlap.
"""

import numpy as np

from scmsim.core.records import MILLI, SCM_TABLE
from scmsim.jit import kernel, outlined, subroutine
from scmsim.mmu import accessed_dirty
from scmsim.mmu.columns import (
    ACTIVE,
    FAR_HIT_SIZED,
    HIT,
    LOADS_FROM,
    LOADS_OF_LEVEL,
    PENDING,
    ROW,
    SHORTENED,
    SHORTENED_AT,
    SIZED,
    STLB_HIT,
    USER_FAR_HIT,
    USER_LOOKUPS,
    USER_WALKS,
    WALKER_LOADS,
    WALKS,
)
from scmsim.mmu.replay import relate
from scmsim.mmu.state import BOTH, EMPTY, LRU, ON_WALK, SCM_SHIFT, SRRIP
from scmsim.mmu.tlb import touch, touch_row
from scmsim.mmu.translate import translate
from scmsim.mmu.walk import LEVEL_BITS, MEMORY, busy

BATCH = 1 << 16  # addresses that go through one array before the next array starts

_INDEX, _NEXT, _TOP, _COST = range(4)  # rows of the scratch arrays


def replay_batch(state: np.ndarray, counters: np.ndarray, addresses: np.ndarray, code: int, order: int) -> None:
    """Replay one 1-byte access at each address, of event `code` (LOAD, STORE, FETCH), all on pages of one size.

    Parameters
    ----------
    state : array of state.MMU, shape (1,)
        From `mmu.machine`; changed.
    counters : array of counters.COUNTERS, shape (1,)
        Changed.
    addresses : int64 array
    order : int
        As EVENT.order: log2 of the page size, CONTIGUOUS, SCM_TABLE.
    """
    if not len(addresses):
        return
    rows, s = counters.view(np.ndarray).view(ROW), state[0]
    page = s["page"][code, order & 63]
    relate(rows, -1)
    if s["filling"] == BOTH and not s["track_bits"] and not s["nested_levels"] and _rows_behind(s, page):
        scratch = np.empty((4, min(BATCH, len(addresses))), np.int64)
        lines = np.empty(2 * scratch.shape[1] * int(s["levels"]) if s["caches"] else 0, np.int64)
        _in_batches(state, rows, addresses, (code, order), (scratch, lines))
        _note_all_filled(s)
    else:
        _one_by_one(state, rows, addresses, code, order)
    rows["at"][0, page["column"]] += len(addresses)
    if page["retired"] >= 0:
        rows["at"][0, page["retired"]] += MILLI * len(addresses)
    relate(rows, 1)


def _rows_behind(s: np.void, page: np.void) -> bool:
    """Return whether every array after the first level has LRU replacement and sets of up to 16 ways."""
    behind = (s["array"]["sets"] > 0) & (np.arange(len(s["array"])) >= s["tlbs"])
    if page["stlb"] >= 0:
        behind[page["stlb"]] = True
    used = s["array"][behind]
    return bool((used["policy"] == LRU).all() and (used["lanes"] <= 16).all())


def _note_all_filled(s: np.void) -> None:
    """Mark every set of the TLBs as filled and its version as unknown, because `touch_row` notes neither."""
    tlbs = s["array"][: s["tlbs"]]
    sets = np.concatenate([t["first"] + t["lanes"] * np.arange(t["sets"]) for t in tlbs])
    s["filled"], s["listed"], s["known"] = len(sets), 1, EMPTY
    s["filled_set"][: len(sets)] = sets


@kernel
def _one_by_one(state, counts, addresses, code, order):
    s, c = state[0], counts[0]
    page = s.page[code, order & 63]
    c.at[USER_LOOKUPS] += page.split * all_users(addresses)
    # except under SRRIP or fills on walks, an access to the same page as the previous access changes nothing
    skips = s.array[page.l1].policy != SRRIP and s.filling != ON_WALK
    unit = min(page.order, page.walk_order) if s.track_bits else page.order
    previous, seen = ~addresses[0], 0
    for i in range(addresses.size):
        address = addresses[i]
        if (address ^ previous) >> unit == 0 and skips:
            continue
        previous = address
        s.now += i - seen
        seen = i
        walked = translate(s, c, page, address, order)
        if s.track_bits and address >= 0 and (walked or page.store):
            accessed_dirty.note(s, c, address, page.walk_order, walked, page.store)
    s.now += addresses.size - seen


@kernel
def _in_batches(state, counts, addresses, what, room):
    for start in range(0, addresses.size, BATCH):
        batch(state[0], counts[0], addresses[start : start + BATCH], what, room)


@subroutine
def batch(s, c, addresses, what, room):
    """Run a batch of addresses through every array."""
    (code, order), (scratch, lines) = what, room
    page, at = s.page[code, order & 63], c.at
    index, all_user = scratch[_INDEX], all_users(addresses)
    at[USER_LOOKUPS] += page.split * all_user
    n = first_level(s, page, addresses, index)
    at[page.column + HIT] -= n
    if page.stlb >= 0:
        user = users(addresses, all_user, index, n)
        walks = missing(s, s.array[page.stlb], page.stlb_order, addresses, index, n)
        at[page.column + STLB_HIT] += n - walks
        at[FAR_HIT_SIZED + page.leaf - 1] += (n - walks) * page.split
        at[USER_FAR_HIT] += (user - users(addresses, all_user, index, walks)) * page.split
        n = walks
    at[page.column + WALKS] += n
    at[page.column + SIZED + page.leaf - 1] += n
    at[USER_WALKS] += users(addresses, all_user, index, n) * page.split
    loads = heights(s, at, page, addresses, scratch, n)
    if s.caches == 0 and s.walkers == 1:
        pending = active = loads * s.memory_cycles
    else:
        costs(s, at, page, addresses, (order & SCM_TABLE) >> SCM_SHIFT, scratch, n, lines)
        pending, active = times(s, scratch, n)
    # the instruction side has no counter for 1 GiB pages, so its columns are one earlier
    at[page.column + PENDING - 1 + page.split] += pending
    at[page.column + ACTIVE - 1 + page.split] += active
    s.now += addresses.size


@outlined
def first_level(s, page, addresses, index):
    """Write the indices of the accesses that miss the first level to `index`; return their number."""
    t, order, n, space, low = s.array[page.l1], page.order, 0, s.space, s.low_bits
    row, skips = t.policy == LRU and t.lanes <= 16, t.policy != SRRIP
    previous = ~addresses[0]
    for i in range(addresses.size):
        address = addresses[i]
        if (address ^ previous) >> order == 0 and skips:
            continue
        previous = address
        number = (address & low) >> order
        # the address-space tag applies to user addresses only: address >> 63 is -1 in the kernel half
        tag = number << order | order | (space & ~(address >> 63))
        index[n] = i
        if row:
            n += not touch_row(s, t, tag, number)
        else:
            n += not touch(s, t, tag, number)
    return n


@outlined
def missing(s, t, order, addresses, index, n):
    """Keep in `index` those of index[:n] that miss array `t` (pages of 2**order bytes); return the number of misses."""
    k, space, low = 0, s.space, s.low_bits
    for j in range(n):
        i = index[j]
        address = addresses[i]
        number = (address & low) >> order
        index[k] = i
        k += not touch_row(s, t, number << order | order | (space & ~(address >> 63)), number)
    return k


@subroutine
def all_users(addresses):
    """Return how many of the addresses are user addresses."""
    kernel_half = 0
    # address >> 63 is -1 for a kernel address, 0 for a user address
    for i in range(addresses.size):
        kernel_half += addresses[i] >> 63
    return addresses.size + kernel_half


@subroutine
def users(addresses, all_user, index, n):
    """Return how many of the accesses index[:n] are to user addresses; `all_user` is the number among all accesses."""
    if all_user == addresses.size:
        return n
    count = 0
    if all_user > 0:
        for j in range(n):
            count += addresses[index[j]] >= 0
    return count


@outlined
def heights(s, at, page, addresses, scratch, n):
    """Write the highest level that each walk reads to scratch[_TOP], and count the walks that page-walk caches shorten.

    Returns the number of page-table entries that the walks read.
    """
    index, open_, top = scratch[_INDEX], scratch[_NEXT], scratch[_TOP]
    space, low = s.space, s.low_bits
    for j in range(n):
        open_[j] = j
    for j in range(n):
        top[j] = s.levels
    left, loads = n, 0
    for level in range(page.leaf, s.levels + 1):
        loads += left
        at[LOADS_OF_LEVEL + level - 1] += left
        if level == s.levels or s.walk_cache[level + 1] < 0:
            continue
        t, order, k = s.array[s.walk_cache[level + 1]], s.shift[level + 1], 0
        if t.sets == 1 and t.ways == 4:
            k = cut_by_four(s, t.first, (order, level), addresses, scratch, left)
        else:
            for w in range(left):
                j = open_[w]
                address = addresses[index[j]]
                number = (address & low) >> order
                hit = touch_row(s, t, number << order | (space & ~(address >> 63)), number)
                top[j] = level if hit else top[j]
                open_[k] = j
                k += not hit
        at[SHORTENED] += left - k
        at[SHORTENED_AT + level - 1] += left - k
        left = k
    at[WALKER_LOADS] += loads
    return loads


@subroutine
def cut_by_four(s, at, which, addresses, scratch, left):
    """Run the inner loop of `heights` for a page-walk cache of one set of four ways, with the set in registers.

    In memory, each look-up would wait for the previous look-up's store: 11 ns instead of 3 ns.
    """
    index, open_, top = scratch[_INDEX], scratch[_NEXT], scratch[_TOP]
    (order, level), space, low, k = which, s.space, s.low_bits, 0
    a, b, c, d = s.tag[at], s.tag[at + 1], s.tag[at + 2], s.tag[at + 3]
    for w in range(left):
        j = open_[w]
        address = addresses[index[j]]
        tag = (address & low) >> order << order | (space & ~(address >> 63))
        first, second, third = a == tag, b == tag, c == tag
        hit = first | second | third | (d == tag)
        # move to front: the tags before the hit shift back by one way, the tags after the hit stay
        d = d if first | second | third else c
        c = c if first | second else b
        b = b if first else a
        a = tag
        top[j] = level if hit else top[j]
        open_[k] = j
        k += not hit
    s.tag[at], s.tag[at + 1], s.tag[at + 2], s.tag[at + 3] = a, b, c, d
    return k


@outlined
def costs(s, at, page, addresses, scm, scratch, n, lines):
    """Write the duration of each walk, in cycles, to scratch[_COST]."""
    index, top, cost = scratch[_INDEX], scratch[_TOP], scratch[_COST]
    if s.caches == 0:
        for j in range(n):
            cost[j] = (top[j] - page.leaf + 1) * s.memory_cycles
        return
    room, k, space, low = lines.size // 2, 0, s.space, s.low_bits
    of = room  # lines[of + k] is the walk that reads lines[k]
    for j in range(n):
        address, cost[j] = addresses[index[j]], 0
        for level in range(top[j], page.leaf - 1, -1):
            # shift + 3: eight 8-byte entries share a 64-byte line
            line = level << LEVEL_BITS | (address & low) >> s.shift[level] + 3
            lines[k], lines[of + k] = line | (space & ~(address >> 63)), j
            k += 1
    for cache in range(s.caches):
        k = from_cache(s, at, cache, lines, room, k, cost)
    cycles = s.scm_cycles if scm else s.memory_cycles
    at[LOADS_FROM + MEMORY + scm] += k
    for w in range(k):
        cost[lines[of + w]] += cycles


@outlined
def from_cache(s, at, cache, lines, of, n, cost):
    """Look up lines of page-table entries in a cache; move those that miss to the front of `lines` and return their number."""
    t, cycles, k = s.array[s.cache[cache]], s.cache_cycles[cache], 0
    for w in range(n):
        line, j = lines[w], lines[of + w]
        hit = touch_row(s, t, line, line)
        cost[j] += cycles if hit else 0
        lines[k], lines[of + k] = line, j
        k += not hit
    at[LOADS_FROM + cache] += n - k
    return k


@outlined
def times(s, scratch, n):
    """Return (busy cycles summed over the walkers, cycles with at least one walker busy)."""
    index, cost, start = scratch[_INDEX], scratch[_COST], s.now
    pending, active, waited = 0, 0, 0
    for j in range(n):
        pending += cost[j]
        if s.walkers > 1:
            s.now = start + waited + index[j]
            before = s.now
            active += busy(s, cost[j])
            waited += s.now - before
    s.now = start + waited
    return pending, pending if s.walkers == 1 else active
