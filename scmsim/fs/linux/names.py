"""Calls that change names: the metadata blocks that they change, and the blocks that they free.

A file that existed before the trace gets its inode and blocks, without events, when it is first touched.  Directories
never shrink.  A file without a name is freed at once, or at its last close if the trace has close operations.
Source: Linux fs/ext4/{namei.c,inode.c}.
"""

from scmsim.core import records as r
from scmsim.fs.engine import table
from scmsim.fs.engine.arena import give, has_room
from scmsim.fs.engine.events import emit_template
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.linux import delayed, entries, index, inodes, lookups, metadata, pages, placement
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.blocks import (
    PREALLOCATION,
    add_blocks,
    add_changed,
    blocks_left,
    last_of_folio,
    reserve_pages,
)
from scmsim.fs.linux.files import (
    call,
    change_entry,
    change_inode_use,
    dirty_inode,
    enter,
    entry_bytes,
    make,
    new_record,
)
from scmsim.jit import subroutine


@subroutine
def touch(s, arena, row):
    """Return the record of the file of table row `row`; 0 if the arena must grow first.

    The first call for a file allocates, without events, the blocks that the file had before the trace.
    """
    f = arena[row + e.ROW_RECORD]
    if f:
        return f
    is_dir = arena[row + e.ROW_DIR]
    size = max(arena[row + e.ROW_SIZE], 0)
    count = (size + e.BLOCK - 1) // e.BLOCK
    if is_dir:
        count = entries.FIRST_BLOCKS
    if not has_room(s, arena, e.ROOM + 3 * last_of_folio(s, count) + PREALLOCATION * min(count + 1, e.FLUSH_PAGES)):
        return 0
    inodes.age(s, arena)
    f = new_record(s, arena, row, inodes.folder_of(s, arena, row), is_dir)
    arena[f + e.IS_DIR], arena[f + e.SIZE], arena[f + e.READ_STAMP] = is_dir, size, -1
    if count:
        reserve_pages(s, arena, f, count - 1)
    page = 0
    while page < count and blocks_left(s) > index.MOST_ABOVE:
        more = index.whole(s, arena, f, page, count - page, s.page_bits)
        page += more if more else add_blocks(s, arena, f, page, count - page, s.page_bits)
    if is_dir:
        s.meta_blocks += page
        s.data_blocks -= page
    else:
        arena[f + e.MAPPED] = page
    placement.discard_preallocations(s, arena, f)
    return f


@subroutine
def destroy(s, arena, out, row, f):
    """Free the blocks, inode and record of a file or directory without a link (ext4_evict_inode); emits at most 3 events."""
    dirty_inode(s, arena, out, f)
    metadata.join_orphans(s, arena)
    change_inode_use(s, arena, f)
    if arena[f + e.IS_DIR]:
        for i in range(arena[f + e.PAGES], arena[f + e.PAGES] + arena[f + e.PAGE_COUNT]):
            # revoke the block: a later replay of its old image would destroy its next content
            metadata.forget(s, arena, arena[i] >> e.BLOCK_SHIFT)
        s.meta_blocks -= arena[f + e.PAGE_COUNT]
        s.data_blocks += arena[f + e.PAGE_COUNT]
    placement.discard_preallocations(s, arena, f)
    pages.free_pages(s, arena, out, f, 0, arena[f + e.PAGE_COUNT])
    pages.free_leaves(s, arena, f, 0)
    inodes.give_number(s, arena, f)
    table.drop(s, arena, f + e.PAGES)
    table.drop(s, arena, f + e.LEAVES)
    lookups.drop(s, arena, f)
    delayed.forget(s, arena, f)
    give(s, arena, f, e.RECORD_ORDER)
    arena[row + e.ROW_RECORD], arena[row + e.ROW_SIZE], arena[row + e.ROW_DIR] = 0, e.REMOVED, 0


@subroutine
def grow_directory(s, arena, d, count):
    """Give directory `d` `count` more blocks; its first block, an index block, changes too."""
    for page in range(arena[d + e.PAGE_COUNT], arena[d + e.PAGE_COUNT] + count):
        reserve_pages(s, arena, d, page)
        add_changed(s, arena, d, page, 1, 0)
        metadata.join(s, arena, arena[arena[d + e.PAGES] + page] >> e.BLOCK_SHIFT)
        metadata.join(s, arena, arena[arena[d + e.PAGES]] >> e.BLOCK_SHIFT)
    s.data_blocks -= count
    s.meta_blocks += count


@subroutine
def growth_for(s, arena, op, row, d):
    """Return by how many blocks directory `d` must grow for a new entry; -1 if not enough blocks or no inode is left."""
    more = entries.growth(s, arena, row, d)
    blocks = more + (op.op == r.MKDIR) * entries.FIRST_BLOCKS
    if blocks and blocks + index.MOST_ABOVE > blocks_left(s):
        return -1
    inodes.age(s, arena)
    return -1 if op.op != r.LINK and inodes.all_used(s) else more


@subroutine
def add_file(s, arena, out, op, row, d):
    """Run create or mkdir: add a file or directory with its entry in directory `d`; return the outcome."""
    more = growth_for(s, arena, op, row, d)
    if more < 0:
        return FULL
    f = make(s, arena, op, row, d)
    if op.op == r.MKDIR:
        arena[f + e.IS_DIR], arena[f + e.OPENS] = 1, 0
        grow_directory(s, arena, f, entries.FIRST_BLOCKS)
    grow_directory(s, arena, d, more)
    enter(s, arena, out, row, d, f)
    call(s, arena, out, f, q.MKDIR if op.op == r.MKDIR else q.CREATE)
    return DONE


