"""Delayed allocation, and the calls that store pages early: hooks of a family (see `scmsim.jit.binding`).

A block is promised to a dirty page if it is reserved for the page and not yet allocated.  By default a file leaves the queue of
dirty files when its last dirty page is stored, and no call stores pages early.  ext4 binds its rules (`fs/ext4/delayed.py`).
"""

from scmsim.fs.linux.dirty_queue import queue_dirty, unqueue_clean
from scmsim.jit import subroutine

HURRIES = False  # whether rename and punching a hole store some dirty pages first
MERGES_LATE = False  # whether a step of write-back continues to the end of its last run of pages


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
    """Remove a deleted file from the state of delayed allocation."""


@subroutine
def promise(s, arena, f, count):
    """Add `count`, which may be negative, to the number of blocks that are promised to a file's dirty pages."""
    s.reserved += count


@subroutine
def is_promised(arena, f):
    """Return whether a file has a dirty page that waits for its promised block."""
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
