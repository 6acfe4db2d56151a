"""Delayed allocation of ext4 with the page cache: the pages that wait for blocks, and the calls that store such pages early.

A file stays in the queue of dirty files until the flusher thread has stored it, even if an fsync did so before, and changes of its
inode put it there, too.  Source: Linux 6.1 fs/ext4/{inode.c: ext4_da_update_reserve_space, ext4_alloc_da_blocks; file.c:
ext4_release_file}, fs/fs-writeback.c: __mark_inode_dirty.
"""

from scmsim.fs.linux import placement
from scmsim.fs.linux import state as e
from scmsim.fs.linux.dirty_queue import queue_dirty, unqueue_clean
from scmsim.jit import subroutine

# Words of a regular file's record that only a directory uses otherwise:
PROMISED = e.FIRST_ENTRY_SLOT  # dirty pages without a block (i_reserved_data_blocks)
EMPTIED = e.LAST_GROUP  # 1: truncated to zero length since its last close (EXT4_STATE_DA_ALLOC_CLOSE)


@subroutine
def began_dirty(s, arena, row, f):
    """Note a file's first dirty page."""
    if arena[f + e.OLDER] == 0:
        queue_dirty(s, arena, row, f)


@subroutine
def changed(s, arena, row, f):
    """Note a change of a file's inode other than by a write."""
    if not s.dax and arena[f + e.OLDER] == 0:
        queue_dirty(s, arena, row, f)


@subroutine
def left_clean(s, arena, f):
    """Note that a file has no dirty pages left: it stays in the queue (filemap_write_and_wait_range)."""


@subroutine
def stored(s, arena, f):
    """Note that the flusher thread has stored all pages of a file."""
    unqueue_clean(s, arena, f)


@subroutine
def forget(s, arena, f):
    """Drop a deleted file from the state of delayed allocation."""
    if s.dax or arena[f + e.IS_DIR]:
        return
    if arena[f + e.OLDER]:
        unqueue_clean(s, arena, f)
    arena[f + PROMISED], arena[f + EMPTIED] = 0, 0


@subroutine
def promise(s, arena, f, count):
    """Add to the blocks that a file's dirty pages are promised; `count` may be negative."""
    s.reserved += count
    arena[f + PROMISED] += count


@subroutine
def is_promised(arena, f):
    """Return whether a file has a dirty page that is promised a block and has none yet."""
    return arena[f + e.IS_DIR] == 0 and arena[f + PROMISED] > 0


@subroutine
def served(s, arena, f):
    """Drop the preallocations of a closed file whose pages all have blocks (ext4_da_update_reserve_space)."""
    if arena[f + PROMISED] == 0 and s.closes > 0 and arena[f + e.OPENS] == 0:
        placement.discard_preallocations(s, arena, f)


@subroutine
def emptied(arena, f):
    """Note a truncation to zero length: the next close stores the file, in case a program rewrites it (ext4_truncate)."""
    arena[f + EMPTIED] = 1


@subroutine
def closed(arena, f):
    """Note a close of a file (ext4_release_file)."""
    if arena[f + e.IS_DIR] == 0:
        arena[f + EMPTIED] = 0


@subroutine
def closes_late(arena, f):
    """Return whether a close of the file must store its pages first (ext4_release_file)."""
    return arena[f + e.IS_DIR] == 0 and arena[f + EMPTIED] and arena[f + PROMISED] > 0


HOOKS = {
    "HURRIES": True,
    "MERGES_LATE": True,
    "began_dirty": began_dirty,
    "changed": changed,
    "left_clean": left_clean,
    "stored": stored,
    "forget": forget,
    "promise": promise,
    "is_promised": is_promised,
    "served": served,
    "emptied": emptied,
    "closed": closed,
    "closes_late": closes_late,
}
