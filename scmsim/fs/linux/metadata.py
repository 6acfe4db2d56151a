"""Handle changed metadata blocks: hooks of a family (see `scmsim.jit.binding`).

By default they do nothing: a file system in memory has no such blocks.  ext4 binds its journal, ext2 a list of blocks that are
written in place.
"""

from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.engine.operations import DONE, NO_ROOM
from scmsim.fs.linux import templates as q
from scmsim.jit import subroutine


@subroutine
def join(s, arena, block):
    """Add the changed metadata block `block` to the running transaction."""


@subroutine
def join_orphans(s, arena):
    """Record a change of the orphan list, whose head is in the superblock."""


@subroutine
def forget(s, arena, block):
    """Drop the freed metadata block `block`: its old content must not be stored any more."""


@subroutine
def charge_joins(s, out):
    """Charge the cost of an operation's changed blocks, after the operation; emits at most 1 event."""


@subroutine
def commit(s, arena, out):
    """Commit the changes; return False if the event buffer is full, or the log is, which sets `s.want_checkpoint`."""
    return True


@subroutine
def checkpoint(s, arena, out):
    """Write the log's blocks in place; emits at most 2 events per logged block and 2 more."""


@subroutine
def sync(s, arena, out, op, f):
    """Finish an fsync after the file's data; return the outcome."""
    if not reserve_events(s, out, 16):
        return NO_ROOM
    emit_template(s, out, q.FSYNC)
    return DONE
