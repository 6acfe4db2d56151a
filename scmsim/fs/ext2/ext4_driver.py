"""Metadata of an ext2 layout under the driver of ext4, without a journal (kernels without CONFIG_EXT2_FS).

An fsync stores the file's inode if the file got blocks or a new time; the driver ignores a new size or link.  The first fsync of a
new file also stores the directory's dirty blocks.  An fsync flushes the device if it stored the inode or, with the page cache, if
the file has bytes; on later kernels it always does.  Source: Linux 6.1
fs/ext4/{fsync.c: ext4_sync_parent; ext4_jbd2.c: ext4_forget}.
"""

from scmsim.fs.engine.events import emit_template
from scmsim.fs.engine.operations import DONE, NO_ROOM
from scmsim.fs.ext2 import map, metadata
from scmsim.fs.ext2.metadata import inode_block, store_dirty, store_index
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.jit import subroutine

SINGLE_END = map.DIRECT + (1 << map.FAN_SHIFT)  # page after those of the single-indirect block
# Fields of a regular file's record; a directory uses the same words for other fields:
HOLE, HOLE_END = e.SLOTS, e.GAP  # first page of the hole that Linux 6.12 remembers, and page after it


@subroutine
def forget(s, arena, block):
    """Drop the freed metadata block `block`; if it is dirty, write-back will visit its page in vain."""
    s.revokes += metadata.forget(s, arena, block)


@subroutine
def sync(s, arena, out, op, f):
    """Finish an fsync after the file's pages are stored: store its metadata, flush the device; return the outcome."""
    parent = arena[arena[f + e.PARENT]]
    if not store_index(s, arena, out, f, arena[parent + e.PAGE_COUNT] + 1):
        return NO_ROOM
    changed = arena[f + e.TID] == s.tid
    if changed:
        arena[f + e.TID] = 0
        store_dirty(s, arena, out, inode_block(s, arena, f))
        if arena[f + e.FRESH]:  # only the first fsync of a new file stores its name (ext4_sync_parent)
            arena[f + e.FRESH] = 0
            for i in range(arena[parent + e.PAGES], arena[parent + e.PAGES] + arena[parent + e.PAGE_COUNT]):
                store_dirty(s, arena, out, arena[i] >> e.BLOCK_SHIFT)
    emit_template(s, out, q.FSYNC)
    if changed or s.always_flushes or (not s.dax and arena[f + e.SIZE]):
        emit_template(s, out, q.BARRIER)
    return DONE


@subroutine
def note_change(s, arena, f):
    """Do nothing: an fsync stores an inode only after new blocks or times, which are recorded elsewhere."""


@subroutine
def hole_end(arena, f, page):
    """Return the page after the hole that a look-up of `page` reports, if pointer blocks on the way to it are missing.

    The hole has all pages below the highest missing pointer block (ext4_ind_map_blocks without CREATE).
    """
    if page < SINGLE_END:
        return SINGLE_END
    return map.end_of_block(page) if map.has_slot(arena, f, map.DOUBLE) else e.MOST_PAGES


@subroutine
def reach(s, arena, f, page, want):
    """Add the missing pointer blocks for `page`; return how many of `want` pages get a block at once.

    Below a new pointer block, all of its pages get blocks at once.  Below an existing one, only `page` does: the preceding look-up
    there reports a hole of one page (ext4_ind_map_blocks without CREATE).  Linux 6.12 remembers the hole that a look-up reports,
    so the rest of the hole in which a pointer block was missing gets blocks at once later, too.
    """
    before, end = s.new_pointers, hole_end(arena, f, page)
    count = map.reach(s, arena, f, page, want)
    if s.remembers_holes == 0 or arena[f + e.IS_DIR]:
        return count if s.new_pointers > before else 1
    is_known = arena[f + HOLE] <= page < arena[f + HOLE_END]
    if s.new_pointers > before and not is_known:
        arena[f + HOLE], arena[f + HOLE_END] = page, end
    return count if s.new_pointers > before or is_known else 1


@subroutine
def forget_hole(s, arena, f, page, end):
    """Forget the pages of the remembered hole from `page` on, which are truncated (ext4_es_remove_extent)."""
    if arena[f + e.IS_DIR] == 0:
        arena[f + HOLE_END] = min(arena[f + HOLE_END], page)


@subroutine
def drop_hole(s, arena, f):
    """Forget the remembered hole of a deleted file."""
    if arena[f + e.IS_DIR] == 0:
        arena[f + HOLE], arena[f + HOLE_END] = 0, 0


@subroutine
def piece_after(page, end, start, stop):
    """Return, as (first page, page after it), the part of [page, end) that is freed after [start, stop) (ext4_ind_truncate).

    The pages that the inode points to are freed first, then those of the single-indirect block, then those of the pointer block
    that also has pages that are kept.  The remaining pointer blocks are freed from the last to the first (ext4_free_branches).
    """
    if stop == 0 and page != SINGLE_END:
        return page, min(end, map.end_of_block(page))
    if stop and start < map.DIRECT:
        return map.DIRECT, min(end, SINGLE_END)
    if stop == 0 or start < SINGLE_END or start == page != SINGLE_END:
        last = map.DIRECT + (end - 1 - map.DIRECT >> map.FAN_SHIFT << map.FAN_SHIFT)
        return (last, end) if last >= max(SINGLE_END, stop) else (end, end)
    before = start - (1 << map.FAN_SHIFT)
    least = SINGLE_END if page <= SINGLE_END else map.end_of_block(page)
    return (before, start) if before >= least else (end, end)


HOOKS = {**metadata.HOOKS, "forget": forget, "sync": sync}
