"""Search for free blocks as ext4's multiblock allocator does: buddy orders, criteria, lists of groups.

Source: Linux 6.1 and 6.12 fs/ext4/mballoc.c (ext4_mb_regular_allocator and its callees; mb_find_extent, mb_mark_used,
mb_free_blocks).  Unit: blocks of 4096 bytes, in groups of 32768.  A bitmap of the arena has one bit per block, 1 = free.
The kernel keeps a buddy bitmap per order; here an order is computed from the bitmap, which gives the same chunks: a chunk of
order k is 2**k free blocks at a multiple of 2**k inside the group, and no larger chunk contains it.
The state record also has the fields `group_count` and `flex_shift` (log2 of the groups whose metadata are in their first group).
Left out: stripes, the prefetch of bitmaps some seconds after the mount, groups that other processors lock.
"""

import numpy as np

from scmsim.alloc.bitmap import is_set, next_bit, set_bits
from scmsim.jit import kernel

_ONE = np.int64(1)  # not int: in kernels run as plain Python, the int 1 << 63 does not fit an int64

GROUP_SHIFT = 15
GROUP = 1 << GROUP_SHIFT
GROUP_BITS_WORDS = GROUP >> 6
ORDERS = 14  # MB_NUM_ORDERS: chunks of 1 to 8192 blocks
LEAST_SCAN, MOST_SCAN = 10, 200  # free runs that the search looks at (s_mb_min_to_scan, s_mb_max_to_scan)
ORDER_REQUEST = 2  # requests of 2**(ORDER_REQUEST - 1) blocks or more are searched by order (s_mb_order2_reqs)
RESERVED_FLEX_SHIFT = 2  # log2 of EXT4_FLEX_SIZE_DIR_ALLOC_SCHEME
MOST_FREED_RUNS = (
    1024  # runs of freed blocks whose order is kept until the commit; further runs become free group by group
)
LISTS_FROM = 16  # groups: from here on, groups are in lists by order (mb_optimize_scan's default)

FIELDS = [
    ("group_table", "i8"),  # arena offset of the table of groups
    ("list_clock", "i8"),  # number of insertions into the lists of groups so far; it orders a list
    ("stream_block", "i8"),  # first block that the last request of a large file got (s_mb_last_group, s_mb_last_start)
    ("freed_bits", "i8"),  # arena offset of the bitmap of blocks freed by the running transaction
    ("freed_blocks", "i8"),  # number of blocks that the running transaction freed
    # With a journal: arena offset of the list of the first freed runs (first block, number of blocks), in the order in which a
    # commit frees them; and the number of runs on the list
    ("freed_runs", "i8"),
    ("freed_run_count", "i8"),
    # 1: groups are searched in the order of their numbers, a request is shortened before a slow search, and the bitmaps of a
    # flex group are read at once, as in Linux 6.17 and in stable releases of 6.12 that include the change (6.12.118)
    ("in_order", "i8"),
    # The current request: blocks wanted now, blocks that the call requested, blocks wanted before the request was shortened,
    # block at which the search starts, whether to try exactly that block first, whether the request is for data, and whether it
    # is for data of a large file
    ("want", "i8"),
    ("asked", "i8"),
    ("planned", "i8"),
    ("goal", "i8"),
    ("try_goal", "i8"),
    ("for_data", "i8"),
    ("for_stream", "i8"),
    # The current search: log2 of the wanted blocks if they are a power of two (else 0), free runs seen, state, and best run so far
    ("power", "i8"),
    ("runs_seen", "i8"),
    ("status", "i8"),
    ("best", "i8"),
    ("best_length", "i8"),
    # Groups whose bitmaps are read ahead (first group and number of groups), and the group after them
    ("ahead", "i8"),
    ("ahead_count", "i8"),
    ("following", "i8"),
]

# Fields of a row of the table of groups, one arena word each:
FREE = 0  # free blocks
FRAGMENTS = 1  # free runs
LARGEST = 2  # order of the largest chunk, -1 = none
LARGEST_SINCE = 3  # `list_clock` when the group entered the list of that order
AVERAGE = 4  # order of the mean free run, -1 = none
AVERAGE_SINCE = 5
IS_LOADED = 6  # 1: the kernel has read the group's bitmap
IS_STORED = 7  # 1: the bitmap is on the device; 0: the kernel computes it (EXT4_BG_BLOCK_UNINIT)
HAS_FREED = 8  # 1: the running transaction freed blocks of the group that are in no listed run
GROUP_WORDS = 9

CONTINUE, FOUND, GIVEN_UP = range(3)


