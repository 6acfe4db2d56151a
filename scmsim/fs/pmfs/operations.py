"""PMFS's operations one by one, for pmfs-4k, pmfs-2m and pmfs-1g; other families bind subroutines of their own to them.

An operation begins only if the device surely has the blocks for it.  A long one stops between two of its tree leaves or copies
when the buffer is full, and goes on in the next call; the state's `stage` and `resume_at` tell where.
"""

from scmsim.alloc import aligned_fit, first_fit
from scmsim.core import records
from scmsim.fs.engine import calls, file_row, operations, table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_recipe, has_events
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.pmfs import dirs as dirs
from scmsim.fs.pmfs import names as names
from scmsim.fs.pmfs import recipes, state
from scmsim.fs.pmfs.copy import inode_at
from scmsim.fs.pmfs.data import read_file, replaces, write_file
from scmsim.fs.pmfs.tree import FILL_EVENTS, MOST_BLOCKS, reserve, words_for
from scmsim.jit import subroutine
from scmsim.jit.binding import bind

ADOPTS_FIRST = 0  # 1: what a file from before the trace needs is allocated before the operation's own need is counted
WRITE_EVENTS = FILL_EVENTS  # with which a write or fallocate may begin
NAME_EVENTS = 256  # of a namespace operation, without the scans of directory blocks
NODES = 8  # blocks that a tree of few blocks, or one more block of a directory, takes for nodes beside its leaves
TOO_FAR = 1 << 40  # words: more than the arena may have, so that its growth ends the replay with an error


@subroutine
def count_replaced(s, arena, op, row, first, stop):
    """Data blocks that a copy-on-write of [first, stop) takes."""
    return stop - first


@subroutine
def missing(s, arena, op, row, first, stop):
    """Data blocks of [first, stop) that the operation has to allocate."""
    if s.replacing:
        return count_replaced(s, arena, op, row, first, stop)
    count = max(stop - max(first, arena[row + state.END]), 0)
    for i in range(first, min(stop, arena[row + state.END])):
        count += table.get(arena, row + state.BLOCKS, i) == 0
    return count


@subroutine
def affordable(s, arena, data, nodes):
    """Whether the device has `data` data blocks and `nodes` single blocks: DONE or FULL; NO_ROOM: the bitmaps must grow first."""
    if data * s.unit + nodes > s.free_blocks:
        return FULL
    if not first_fit.ready(s, arena, min(s.free_blocks, data * s.unit + nodes)):
        return NO_ROOM
    if s.unit == 1 or data == 0:
        return DONE
    runs = data + (nodes > 0) + (nodes >> 9)  # the single blocks may break into aligned runs
    while aligned_fit.count_runs(s, arena, s.unit, runs) < runs:
        if s.tracked == s.blocks:
            return FULL
        held = s.free_blocks - (s.blocks - s.tracked)
        if not first_fit.ready(s, arena, min(s.free_blocks, held + runs * s.unit)):
            return NO_ROOM
    return DONE


@subroutine
def needed(s, arena, op, row):
    """Data blocks that the operation allocates; sets `replacing`."""
    s.replacing, s.singles = 0, 0
    if not calls.allocates(op):
        return 0
    if op.op == records.WRITE:
        s.replacing = replaces(s, arena, op, row)
    first, stop = op.offset >> s.shift, ((op.offset + op.length - 1) >> s.shift) + 1
    if stop - first > s.blocks:
        return stop - first
    return missing(s, arena, op, row, first, stop)


@subroutine
def moves(s, arena, op, row):
    """Data blocks that must move to fresh ones before the operation."""
    return 0


@subroutine
def move(s, arena, out, row):
    """Move what `moves` counted."""


@subroutine
def begin(s, arena, out, op, row, parent):
    """A new operation: whether the device has the blocks for it, and its file exists; DONE: it is due."""
    adopts = calls.adopts(arena, op, row)
    data, nodes, s.singles = 0, 0, 0
    if not (ADOPTS_FIRST and adopts):
        data = needed(s, arena, op, row)
        if data + s.singles > 0:
            nodes = NODES + (data >> 8) + s.singles
        data += moves(s, arena, op, row)
    if adopts and not arena[row + file_row.STATUS] & file_row.IS_DIR:
        old = (
            (arena[row + file_row.FIRST] - 1 + (1 << s.shift) - 1) >> s.shift if arena[row + file_row.FIRST] > 0 else 0
        )
        data += old
        nodes += NODES + (old >> 8)
    makes = (op.op == records.CREATE or op.op == records.MKDIR) and calls.changes_names(arena, op, row)
    if adopts or makes or op.op == records.LINK or op.op == records.RENAME:
        nodes += 2 * NODES
    fits = affordable(s, arena, data, nodes) if data + nodes > 0 else DONE
    if fits != DONE or not adopts:
        return fits
    return DONE if names.adopt(s, arena, out, row, parent) else NO_ROOM


@subroutine
def words_aside(s, arena, op):
    """Words of arena that a write takes beside those of the file's tables."""
    return 0


@subroutine
def reserve_aside(s, arena, op):
    """Grow what `words_aside` counted."""


