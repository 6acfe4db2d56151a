"""How a file loses pages, and gets some without writing them: truncate, fallocate and what they free.

Source: Linux fs/ext4/{inode.c,extents.c}.
"""

from scmsim.alloc.first_fit import release
from scmsim.core import records as r
from scmsim.fs.engine.events import play
from scmsim.fs.ext2.map import end_of_block, parent_of_slot, pointers_missing, slot_of
from scmsim.fs.ext4.jbd2 import forget, join, join_orphans
from scmsim.fs.linux import recipes as q
from scmsim.fs.linux import state as e
from scmsim.fs.linux.blocks import add_changed, change_blocks, change_group, close_window, reserve_pages
from scmsim.fs.linux.files import call, dirty_inode
from scmsim.fs.linux.writeback import unqueue_clean
from scmsim.jit import part


@part
def change_edges(s, arena, f, page, last):
    """ext2: the pointer blocks of the first and the last page of a run that is freed change."""
    for slot in (slot_of(page), slot_of(last)):
        if slot >= 0 and slot < arena[f + e.LEAF_COUNT] and arena[arena[f + e.LEAVES] + slot]:
            join(s, arena, arena[arena[f + e.LEAVES] + slot])


@part
def free_pages(s, arena, f, out, page, last):
    """Free the pages [page, last]; takes 2 events."""
    last = min(last, arena[f + e.END] - 1)
    was_dirty = arena[f + e.DIRTY]
    s.reg[q.COUNT], s.reg[q.PAGES] = 0, 0
    at = page
    while at <= last:
        words = arena[f + e.PAGES] + at
        block = arena[words] >> e.BLOCK_SHIFT
        count = 1
        if block:
            while at + count <= last and arena[words + count] >> e.BLOCK_SHIFT == block + count:
                count += 1
            change_blocks(s, arena, f, at, count)
            if s.indirect:
                change_edges(s, arena, f, at, at + count - 1)
            release(s, arena, block, count)
            s.data_blocks -= count
            s.reg[q.COUNT] += 1
        for i in range(words, words + count):
            if arena[i]:
                arena[f + e.MAPPED] -= 1
                arena[f + e.DIRTY] -= arena[i] & e.IS_DIRTY * (1 - s.in_memory)
                s.reserved -= block == 0
                s.reg[q.PAGES] += arena[i] & e.IS_CACHED != 0
            arena[i] = 0
        at += count
    if was_dirty and arena[f + e.DIRTY] == 0:
        unqueue_clean(s, arena, f)
    if last == arena[f + e.END] - 1:
        arena[f + e.END] = min(arena[f + e.END], page)
    play(s, out, q.FREED)


@part
def free_leaves(s, arena, f, keep):
    """Free a file's extent leaves or pointer blocks but the first `keep`."""
    for i in range(arena[f + e.LEAVES] + keep, arena[f + e.LEAVES] + arena[f + e.LEAF_COUNT]):
        if arena[i]:
            release(s, arena, arena[i], 1)
            change_group(s, arena, arena[i])
            forget(s, arena, arena[i])
            s.meta_blocks -= 1
            arena[i] = 0
            above = parent_of_slot(i - arena[f + e.LEAVES]) if s.indirect else -1
            if above >= 0 and above < keep:
                join(s, arena, arena[arena[f + e.LEAVES] + above])
    arena[f + e.LEAF_COUNT] = min(arena[f + e.LEAF_COUNT], keep)
    if keep == 0:
        arena[f + e.EXTENTS] = 0


@part
def clear_part(s, arena, f, out, at, length):
    """Clear `length` bytes from `at` on, inside one page, if it has content; takes 2 events."""
    page = at >> 12
    if length > 0 and page < arena[f + e.END]:
        word = arena[arena[f + e.PAGES] + page]
        s.reg[q.TO], s.reg[q.BYTES] = s.key_base + ((word >> s.key_shift & s.key_mask) << 12) + (at & 4095), length
        if s.dax and word and not word & e.IS_UNWRITTEN:
            play(s, out, q.CLEAR_PM)
        elif word & e.IS_CACHED:
            play(s, out, q.CLEAR_FRAME)


