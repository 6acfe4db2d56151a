"""Delayed allocation, and the calls that store pages early: hooks of a family (see `scmsim.jit.binding`).

By default a file leaves the queue of dirty files when its last dirty page is stored, and no call stores pages before their time.
ext4 binds its rules (`fs/ext4/delayed.py`).
"""

from scmsim.fs.linux.dirty_queue import queue_dirty, unqueue_clean
from scmsim.jit import subroutine

HURRIES = False  # whether some calls on names and holes store a file's pages first
MERGES_LATE = False  # whether a step of write-back goes on to the end of its last extent


@subroutine
def began_dirty(s, arena, row, f):
    """Note a file's first dirty page."""
    queue_dirty(s, arena, row, f)


@subroutine
def changed(s, arena, row, f):
    """Note a change of a file's inode other than by a write."""


@subroutine
def left_clean(s, arena, f):
    """Note that a file has no dirty pages left."""
    unqueue_clean(s, arena, f)


@subroutine
def stored(s, arena, f):
    """Note that the flusher thread has stored all pages of a file."""


@subroutine
def forget(s, arena, f):
    """Drop a deleted file from the state of delayed allocation."""


@subroutine
def promise(s, arena, f, count):
    """Add to the blocks that a file's dirty pages are promised; `count` may be negative."""
    s.reserved += count


@subroutine
def is_promised(arena, f):
    """Return whether a file has a dirty page that is promised a block and has none yet."""
    return False


@subroutine
def served(s, arena, f):
    """Note that write-back gave promised blocks to a file."""


@subroutine
def emptied(arena, f):
    """Note that a file was truncated to zero length."""


@subroutine
def closed(arena, f):
    """Note a close of a file."""


@subroutine
def closes_late(arena, f):
    """Return whether a close of the file must store its pages first."""
    return False
