"""NOVA's free lists, one per CPU: the lowest free run of a list serves a request, and 2 MiB pages of data are aligned.

Source: NOVA fs/nova/balloc.c (nova_new_blocks, nova_alloc_blocks_in_free_list, nova_alloc_superpage, nova_free_blocks) of the
port to Linux 5.13.  Unit: blocks of 4096 bytes.  NOVA keeps a red-black tree of free ranges per list; here the bitmaps of
`first_fit` give the same ranges.  The bitmaps begin at `origin`, so that the blocks reserved before the first list cost
nothing; all functions take and return block numbers of the device.

NOVA allocates data and log pages alike from the low end (ALLOC_FROM_HEAD); only its replicas, which the models do not have,
come from the high end.
"""

import numpy as np

from scmsim.alloc import first_fit
from scmsim.alloc.bitmap import last_bit, lowest_bit, next_bit
from scmsim.jit import kernel

_ONE = np.int64(1)  # not int: in kernels run as plain Python, the int 1 << 63 does not fit an int64
HUGE = 512  # blocks of 2 MiB
MOST_CPUS = 64  # MAX_CPUS of NOVA
DEAD_ZONE = 257  # a list whose free blocks span fewer blocks has no log pages (DEAD_ZONE_BLOCKS: last - first < 256)

FIELDS = [
    *first_fit.FIELDS,  # block numbers count from `origin`
    ("origin", "i8"),  # device offset of the bitmaps' first block, bytes; a multiple of 2 MiB
    ("shift", "i8"),  # log2 of the bytes of a block
    ("top", "i8"),  # no block from this one on was ever allocated
    ("aligned", "i8"),  # 1: data of whole 2 MiB pages is aligned
    ("dead_zone", "i8"),  # see DEAD_ZONE; 0 disables the rule
    ("cpus", "i8"),
    ("cpu", "i8"),  # CPU of the current operation
    ("list_blocks", "i8"),  # blocks of a CPU's part of the device, including reserved blocks
    ("list_stop", "i8", (MOST_CPUS,)),  # end of a list's blocks
    ("free_of", "i8", (MOST_CPUS,)),  # free blocks of each list
    ("low_of", "i8", (MOST_CPUS,)),  # no free block of the list is below this one
    ("huge_low", "i8", (MOST_CPUS,)),  # no free run that ends before this block holds an aligned 2 MiB page
]


def arena_words(lists: list[tuple[int, int]]) -> int:
    """Return the number of arena words that the bitmaps occupy at first; with several lists they track all blocks at once."""
    blocks = lists[-1][1] - lists[0][0] // HUGE * HUGE
    return first_fit.arena_words(blocks if len(lists) > 1 else min(blocks, 2 * first_fit.AT_ONCE))


def attach(state, lists: list[tuple[int, int]], list_blocks: int, *, aligned: bool, dead_zone: int) -> None:
    """Lay out the bitmaps, and free the blocks [start, stop) of each CPU's list; a reserved block separates two lists."""
    record = state.record[0]
    base = lists[0][0] // HUGE * HUGE
    record.origin, record.shift = base << 12, 12
    at_once = first_fit.AT_ONCE if len(lists) == 1 else None
    first_fit.attach(state, lists[0][0] - base, lists[-1][1] - base, at_once)
    for (_, stop), (start, _) in zip(lists, lists[1:], strict=False):
        first_fit.claim(record, state.arena, stop - base, start - stop)
    record.aligned, record.dead_zone = aligned, dead_zone
    record.cpus, record.list_blocks = len(lists), list_blocks
    for cpu, (start, stop) in enumerate(lists):
        record.list_stop[cpu], record.free_of[cpu] = stop - base, stop - start
        record.low_of[cpu] = record.huge_low[cpu] = start - base
    record.top = 0 if len(lists) == 1 else record.blocks


@kernel
def ready(s, arena, blocks):
    """Grow the bitmaps, if needed, to track `blocks` free blocks and a free run at their end that serves any request.

    Requests for `blocks` blocks in total take less than 2 * `blocks` + 2 * HUGE blocks of that run.  So they find the same
    runs, however many blocks the bitmaps track.  Returns False, with `need_words` set, if the arena is too small.
    """
    missing = max(2 * blocks + 2 * HUGE - (s.tracked - s.top), 0)
    tracked_free = s.free_blocks - (s.blocks - s.tracked)
    return first_fit.ready(s, arena, min(s.free_blocks, max(blocks, tracked_free + missing if missing else 0)))


