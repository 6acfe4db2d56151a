"""Names and inodes of XFS: what create, unlink, rename, link, mkdir and rmdir log and free.

A file without a name is freed at once, or at its last close if the trace has close operations (xfs_inactive).  The
first call for a file allocates, without events, the inode and blocks that it had before the trace.  Directory entries from before
the trace are not modelled.  Source: Linux 5.13 fs/xfs/{xfs_inode.c: xfs_create, xfs_link,
xfs_remove, xfs_rename, xfs_inactive}.
"""

from scmsim.core import records as r
from scmsim.fs.engine import table
from scmsim.fs.engine.arena import give, has_room, take
from scmsim.fs.engine.operations import DONE, FULL
from scmsim.fs.linux import pages
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.files import call
from scmsim.fs.xfs import state as n
from scmsim.fs.xfs.data import add_blocks, unreserved
from scmsim.fs.xfs.dirs import (
    add_entry,
    blocks_to_add,
    entry_bytes,
    log_directory,
    remove_entry,
    show_block,
    to_inode,
)
from scmsim.fs.xfs.inodes import give_inode, inode_block, take_inode
from scmsim.fs.xfs.log import (
    add_bytes,
    log_buffer,
    log_free_space,
    log_inode,
    log_inode_use,
    new_buffer,
)
from scmsim.jit import subroutine

UNLINKED = 40  # byte offset of the 64 lists of unlinked inodes in a group's header


@subroutine
def has_item(s, arena, f):
    """Create the log item of a file's inode if it has none; allocates at most 8 arena words."""
    inode = arena[f + e.INODE]
    if table.get(arena, s.inode_items, inode) == 0:
        item = new_buffer(s, arena, inode)
        arena[item + n.MARK] = n.IS_INODE
        table.put(arena, s.inode_items, inode, item)


@subroutine
def new_record(s, arena, row, inode):
    """Create and return the record of a file with inode number `inode`.

    Takes 2**RECORD_ORDER arena words, and those of a log item.
    """
    f = take(s, arena, e.RECORD_ORDER)
    arena[row + e.ROW_RECORD] = f
    arena[f + e.PARENT] = s.rows + (s.row_count - 1) * e.ROW_WORDS
    arena[f + e.LINKS], arena[f + e.STAMP], arena[f + e.INODE] = 1, -1, inode
    has_item(s, arena, f)
    return f


@subroutine
def touch(s, arena, row):
    """Return the record of the file of table row `row`; 0 if the arena must grow first.

    The first call for a file allocates, without events, the inode and blocks that it had before the trace.
    """
    f = arena[row + e.ROW_RECORD]
    if f:
        return f
    is_dir = arena[row + e.ROW_DIR]
    size = 0 if is_dir else max(arena[row + e.ROW_SIZE], 0)
    count = (size + e.BLOCK - 1) // e.BLOCK
    if not has_room(s, arena, n.WORDS + 2 * count + 4 * s.inode_count):
        return 0
    inode = take_inode(s, arena, n.ROOT_INODE, is_dir)
    f = new_record(s, arena, row, inode if inode >= 0 else n.SHARED_INODE)
    arena[f + e.IS_DIR], arena[f + e.SIZE], arena[f + n.DISK_SIZE] = is_dir, size, size
    if count:
        table.reserve(s, arena, f + e.PAGES, count)
    page = 0
    while page < count and unreserved(s) > 0:
        page += add_blocks(s, arena, f, page, min(count - page, unreserved(s)), 0)
    return f


@subroutine
def destroy(s, arena, out, row, f):
    """Free the blocks, inode and record of a file or directory without a link (xfs_inactive); emits at most 8 events."""
    if arena[f + e.IS_DIR]:
        to_inode(s, arena, f)
    elif arena[f + e.MAPPED]:
        pages.free_pages(s, arena, out, f, 0, arena[f + e.PAGE_COUNT])
    inode = arena[f + e.INODE]
    arena[arena[arena[s.inode_items] + inode] + n.MASK] = 0
    unlinked = UNLINKED + 4 * (inode % n.CHUNK_INODES)
    log_inode_use(s, arena, inode, unlinked, unlinked + 3)  # xfs_iunlink_remove
    log_inode_use(s, arena, inode, 0, UNLINKED - 1)  # xfs_difree
    log_inode(s, arena, out, f)
    if inode != n.SHARED_INODE:
        give_inode(s, arena, inode)
    s.freed_inodes += 1
    table.drop(s, arena, f + e.PAGES)
    table.drop(s, arena, f + e.LEAVES)
    give(s, arena, f, e.RECORD_ORDER)
    arena[row + e.ROW_RECORD], arena[row + e.ROW_SIZE], arena[row + e.ROW_DIR] = 0, -1, 0


