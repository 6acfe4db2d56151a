"""ext4's blocks: runs of pages, preallocation windows, allocation, and the metadata blocks that it changes.

Units: blocks and pages of 4096 bytes.  Source: Linux fs/ext4/{mballoc.c,extents.c,balloc.c}.  Simplified: the
allocator is first fit, with a window per growing file that doubles with the file up to 8 MiB
(ext4_mb_normalize_request); extents merge with the one before them only; the extent tree has one level of leaves.
"""

from scmsim.alloc.first_fit import allocate, release
from scmsim.fs.engine.table import reserve, words_to_hold
from scmsim.fs.ext2.map import end_of_block, has_slot, parent_of_slot, slot_of
from scmsim.fs.ext4.jbd2 import join
from scmsim.fs.linux import state as e
from scmsim.jit import part


@part
def page_run(s, arena, f, page, last):
    """Pages from `page` to at most `last` that lie one after the other, or are all holes (all not cached)."""
    end = arena[f + e.END]
    if page >= end:
        return last - page + 1
    words = arena[f + e.PAGES]
    stop = min(last + 1, end)
    key = arena[words + page] & s.key
    step = s.key_step if key else 0
    at = page + 1
    while at < stop and arena[words + at] & s.key == key + (at - page) * step:
        at += 1
    return last + 1 - page if at == end and key == 0 else at - page


@part
def close_window(s, arena, f):
    """Free what is left of a file's preallocation window (ext4_discard_preallocations)."""
    if arena[f + e.WINDOW_BLOCKS]:
        release(s, arena, arena[f + e.WINDOW], arena[f + e.WINDOW_BLOCKS])
        s.windowed -= arena[f + e.WINDOW_BLOCKS]
        arena[f + e.WINDOW_BLOCKS] = 0


@part
def take_blocks(s, arena, f, page, want):
    """First of up to `want` blocks in a row for `page`, `s.got` says how many, from the file's window, opened anew
    if empty."""
    if arena[f + e.WINDOW_BLOCKS] == 0:
        length = want
        if s.free_blocks > s.blocks >> 5 and not (arena[f + e.IS_DIR] or s.in_memory):
            window = 4
            while window < 2048 and window < max(page + want, arena[f + e.END]):
                window *= 2
            length = max(want, 2048 if page >= window else window - page)
        if s.free_blocks == 0:
            for row in range(s.rows, s.rows + s.row_count * e.ROW_WORDS, e.ROW_WORDS):
                if arena[row]:
                    close_window(s, arena, arena[row])
        arena[f + e.WINDOW] = allocate(s, arena, length)
        arena[f + e.WINDOW_BLOCKS] = s.got
        s.windowed += s.got
    s.got = min(want, arena[f + e.WINDOW_BLOCKS])
    block = arena[f + e.WINDOW]
    arena[f + e.WINDOW] += s.got
    arena[f + e.WINDOW_BLOCKS] -= s.got
    s.windowed -= s.got
    return block


@part
def change_blocks(s, arena, f, page, count):
    """The blocks of `count` pages from `page` on, in a row, change hands: bitmaps, group descriptors and the leaf
    join."""
    block = arena[arena[f + e.PAGES] + page] >> e.BLOCK_SHIFT
    for group in range(block // e.GROUP_BLOCKS, (block + count - 1) // e.GROUP_BLOCKS + 1):
        join(s, arena, s.bitmap_at + group)
        join(s, arena, 1 + group // e.DESCRIPTORS_PER_BLOCK)
    leaves = arena[f + e.LEAF_COUNT]
    if leaves and not s.indirect:
        # Leaves are ordered by page and evenly filled on average.
        leaf = min(page * leaves // max(arena[f + e.END], 1), leaves - 1)
        join(s, arena, arena[arena[f + e.LEAVES] + leaf])


@part
def add_pointers(s, arena, f, page):
    """ext2: the pointer blocks that are missing on the way to `page`, the highest first, before its data
    (ext2_alloc_blocks)."""
    leaf = slot_of(page)
    while leaf >= 0 and not has_slot(arena, f, leaf):
        slot = leaf
        parent = parent_of_slot(slot)
        while parent >= 0 and not has_slot(arena, f, parent):
            slot = parent
            parent = parent_of_slot(slot)
        arena[arena[f + e.LEAVES] + slot] = take_blocks(s, arena, f, page, 1)
        arena[f + e.LEAF_COUNT] = max(arena[f + e.LEAF_COUNT], slot + 1)
        s.meta_blocks += 1
        s.new_pointers += 1


@part
def change_pointers(s, arena, f, page):
    """ext2: the block that points to `page` changes; if it is new, so do the one above it and its bitmap."""
    slot = slot_of(page)
    fresh = s.new_pointers
    while slot >= 0:
        block = arena[arena[f + e.LEAVES] + slot]
        join(s, arena, block)
        if fresh == 0:
            return
        fresh -= 1
        join(s, arena, s.bitmap_at + block // e.GROUP_BLOCKS)
        slot = parent_of_slot(slot)


@part
def add_blocks(s, arena, f, page, want, bits):
    """Allocate up to `want` blocks for the pages from `page` on, whose words keep their frames and get `bits`;
    returns how many."""
    if s.indirect:
        want = min(want, end_of_block(page) - page)
        add_pointers(s, arena, f, page)
    block = take_blocks(s, arena, f, page, want)
    count = s.got
    words = arena[f + e.PAGES] + page
    if page == 0 or arena[words - 1] >> e.BLOCK_SHIFT != block - 1:
        arena[f + e.EXTENTS] += 1
    for i in range(count):
        arena[words + i] |= (block + i) << e.BLOCK_SHIFT | bits
    arena[f + e.END] = max(arena[f + e.END], page + count)
    s.data_blocks += count
    return count


@part
def add_changed(s, arena, f, page, want, bits):
    """As `add_blocks`; the metadata that tells of the new blocks changes."""
    s.new_pointers = 0
    count = add_blocks(s, arena, f, page, want, bits)
    change_blocks(s, arena, f, page, count)
    if s.indirect:
        change_pointers(s, arena, f, page)
    return count


@part
def reserve_pages(s, arena, f, last):
    """A file's tables of pages and pointer blocks get room for page `last`; False: they need more words."""
    words = words_to_hold(arena, f + e.PAGES, last + 1)
    slots = slot_of(last) + 1 if s.indirect else 0
    if slots:
        words += words_to_hold(arena, f + e.LEAVES, slots)
    if s.arena_top + words > arena.size:
        s.need_words = words
        return False
    reserve(s, arena, f + e.PAGES, last + 1)
    if slots:
        reserve(s, arena, f + e.LEAVES, slots)
    return True


@part
def change_group(s, arena, block):
    """A block of metadata is taken or freed: its bitmap and group descriptor join."""
    group = block // e.GROUP_BLOCKS
    join(s, arena, s.bitmap_at + group)
    join(s, arena, 1 + group // e.DESCRIPTORS_PER_BLOCK)