@part
def truncate(s, arena, op, f, out):
    """truncate: pages behind the new size are freed, the rest of its last page is cleared."""
    size = max(op.offset, 0)
    call(s, arena, out, f, q.TRUNCATE)
    if size < arena[f + e.SIZE]:
        free_pages(s, arena, f, out, (size + 4095) >> 12, arena[f + e.END])
        close_window(s, arena, f)
        clear_part(s, arena, f, out, size, -size & 4095)
        if s.indirect:
            while arena[f + e.END] and arena[arena[f + e.PAGES] + arena[f + e.END] - 1] == 0:
                arena[f + e.END] -= 1  # a pointer block that names holes only goes too
            free_leaves(s, arena, f, slot_of(arena[f + e.END] - 1) + 1)
        elif arena[f + e.END] == 0:
            free_leaves(s, arena, f, 0)
    arena[f + e.SIZE] = size
    join_orphans(s, arena)
    dirty_inode(s, arena, f, out)
    arena[f + e.TID], arena[f + e.DATA_TID] = s.tid, s.tid


@part
def fill_holes(s, arena, f, page, last, out):
    """Unwritten blocks for the holes in the pages [page, last]."""
    s.reg[q.COUNT] = 0
    while page <= last:
        if page < arena[f + e.END] and arena[arena[f + e.PAGES] + page]:
            page += 1
            continue
        count = 1
        stop = min(last + 1, end_of_block(page)) if s.indirect else last + 1
        while page + count < stop and (
            page + count >= arena[f + e.END] or arena[arena[f + e.PAGES] + page + count] == 0
        ):
            count += 1
        count = add_changed(s, arena, f, page, count, e.IS_UNWRITTEN | s.page_bits)
        arena[f + e.MAPPED] += count
        s.reg[q.COUNT] += 1
        page += count
    play(s, out, q.FALLOCATED)


@part
def fallocate(s, arena, op, f, out):
    """fallocate: unwritten blocks for the holes of the range, or (punch hole) the range becomes a hole; -1: no
    blocks left."""
    end = op.offset + op.length
    last = (end - 1) >> 12
    if op.length <= 0 or op.offset < 0:
        play(s, out, q.OTHER)
        return 1
    if op.flag & r.PUNCH_HOLE:
        call(s, arena, out, f, q.FALLOCATE)
        if op.offset >> 12 == last:
            clear_part(s, arena, f, out, op.offset, op.length & 4095)
        else:
            clear_part(s, arena, f, out, op.offset, -op.offset & 4095)
            clear_part(s, arena, f, out, end & ~4095, end & 4095)
        free_pages(s, arena, f, out, (op.offset + 4095) >> 12, (end >> 12) - 1)
    else:
        missing = max(last + 1 - max(arena[f + e.END], op.offset >> 12), 0)
        for page in range(op.offset >> 12, min(last + 1, arena[f + e.END])):
            missing += arena[arena[f + e.PAGES] + page] == 0
        if missing and s.indirect:
            missing += pointers_missing(arena, f, op.offset >> 12, last)
        if missing > s.free_blocks + s.windowed - s.reserved:
            return -1
        if not reserve_pages(s, arena, f, last):
            return 0
        call(s, arena, out, f, q.FALLOCATE)
        fill_holes(s, arena, f, op.offset >> 12, last, out)
        if not op.flag & r.KEEP_SIZE:
            arena[f + e.SIZE] = max(arena[f + e.SIZE], end)
    dirty_inode(s, arena, f, out)
    arena[f + e.TID], arena[f + e.DATA_TID] = s.tid, s.tid
    return 1