@subroutine
def create(s, arena, out, op, row, d):
    """Run create or mkdir: add a file or directory with its entry in directory `d`; return the outcome."""
    if blocks_to_add(s, arena, row, d) > unreserved(s):
        return FULL
    inode = take_inode(s, arena, arena[d + e.INODE], op.op == r.MKDIR)
    if inode < 0:
        return FULL
    f = new_record(s, arena, row, inode)
    if s.new_chunk:
        add_bytes(s, n.ICREATE)  # xfs_icreate_log
        log_free_space(s, arena, inode_block(s, arena, inode))
    if op.parent >= 0:
        arena[f + e.PARENT] = s.rows + op.parent * e.ROW_WORDS
    log_inode_use(s, arena, arena[f + e.INODE], 0, UNLINKED - 1)
    if op.op == r.MKDIR:
        arena[f + e.IS_DIR] = 1
        arena[arena[arena[s.inode_items] + arena[f + e.INODE]] + n.MASK] = 8
    else:
        arena[f + e.OPENS] = 1
    log_inode(s, arena, out, f)
    add_entry(s, arena, out, row, d)
    call(s, arena, out, f, q.MKDIR if op.op == r.MKDIR else q.CREATE)
    return DONE


@subroutine
def unlinked(s, arena, out, f):
    """Record that a file lost a link but is not freed yet; with no link left, it joins its group's unlinked inodes."""
    if arena[f + e.LINKS] <= 0:
        at = UNLINKED + 4 * (arena[f + e.INODE] % n.CHUNK_INODES)
        log_inode_use(s, arena, arena[f + e.INODE], at, at + 3)  # xfs_iunlink
    log_inode(s, arena, out, f)


@subroutine
def move_entry(s, arena, out, row, d, replaces):
    """Run rename: add the new name, then remove the old one; return the outcome.

    If the rename replaces a file and the old entry's place is known, `give_way` changes the entries later.
    """
    f = arena[row]
    s.mover = row if replaces and arena[f + n.KNOWN] else 0
    if not s.mover and blocks_to_add(s, arena, row, d) > unreserved(s):
        return FULL
    call(s, arena, out, f, q.RENAME)
    if s.mover:
        show_block(s, arena, out, d)
        log_directory(s, arena, out, d)
    elif arena[f + n.KNOWN] == 0:
        remove_entry(s, arena, out, row, d)
        add_entry(s, arena, out, row, d)
    else:
        newest, before = arena[f + n.ENTRY], arena[f + n.OLDER_ENTRY]
        add_entry(s, arena, out, row, d)
        # remove_entry() removes the newest entry: swap old and new
        arena[f + n.OLDER_ENTRY], arena[f + n.ENTRY] = arena[f + n.ENTRY], newest
        remove_entry(s, arena, out, row, d)
        arena[f + n.OLDER_ENTRY] = before
    log_inode(s, arena, out, f)
    return DONE


@subroutine
def data_item(arena, d, entry):
    """Return (log item of the data block, byte offset in it) of an entry of directory `d`."""
    item = table.get(arena, d + e.PAGES, entry >> 12)
    if item == 0:  # the name moved when the directory changed its form
        return table.get(arena, d + e.PAGES, 0), 0
    return item, entry & 4095


@subroutine
def give_way(s, arena, out, row, d):
    """Remove the name of a file (table row `row`) that a rename has replaced.

    The renamed file takes over the replaced file's entry, so only the renamed file's old entry is removed (xfs_rename:
    xfs_dir_replace, xfs_dir_removename).  The directory never holds an extra name in between, so its form (inline, block, leaf)
    never has to grow.
    """
    if s.mover and arena[arena[row] + n.KNOWN]:
        f, g = arena[s.mover], arena[row]
        arena[f + n.ENTRY], arena[g + n.ENTRY] = arena[g + n.ENTRY], arena[f + n.ENTRY]
        if arena[d + n.FORM] != n.IN_INODE:
            item, at = data_item(arena, d, arena[f + n.ENTRY])
            more = entry_bytes(arena, s.mover) - entry_bytes(arena, row)
            arena[item + n.FILL] += more
            log_buffer(s, arena, item, at, at + entry_bytes(arena, s.mover) - 1)
            item, at = data_item(arena, d, arena[g + n.ENTRY])
            arena[item + n.FILL] -= more
    remove_entry(s, arena, out, row, d)


@subroutine
def link(s, arena, out, op, row, d):
    """Run link: add another entry in directory `d`; return the outcome."""
    if blocks_to_add(s, arena, row, d) > unreserved(s):
        return FULL
    f = arena[row]
    arena[f + e.LINKS] += 1
    add_entry(s, arena, out, row, d)
    log_inode(s, arena, out, f)
    call(s, arena, out, f, q.LINK)
    return DONE


@subroutine
def words_needed(s, arena, d):
    """Return the maximum number of arena words that a call on a name in directory `d` needs."""
    return n.WORDS + 4 * (s.inode_count + arena[d + e.PAGE_COUNT] + arena[d + e.LEAF_COUNT])


HOOKS = {
    "touch": touch,
    "destroy": destroy,
    "add_file": create,
    "link": link,
    "remove_entry": remove_entry,
    "unlinked": unlinked,
    "move_entry": move_entry,
    "give_way": give_way,
    "words_needed": words_needed,
}