@subroutine
def link(s, arena, out, op, row, d):
    """Run link: add another entry of a file in directory `d`; return the outcome."""
    more = growth_for(s, arena, op, row, d)
    if more < 0:
        return FULL
    grow_directory(s, arena, d, more)
    f = arena[row]
    arena[f + e.LINKS] += 1
    arena[d + e.ENTRIES] += entry_bytes(arena, row)
    change_entry(s, arena, out, row, d, e.ENTRY_ADDED)
    dirty_inode(s, arena, out, f)
    call(s, arena, out, f, q.LINK)
    return DONE


@subroutine
def remove_entry(s, arena, out, row, d):
    """Remove the entry of table row `row` from directory `d`."""
    arena[d + e.ENTRIES] = max(arena[d + e.ENTRIES] - entry_bytes(arena, row), 0)
    change_entry(s, arena, out, row, d, e.ENTRY_REMOVED)


@subroutine
def unlinked(s, arena, out, f):
    """Record that a file that is not freed yet lost a link; without any link left, it joins the orphan list."""
    dirty_inode(s, arena, out, f)
    if arena[f + e.LINKS] <= 0:
        metadata.join_orphans(s, arena)


@subroutine
def lose_link(s, arena, out, row, f):
    """Remove one link of a file; with the last link, free the file unless it is open.  Return whether the file is gone."""
    arena[f + e.LINKS] -= 1
    if arena[f + e.LINKS] <= 0 and not (s.closes and arena[f + e.OPENS] > 0):
        destroy(s, arena, out, row, f)
        return True
    unlinked(s, arena, out, f)
    return False


@subroutine
def move_entry(s, arena, out, row, d, replaces):
    """Move the entry of a renamed file; `replaces` if the new name is another file's; return the outcome."""
    if not replaces:
        more = entries.growth_by_rename(s, arena, row, d)
        if more and more + index.MOST_ABOVE > blocks_left(s):
            return FULL
        grow_directory(s, arena, d, more)
    f = arena[row]
    change_entry(s, arena, out, row, d, e.ENTRY_RENAMED)
    dirty_inode(s, arena, out, f)
    call(s, arena, out, f, q.RENAME)
    return DONE


@subroutine
def give_way(s, arena, out, row, d):
    """Remove from directory `d` the entry of the file (table row `row`) that a rename has replaced."""


@subroutine
def rename(s, arena, out, op, row, d):
    """Run rename, which may replace another file; return the outcome."""
    replaced = s.rows + op.replaced * e.ROW_WORDS
    replaces = op.replaced >= 0 and replaced != row
    outcome = move_entry(s, arena, out, row, d, replaces)
    if outcome == DONE and replaces:
        if arena[replaced]:
            give_way(s, arena, out, replaced, d)
            lose_link(s, arena, out, replaced, arena[replaced])
        arena[replaced + e.ROW_SIZE] = -1
    return outcome


@subroutine
def parent_row(s, arena, op, row):
    """Return the table row of the directory that an operation changes; the root directory's row if it is unknown."""
    if op.op != r.RENAME and op.parent >= 0:
        return s.rows + op.parent * e.ROW_WORDS
    if arena[row]:
        return arena[arena[row] + e.PARENT]
    return s.rows + (s.row_count - 1) * e.ROW_WORDS


@subroutine
def as_directory(s, arena, d):
    """Mark record `d` as a directory and return it (0 stays 0).

    If the record is a file with content (the trace confused two ids), return the root's record instead.
    """
    if d == 0 or arena[d + e.IS_DIR]:
        return d
    if arena[d + e.SIZE] or arena[d + e.PAGE_COUNT]:
        return arena[s.rows + (s.row_count - 1) * e.ROW_WORDS]
    lookups.drop(s, arena, d)
    delayed.forget(s, arena, d)
    arena[d + e.IS_DIR] = 1
    return d


@subroutine
def words_needed(s, arena, d):
    """Return the maximum number of arena words that a call on a name in directory `d` needs."""
    return 4 * (e.ROOM + last_of_folio(s, arena[d + e.PAGE_COUNT]))


@subroutine
def change_names(s, arena, out, op, row):
    """Run create, mkdir, unlink, rmdir, rename or link; return the outcome."""
    d = as_directory(s, arena, touch(s, arena, parent_row(s, arena, op, row)))
    if d == 0 or not has_room(s, arena, words_needed(s, arena, d)):
        return NO_ROOM
    makes = op.op == r.CREATE or op.op == r.MKDIR
    if makes and arena[row] == 0 and arena[row + e.ROW_SIZE] < 0:
        return add_file(s, arena, out, op, row, d)
    f = touch(s, arena, row)
    if f == 0:
        return NO_ROOM
    if op.op == r.LINK:
        return link(s, arena, out, op, row, d)
    s.reg[q.INODE] = q.INODES + arena[f + e.INODE] * e.INODE_OBJECT
    if op.op == r.RENAME:
        return rename(s, arena, out, op, row, d)
    if makes:
        arena[f + e.OPENS] += op.op == r.CREATE
        emit_template(s, out, q.OPEN)
        return DONE
    remove_entry(s, arena, out, row, d)
    gone = lose_link(s, arena, out, row, f)
    emit_template(s, out, q.RMDIR if op.op == r.RMDIR else (q.REMOVE if gone else q.UNLINK))
    return DONE