@kernel
def lowest(s, arena, cpu):
    """Return the lowest free block of a list, which must have one."""
    at = s.low_of[cpu]
    w = at >> 6
    word = arena[s.bits + w] & (-_ONE << (at & 63))
    if word == 0:
        w += 1
        i = w >> 6
        rest = arena[s.summary + i] & (-_ONE << (w & 63))
        while rest == 0:
            i += 1
            rest = arena[s.summary + i]
        w = i * 64 + lowest_bit(rest)
        word = arena[s.bits + w]
    block = w * 64 + lowest_bit(word)
    s.low_of[cpu] = block
    if s.cpus == 1:
        s.low = block >> 12
    return block


@kernel
def has_enough(s, arena, cpu, want, log):
    """Return whether a list can serve a request, for log pages or for data (not_enough_blocks)."""
    free = s.free_of[cpu]
    if free < want or not log or free >= s.dead_zone:
        return free >= want
    stop = s.list_stop[cpu]
    last = stop - 1 if s.tracked < stop else last_bit(arena, s.bits, s.low_of[cpu], stop, True)
    return last - lowest(s, arena, cpu) + 1 >= s.dead_zone


@kernel
def pick(s, arena, want, log):
    """Return the CPU whose list serves a request: the current CPU, else the CPU with the most free blocks."""
    best = s.cpu
    if not has_enough(s, arena, best, want, log):
        best = 0
        for cpu in range(1, s.cpus):
            if s.free_of[cpu] > s.free_of[best]:
                best = cpu
    return best


@kernel
def find_huge(s, arena, cpu, want):
    """Return (block, count) of the lowest aligned 2 MiB pages for a request of `want` blocks, (-1, 0) if there are none.

    The result covers all whole 2 MiB pages of the run, up to `want` blocks.
    """
    stop = min(s.list_stop[cpu], s.tracked)
    start = last_bit(arena, s.bits, 0, s.huge_low[cpu], False) + 1  # a release may have joined runs
    while True:
        low = next_bit(arena, s.bits, start, stop, True)
        s.huge_low[cpu] = low
        if low >= stop:
            return -1, 0
        # NOVA computes a left margin of 1 to 512 blocks, so it skips the first 2 MiB of a run that is aligned already.
        first = low + HUGE - (low & (HUGE - 1))
        start = next_bit(arena, s.bits, low, min(stop, first + want), False)
        if start - first >= HUGE:
            return first, (start - first) // HUGE * HUGE


@kernel
def _take(s, arena, cpu, start, want):
    """Allocate up to `want` blocks from block `start` of the bitmaps on; return the device block."""
    first_fit.take_run(s, arena, start, want)
    s.free_of[cpu] -= s.got
    s.top = max(s.top, start + s.got)
    if start == s.low_of[cpu]:
        s.low_of[cpu] += s.got
    return start + (s.origin >> 12)


@kernel
def allocate(s, arena, want):
    """Allocate up to `want` blocks for data in one run; return the first block, -1 if nothing is free.  Sets `s.got`."""
    s.got = 0
    cpu = pick(s, arena, want, False)
    if s.free_of[cpu] == 0:
        return -1
    if s.aligned and want & (HUGE - 1) == 0:
        start, count = find_huge(s, arena, cpu, want)
        if start >= 0:
            return _take(s, arena, cpu, start, count)
    return _take(s, arena, cpu, lowest(s, arena, cpu), want)


@kernel
def allocate_log(s, arena, want):
    """Allocate up to `want` log pages in one run; return the first block, -1 if no list may provide log pages.  Sets `s.got`."""
    s.got = 0
    cpu = pick(s, arena, want, True)
    if not has_enough(s, arena, cpu, want, True):
        return -1
    return _take(s, arena, cpu, lowest(s, arena, cpu), want)


@kernel
def release(s, arena, block, count):
    """Free the run [block, block + count)."""
    cpu = block // s.list_blocks if s.cpus > 1 else 0
    start = block - (s.origin >> 12)
    first_fit.release(s, arena, start, count)
    s.free_of[cpu] += count
    s.low_of[cpu] = min(s.low_of[cpu], start)
    s.huge_low[cpu] = min(s.huge_low[cpu], start)
