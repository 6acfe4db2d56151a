"""Files that the trace touches: their records, their inodes, and the blocks that change with their names.

Source: Linux fs/ext4/{inode.c,ialloc.c,namei.c}.
"""

from scmsim.core import records as r
from scmsim.fs.engine.arena import take
from scmsim.fs.engine.events import emit_template
from scmsim.fs.linux import entries, inodes, metadata
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.groups import inode_bitmap, inode_block
from scmsim.jit import subroutine


@subroutine
def new_record(s, arena, row, d, is_dir):
    """Create and return the record of a new, empty file in directory `d`, with an inode; takes 2**RECORD_ORDER arena words."""
    f = take(s, arena, e.RECORD_ORDER)
    arena[row + e.ROW_RECORD] = f
    arena[f + e.PARENT] = s.rows + (s.row_count - 1) * e.ROW_WORDS
    arena[f + e.LINKS] = 1
    arena[f + e.STAMP] = -1  # equals no time stamp, so the first write sets the times
    arena[f + e.INODE] = inodes.take_number(s, arena, row, d, is_dir)
    return f


@subroutine
def dirty_inode(s, arena, out, f):
    """Record the change of a file's inode (ext4_mark_inode_dirty): its block of the inode table joins the transaction."""
    inode = arena[f + e.INODE]
    block = inode_block(s, inode)
    metadata.join(s, arena, block)
    inodes.note_change(s, arena, f)
    s.reg[q.SLOT] = q.BUFFERS + block * e.BLOCK + (inode - 1) % e.INODES_PER_BLOCK * 256
    emit_template(s, out, q.DIRTY_INODE)


@subroutine
def entry_bytes(arena, row):
    """Return the size in bytes of a file's directory entry: 8 bytes and the name, rounded up to a multiple of 4."""
    return (11 + arena[row + e.ROW_NAME]) & ~3


@subroutine
def change_entry(s, arena, out, row, d, change):
    """Change the directory block that holds the entry of table row `row`, and the directory's inode.

    Emits at most 8 events.  `change`: the entry is ENTRY_REMOVED, ENTRY_ADDED or ENTRY_RENAMED.
    """
    if arena[d + e.PAGE_COUNT]:
        page = entries.search(s, arena, out, row, d, change)
        block = arena[arena[d + e.PAGES] + page] >> e.BLOCK_SHIFT
        metadata.join(s, arena, block)
        s.reg[q.FROM] = block * e.BLOCK
        emit_template(s, out, q.NAME)
    dirty_inode(s, arena, out, d)


@subroutine
def change_inode_use(s, arena, f):
    """Record the allocation or freeing of a file's inode: the inode bitmap and the group descriptor join the transaction."""
    group = (arena[f + e.INODE] - 1) // s.group_inodes
    metadata.join(s, arena, inode_bitmap(s, group))
    metadata.join(s, arena, 1 + group // e.DESCRIPTORS_PER_BLOCK)


@subroutine
def make(s, arena, op, row, d):
    """Create and return the record of a file that will have an entry in directory `d`."""
    f = new_record(s, arena, row, d, op.op == r.MKDIR)
    inodes.begin_group(s, arena)
    if op.parent >= 0:
        arena[f + e.PARENT] = s.rows + op.parent * e.ROW_WORDS
    arena[f + e.OPENS], arena[f + e.FRESH] = 1, 1
    return f


@subroutine
def enter(s, arena, out, row, d, f):
    """Add the entry of a new file to directory `d`, which has room for it."""
    arena[d + e.ENTRIES] += entry_bytes(arena, row)
    change_entry(s, arena, out, row, d, e.ENTRY_ADDED)
    arena[row + e.ROW_SIZE] = -1
    dirty_inode(s, arena, out, f)
    change_inode_use(s, arena, f)
    s.reg[q.SCANNED] = inodes.passed_over(s, arena, f)


@subroutine
def call(s, arena, out, f, template):
    """Set the register INODE to the file's inode object, and emit the template of a call."""
    s.reg[q.INODE] = q.INODES + arena[f + e.INODE] * e.INODE_OBJECT
    emit_template(s, out, template)