@subroutine
def room(s, arena, out, op, row, parent):
    """Whether the operation's first piece surely fits; the tables that it changes are grown."""
    code = op.op
    if calls.allocates(op):
        stop = ((op.offset + op.length - 1) >> s.shift) + 1
        words = words_for(arena, row, stop) if stop <= MOST_BLOCKS else TOO_FAR
        if not has_room(s, arena, words + words_aside(s, arena, op)) or not has_events(s, out, WRITE_EVENTS):
            return False
        reserve(s, arena, row, stop)
        reserve_aside(s, arena, op)
        return True
    if code == records.CREATE or records.UNLINK <= code <= records.RMDIR:
        blocks = 3 * arena[parent + state.DIRCOUNT] + 3 * dircount(arena, row)
        words = 2 * dirs.words_for_name(arena, parent) + 2 * dirs.words_for_name(arena, row)
        if code == records.RENAME and op.file2 >= 0:
            blocks += 3 * dircount(arena, s.files + op.file2 * state.FILE_WORDS)
        if arena[row + state.PARENT] != 0:
            words += 2 * dirs.words_for_name(arena, arena[row + state.PARENT])
        return has_room(s, arena, words) and has_events(s, out, NAME_EVENTS + 2 * blocks)
    return has_events(s, out, 2 * FILL_EVENTS if code != records.READDIR else 8 + arena[row + state.DIRCOUNT])


@subroutine
def dircount(arena, row):
    """Blocks of the directory that a file's newest name is in."""
    return arena[arena[row + state.PARENT] + state.DIRCOUNT] if arena[row + state.PARENT] != 0 else 0


@subroutine
def read_directory(s, arena, out, row):
    """getdents: every block of the directory is read."""
    for j in range(arena[row + state.DIRCOUNT]):
        place = table.get(arena, row + state.DIRBLOCKS, j)
        s.reg[recipes.NODE], s.reg[recipes.BYTES] = arena[place + state.DIR_BLOCK] * recipes.BLOCK, recipes.BLOCK
        emit_recipe(s, out, recipes.SCAN_MATCH)
    s.reg[recipes.COUNT] = arena[row + state.DIRENTS]
    emit_recipe(s, out, recipes.READDIR)


@subroutine
def parent_of(s, arena, op):
    """Return the row of the directory that an operation names; of the unnamed one where it names what is not a directory."""
    parent = calls.parent_of(s, op)
    is_dir = arena[parent + file_row.STATUS] & file_row.IS_DIR
    return parent if is_dir else s.files + (s.file_count - state.UNNAMED) * state.FILE_WORDS


@subroutine
def run_on(s, thread):
    """The operation runs on its thread's CPU, which shares all with the others."""


@subroutine
def set_file(s, row):
    """Register of the file's inode."""
    s.reg[recipes.INODE] = inode_at(s, row)


@subroutine
def perform(s, arena, out, op):
    """Run or resume an operation; returns its outcome."""
    row, parent = s.files + op.file * state.FILE_WORDS, parent_of(s, arena, op)
    run_on(s, op.thread)
    if s.stage == state.ADOPTING:
        if not names.adopt(s, arena, out, row, parent):
            return NO_ROOM
        s.stage = state.NEW if ADOPTS_FIRST else state.READY
    if s.stage == state.NEW:
        fits = begin(s, arena, out, op, row, parent)
        if ADOPTS_FIRST and fits == DONE and s.stage == state.ADOPTING:
            s.stage = state.NEW
            fits = begin(s, arena, out, op, row, parent)
        if fits != DONE:
            return fits
        s.stage = state.READY
    if s.stage == state.READY:
        s.replacing = op.op == records.WRITE and replaces(s, arena, op, row)
        if not room(s, arena, out, op, row, parent):
            return NO_ROOM
        if moves(s, arena, op, row) > 0:
            move(s, arena, out, row)
    return calls.run(s, arena, out, op, row, parent)


@subroutine
def block_shift(s):
    """log2 of the bytes of a data block."""
    return s.shift


@subroutine
def fits(s, arena, op, last):
    """Whether a write up to the end of data block `last` has its blocks, which outcome it has.

    pmfs_xip_file_write goes on with the blocks that its allocation got, and returns what it copied.  All or nothing: what replaces
    blocks, and the first call on a file from before the trace.
    """
    row = s.files + op.file * state.FILE_WORDS
    if s.replacing or calls.adopts(arena, op, row):
        return FULL
    data = missing(s, arena, op, row, op.offset >> s.shift, last + 1)
    return affordable(s, arena, data, NODES + (data >> 8)) if data > 0 else DONE


@subroutine
def end(s, out):
    """The next operation is a new one."""
    s.stage = state.NEW


HOOKS = {
    operations: {"perform": perform, "block_shift": block_shift, "fits": fits, "end": end},
    calls: {
        "state": state,
        "recipes": recipes,
        "set_file": set_file,
        "write": write_file,
        "read": read_file,
        "fallocate": names.fallocate,
        "truncate": names.truncate,
        "create": names.create,
        "unlink": names.unlink,
        "link": names.link,
        "rename": names.rename,
        "read_directory": read_directory,
        "evict": names.evict,
    },
}
emit = bind("pmfs", operations, HOOKS).emit
