"""Keep the queue of dirty files, oldest first (Linux fs/fs-writeback.c: b_dirty).

A file that is in the queue has a number other than 0 in its record's OLDER.
"""

from scmsim.fs.linux import state as e
from scmsim.jit import subroutine


@subroutine
def queue_dirty(s, arena, row, f):
    """Append a file that just became dirty to the queue of dirty files."""
    arena[f + e.DIRTY_SINCE_NS] = s.now
    arena[f + e.OLDER] = s.newest
    arena[f + e.NEWER] = -1
    if s.newest >= 0:
        arena[arena[s.newest] + e.NEWER] = row
    else:
        s.oldest = row
    s.newest = row


@subroutine
def unqueue_clean(s, arena, f):
    """Remove a file without dirty pages from the queue of dirty files."""
    older = arena[f + e.OLDER]
    newer = arena[f + e.NEWER]
    if older >= 0:
        arena[arena[older] + e.NEWER] = newer
    else:
        s.oldest = newer
    if newer >= 0:
        arena[arena[newer] + e.OLDER] = older
    else:
        s.newest = older
    arena[f + e.OLDER] = 0