def arena_words(blocks: int) -> int:
    """Return the number of arena words that the bitmaps and the table for `blocks` blocks occupy."""
    groups = -(-blocks // GROUP)
    return groups * (2 * GROUP_BITS_WORDS + GROUP_WORDS)


def attach(state, used, stored, blocks: int) -> None:
    """Lay out bitmaps and table at the arena's top, for a device that was just mounted.

    The ranges `used` (start, count) are in use; the bitmaps of the groups `stored` are on the device.
    """
    record, arena = state.record[0], state.arena
    groups = -(-blocks // GROUP)
    record.blocks = record.tracked = blocks
    record.group_count = groups
    record.bits, record.freed_bits = record.arena_top, record.arena_top + groups * GROUP_BITS_WORDS
    record.group_table = record.freed_bits + groups * GROUP_BITS_WORDS
    record.arena_top = record.group_table + groups * GROUP_WORDS
    set_bits(arena, record.bits, 0, blocks, True)
    for start, count in used:
        set_bits(arena, record.bits, start, min(count, blocks - start), False)
    _count_all(state.record.view(np.ndarray), arena)
    for group in stored:
        arena[record.group_table + group * GROUP_WORDS + IS_STORED] = 1


@kernel
def _is_chunk_free(s, arena, start, length):
    """Return whether the `length` blocks from `start` on are free; `length` is a power of two, `start` a multiple of it."""
    if length < 64:
        mask = ~(-_ONE << length) << (start & 63)
        return arena[s.bits + (start >> 6)] & mask == mask
    for w in range(s.bits + (start >> 6), s.bits + ((start + length) >> 6)):
        if arena[w] != -1:
            return False
    return True


@kernel
def chunk_order(s, arena, block):
    """Return the order of the chunk that contains the free block `block` (mb_find_order_for_block)."""
    order = 0
    while order < ORDERS - 1 and _is_chunk_free(s, arena, ((block >> order) ^ 1) << order, 1 << order):
        order += 1
    return order


@kernel
def free_run(s, arena, block, needed):
    """Return the number of free blocks from `block` on, counted in whole chunks until it is at least `needed` (mb_find_extent)."""
    if not is_set(arena, s.bits, block):
        return 0
    end = ((block >> GROUP_SHIFT) + 1) << GROUP_SHIFT
    order = chunk_order(s, arena, block)
    after = ((block >> order) + 1) << order
    while needed > after - block and after < end and is_set(arena, s.bits, after):
        after += 1 << chunk_order(s, arena, after)
    return after - block


@kernel
def _first_order(at, length):
    """Return the order of the first chunk of a free run: `length` blocks from block `at` of the group on."""
    order = 0
    while order < ORDERS - 1 and at & (1 << order) == 0 and 2 << order <= length:
        order += 1
    return order


@kernel
def find_chunk(s, arena, group, order):
    """Return the first chunk of the smallest order that is at least `order` (ext4_mb_simple_scan_group); -1 if none.

    Sets `s.best_length` to the number of blocks of the chunk.
    """
    start, end = group << GROUP_SHIFT, (group + 1) << GROUP_SHIFT
    least, chunk = ORDERS, np.int64(-1)
    at = next_bit(arena, s.bits, start, end, True)
    while at < end and least > order:
        stop = next_bit(arena, s.bits, at, end, False)
        while at < stop and least > order:
            own = _first_order(at - start, stop - at)
            if order <= own < least:
                least, chunk = own, at
            at += 1 << own
        at = next_bit(arena, s.bits, stop, end, True)
    s.best_length = 1 << least
    return chunk


@kernel
def _largest_order(s, arena, group, enough):
    """Return the order of the group's largest chunk, -1 if nothing is free; stop at the first of order `enough`."""
    start, end = group << GROUP_SHIFT, (group + 1) << GROUP_SHIFT
    largest = -1
    at = next_bit(arena, s.bits, start, end, True)
    while at < end and largest < enough:
        stop = next_bit(arena, s.bits, at, end, False)
        while at < stop and largest < enough:
            own = _first_order(at - start, stop - at)
            largest = max(largest, own)
            at += 1 << own
        at = next_bit(arena, s.bits, stop, end, True)
    return largest


@kernel
def _count(s, arena, group):
    """Count the free blocks and free runs of a group; return the number of free blocks."""
    row, end = s.group_table + group * GROUP_WORDS, (group + 1) << GROUP_SHIFT
    arena[row + FREE], arena[row + FRAGMENTS] = 0, 0
    at = next_bit(arena, s.bits, group << GROUP_SHIFT, end, True)
    while at < end:
        stop = next_bit(arena, s.bits, at, end, False)
        arena[row + FREE] += stop - at
        arena[row + FRAGMENTS] += 1
        at = next_bit(arena, s.bits, stop, end, True)
    return arena[row + FREE]


@kernel
def _count_all(state, arena):
    """Count the free blocks and free runs of all groups, and mark all groups as not yet in any list."""
    s = state[0]
    for group in range(s.group_count):
        row = s.group_table + group * GROUP_WORDS
        arena[row + LARGEST], arena[row + AVERAGE] = -1, -1
        s.free_blocks += _count(s, arena, group)


@kernel
def bit_length(value):
    """Return the number of significant bits of a positive number (fls)."""
    bits = 0
    while value > 0:
        value >>= 1
        bits += 1
    return bits


@kernel
def average_order(blocks):
    """Return the list number of groups whose mean free run is `blocks` blocks (mb_avg_fragment_size_order)."""
    return min(max(bit_length(blocks) - 2, 0), ORDERS - 1)


@kernel
def _enter_lists(s, arena, group, largest):
    """Move a group to the end of another list if the order of its largest chunk or of its mean free run has changed."""
    row = s.group_table + group * GROUP_WORDS
    if largest != arena[row + LARGEST]:
        s.list_clock += 1
        arena[row + LARGEST], arena[row + LARGEST_SINCE] = largest, s.list_clock
    fragments = arena[row + FRAGMENTS]
    average = average_order(arena[row + FREE] // fragments) if fragments else -1
    if average != arena[row + AVERAGE]:
        s.list_clock += 1
        arena[row + AVERAGE], arena[row + AVERAGE_SINCE] = average, s.list_clock


@kernel
def load(s, arena, group):
    """Read a group's bitmap and put the group on its lists, unless both are already done (ext4_mb_load_buddy)."""
    row = s.group_table + group * GROUP_WORDS
    if not arena[row + IS_LOADED]:
        arena[row + IS_LOADED] = 1
        _enter_lists(s, arena, group, _largest_order(s, arena, group, ORDERS))


@kernel
def _count_neighbours(s, arena, block, count):
    """Return how many of the two blocks next to a run are in its group and free."""
    free = 0
    if block & (GROUP - 1) and is_set(arena, s.bits, block - 1):
        free += 1
    if (block + count) & (GROUP - 1) and is_set(arena, s.bits, block + count):
        free += 1
    return free


@kernel
def mark_used(s, arena, block, count):
    """Take `count` free blocks of one group (mb_mark_used)."""
    group = block >> GROUP_SHIFT
    load(s, arena, group)
    row = s.group_table + group * GROUP_WORDS
    largest, at, shrinks = arena[row + LARGEST], block, False
    while at < block + count and not shrinks:
        order = chunk_order(s, arena, at)
        shrinks = order >= largest
        at = ((at >> order) + 1) << order
    arena[row + FRAGMENTS] += _count_neighbours(s, arena, block, count) - 1
    set_bits(arena, s.bits, block, count, False)
    arena[row + FREE] -= count
    s.free_blocks -= count
    _enter_lists(s, arena, group, _largest_order(s, arena, group, largest) if shrinks else largest)


@kernel
def mark_run_used(s, arena, block, count):
    """Take a run of free blocks, which may pass the end of a group."""
    at, end = block, block + count
    while at < end:
        stop = min(end, ((at >> GROUP_SHIFT) + 1) << GROUP_SHIFT)
        mark_used(s, arena, at, stop - at)
        at = stop


@kernel
def take_run(s, arena, count):
    """Take the first `count` adjacent free blocks, which may pass the ends of groups; return the first, -1 if there are none."""
    at = next_bit(arena, s.bits, 0, s.blocks, True)
    while at < s.blocks:
        stop = next_bit(arena, s.bits, at, s.blocks, False)
        if stop - at >= count:
            mark_run_used(s, arena, at, count)
            return at
        at = next_bit(arena, s.bits, stop, s.blocks, True)
    return -1


@kernel
def mark_free(s, arena, block, count):
    """Free `count` blocks of one group (mb_free_blocks)."""
    group = block >> GROUP_SHIFT
    load(s, arena, group)
    row = s.group_table + group * GROUP_WORDS
    arena[row + FRAGMENTS] += 1 - _count_neighbours(s, arena, block, count)
    set_bits(arena, s.bits, block, count, True)
    arena[row + FREE] += count
    s.free_blocks += count
    largest, at = arena[row + LARGEST], block
    while at < block + count:
        order = chunk_order(s, arena, at)
        largest = max(largest, order)
        at = ((at >> order) + 1) << order
    _enter_lists(s, arena, group, largest)


@kernel
def release(s, arena, block, count):
    """Free a run of blocks, which may pass the end of a group."""
    at, end = block, block + count
    while at < end:
        stop = min(end, ((at >> GROUP_SHIFT) + 1) << GROUP_SHIFT)
        mark_free(s, arena, at, stop - at)
        at = stop
