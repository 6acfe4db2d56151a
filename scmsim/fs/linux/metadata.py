"""What becomes of metadata blocks that change: hooks of a family (see `scmsim.jit.binding`).

By default nothing: a file system in memory has no such blocks.  ext4 binds its journal, ext2 a list of blocks that are stored in
place.
"""

from scmsim.fs.engine.events import emit_recipe, has_events
from scmsim.fs.engine.operations import DONE, NO_ROOM
from scmsim.fs.linux import recipes as q
from scmsim.jit import subroutine


@subroutine
def join(s, arena, block):
    """Metadata block `block` changed."""


@subroutine
def join_orphans(s, arena):
    """The list of orphans, which begins in the superblock, changed."""


@subroutine
def forget(s, arena, block):
    """Metadata block `block` was freed: what it held must not be stored any more."""


@subroutine
def charge_joins(s, out):
    """After an operation: what it costs that blocks changed; takes an event."""


@subroutine
def commit(s, arena, out):
    """Store what changed; False: the buffer has no room for that, or the log has none (`s.want_checkpoint`)."""
    return True


@subroutine
def checkpoint(s, arena, out):
    """Write in place what the log holds.  Takes at most 2 events for each held block and 2 more."""


@subroutine
def sync(s, arena, out, op, f):
    """The end of an fsync, after the file's data; returns the outcome."""
    if not has_events(s, out, 16):
        return NO_ROOM
    emit_recipe(s, out, q.FSYNC)
    return DONE
