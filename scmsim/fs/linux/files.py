"""ext4's files: records of the files that the trace touches, their inodes, directory entries.

Inode numbers are used again in the order last freed, first used (ext4: the lowest free one).  A directory with one
block is linear; a larger one is an index block and leaves, an entry lies in the leaf that its hash names.  Source:
Linux fs/ext4/{inode.c,ialloc.c,namei.c}.
"""

from scmsim.fs.engine.arena import take
from scmsim.fs.engine.events import play
from scmsim.fs.ext2.inodes import passed_over
from scmsim.fs.ext4.dirs import look_at_entries
from scmsim.fs.ext4.jbd2 import join
from scmsim.fs.linux import recipes as q
from scmsim.fs.linux import state as e
from scmsim.jit import part


@part
def new_record(s, arena, row):
    """Record of a new file: empty, with an inode number.  Takes 2**RECORD_ORDER words."""
    f = take(s, arena, e.RECORD_ORDER)
    arena[row + e.ROW_RECORD] = f
    arena[f + e.PARENT] = s.rows + (s.row_count - 1) * e.ROW_WORDS
    arena[f + e.LINKS] = 1
    arena[f + e.STAMP] = -1
    if s.free_inode_count:
        s.free_inode_count -= 1
        arena[f + e.INODE] = arena[s.free_inodes + s.free_inode_count]
    elif row == arena[f + e.PARENT]:
        arena[f + e.INODE] = e.ROOT_INODE
    else:
        arena[f + e.INODE] = s.next_inode
        s.next_inode += 1
    return f


@part
def dirty_inode(s, arena, f, out):
    """A file's inode changed (ext4_mark_inode_dirty): its table block joins, and an fsync has to commit this
    transaction (without one, the driver of ext4 does not tell it of a size or a link)."""
    inode = arena[f + e.INODE] - 1
    block = s.inode_table_at + inode // e.INODES_PER_BLOCK
    join(s, arena, block)
    if not s.by_ext4:
        arena[f + e.TID] = s.tid
    s.reg[q.SLOT] = q.BUFFERS + block * e.BLOCK + inode % e.INODES_PER_BLOCK * 256
    play(s, out, q.DIRTY_INODE)


@part
def entry_bytes(arena, row):
    """Bytes of a file's directory entry: 8 and the name, rounded up to 4."""
    return (11 + arena[row + e.ROW_NAME]) & ~3


@part
def leaves_needed(s, arena, row, d):
    """Blocks that directory `d` grows by when it takes the entry of the file of table row `row`."""
    if s.in_memory:
        return 0
    used = arena[d + e.ENTRIES] + entry_bytes(arena, row)
    blocks = arena[d + e.END]
    if s.indirect and not s.by_ext4:
        return 1 if used + e.DOTS > blocks * e.BLOCK else 0
    if blocks <= 1:
        return 2 if used > e.DIR_LEAF_FULL else 1 - blocks
    return 1 if used > (blocks - 1) * e.DIR_LEAF_FILL else 0


@part
def scan_entries(s, arena, row, d, out, searched):
    """ext2: a directory's entries are looked at one after the other (ext2_find_entry, ext2_add_link)."""
    s.reg[q.SCANNED], s.reg[q.BYTES] = searched // entry_bytes(arena, row), searched
    s.reg[q.FROM] = arena[arena[d + e.PAGES]] >> e.BLOCK_SHIFT << 12
    play(s, out, q.SCAN)


@part
def change_entry(s, arena, row, d, out, change):
    """The directory block that holds the entry of table row `row`, and the directory's inode, change; takes 8
    events.  `change`: the entry GOES, COMES or is RENAMED.

    A linear directory of ext2 is searched twice for a name that is added, for the name and for room, else from the start of the
    block that the last search ended in: half a block on average.
    """
    blocks = arena[d + e.END]
    if blocks:
        page = 0
        linear = s.indirect and not s.by_ext4
        if linear:
            used = arena[d + e.ENTRIES]
            scan_entries(s, arena, row, d, out, 2 * used if change else min(used, e.BLOCK) >> 1)
        else:
            look_at_entries(s, arena, row, d, change)
        if linear and change:
            page = blocks - 1
        elif linear:
            page = ((row - s.rows) // e.ROW_WORDS * e.HASH_FACTOR >> 8) % blocks
        elif blocks > 1:
            page = 1 + ((row - s.rows) // e.ROW_WORDS * e.HASH_FACTOR >> 8) % (blocks - 1)
        block = arena[arena[d + e.PAGES] + page] >> e.BLOCK_SHIFT
        join(s, arena, block)
        s.reg[q.FROM] = block * e.BLOCK
        play(s, out, q.NAME)
    dirty_inode(s, arena, d, out)


@part
def change_inode_use(s, arena, f):
    """A file's inode is taken or given back: the inode bitmap and the group descriptor join."""
    group = (arena[f + e.INODE] - 1) // s.group_inodes
    join(s, arena, s.inode_bitmap_at + group)
    join(s, arena, 1 + group // e.DESCRIPTORS_PER_BLOCK)


@part
def create(s, arena, op, row, d, out):
    """A new file with its entry in directory `d`, which has room for it; returns its record."""
    f = new_record(s, arena, row)
    if op.file2 >= 0:
        arena[f + e.PARENT] = s.rows + op.file2 * e.ROW_WORDS
    arena[f + e.OPENS], arena[f + e.FRESH] = 1, 1
    arena[d + e.ENTRIES] += entry_bytes(arena, row)
    change_entry(s, arena, row, d, out, e.COMES)
    arena[row + e.ROW_SIZE] = -1
    dirty_inode(s, arena, f, out)
    change_inode_use(s, arena, f)
    s.reg[q.SCANNED] = passed_over(s, arena, f)
    return f


@part
def call(s, arena, out, f, recipe):
    """A call that reads the inode and has a recipe of its own."""
    s.reg[q.INODE] = q.INODES + arena[f + e.INODE] * e.INODE_OBJECT
    play(s, out, recipe)
