"""Run PMFS's operations one by one, for pmfs-4k, pmfs-2m and pmfs-1g; other families bind their own subroutines to them.

An operation begins only if the device has enough blocks for its worst case. A long one stops between two of its tree leaves or
copies when the buffer is full, and resumes in the next call at the state's `stage` and `resume_at`.
"""

from scmsim.alloc import aligned_fit, first_fit
from scmsim.core import records
from scmsim.fs.engine import calls, file_row, operations, table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.pmfs import dirs as dirs
from scmsim.fs.pmfs import names as names
from scmsim.fs.pmfs import state, templates
from scmsim.fs.pmfs.copy import inode_at
from scmsim.fs.pmfs.data import read_file, replaces, write_file
from scmsim.fs.pmfs.tree import FILL_EVENTS, MOST_BLOCKS, reserve, words_for
from scmsim.jit import subroutine
from scmsim.jit.binding import bind

ADOPTS_FIRST = 0  # 1: allocate the blocks of a file from before the trace before counting the operation's own
WRITE_EVENTS = FILL_EVENTS  # events that must fit before a write or fallocate may begin
NAME_EVENTS = 256  # maximum number of events of a namespace operation, without the scans of directory blocks
NODES = 8  # maximum number of tree nodes, besides leaves, that a small tree or one more directory block needs
TOO_FAR = 1 << 40  # words: more than the arena may have, so that growing it ends the replay with an error


@subroutine
def count_replaced(s, arena, op, row, first, stop):
    """Return how many data blocks a copy-on-write of data blocks [first, stop) allocates."""
    return stop - first


@subroutine
def missing(s, arena, op, row, first, stop):
    """Return how many data blocks of [first, stop) the operation must allocate."""
    if s.replacing:
        return count_replaced(s, arena, op, row, first, stop)
    count = max(stop - max(first, arena[row + state.BLOCK_COUNT]), 0)
    for i in range(first, min(stop, arena[row + state.BLOCK_COUNT])):
        count += table.get(arena, row + state.BLOCKS, i) == 0
    return count


@subroutine
def check_blocks(s, arena, data, nodes):
    """Return DONE if `data` data blocks and `nodes` single blocks are free, FULL if not, NO_ROOM if the bitmaps must grow."""
    if data * s.unit + nodes > s.free_blocks:
        return FULL
    if not first_fit.ready(s, arena, min(s.free_blocks, data * s.unit + nodes)):
        return NO_ROOM
    if s.unit == 1 or data == 0:
        return DONE
    runs = data + (nodes > 0) + (nodes >> 9)  # the single blocks may break up aligned runs
    # The bitmaps cover `tracked` blocks: extend them until they show enough aligned runs.
    while aligned_fit.count_runs(s, arena, s.unit, runs) < runs:
        if s.tracked == s.blocks:
            return FULL
        held = s.free_blocks - (s.blocks - s.tracked)
        if not first_fit.ready(s, arena, min(s.free_blocks, held + runs * s.unit)):
            return NO_ROOM
    return DONE


@subroutine
def needed(s, arena, op, row):
    """Return how many data blocks the operation allocates; set `replacing`."""
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
def moves(s, arena, op, row, end):
    """Return how many data blocks must move to fresh blocks before the operation, if its last byte is before `end`.

    None in PMFS.
    """
    return 0


@subroutine
def move(s, arena, out, row):
    """Move the blocks that `moves` counted; PMFS does nothing."""


@subroutine
def admit(s, arena, out, op, row, parent):
    """Prepare a new operation: check that the device has enough blocks, and build a file from before the trace.

    Return DONE if the operation can run, FULL if the device lacks blocks, NO_ROOM if the arena or the buffer must grow
    first.
    """
    adopts = calls.adopts(arena, op, row)
    data, nodes, s.singles = 0, 0, 0
    if not (ADOPTS_FIRST and adopts):
        data = needed(s, arena, op, row)
        if data + s.singles > 0:
            nodes = NODES + (data >> 8) + s.singles
        data += moves(s, arena, op, row, op.offset + op.length)
    if adopts and not arena[row + file_row.STATUS] & file_row.IS_DIR:
        old = (
            (arena[row + file_row.INITIAL_SIZE] - 1 + (1 << s.shift) - 1) >> s.shift
            if arena[row + file_row.INITIAL_SIZE] > 0
            else 0
        )
        data += old
        nodes += NODES + (old >> 8)
    makes = (op.op == records.CREATE or op.op == records.MKDIR) and calls.changes_names(arena, op, row)
    if adopts or makes or op.op == records.LINK or op.op == records.RENAME:
        nodes += 2 * NODES
    fits = check_blocks(s, arena, data, nodes) if data + nodes > 0 else DONE
    if fits != DONE or not adopts:
        return fits
    return DONE if names.adopt(s, arena, out, row, parent) else NO_ROOM


@subroutine
def words_aside(s, arena, op):
    """Return how many arena words a write needs for tables that do not belong to the file; PMFS needs none."""
    return 0


@subroutine
def reserve_aside(s, arena, op):
    """Reserve the arena words that `words_aside` returned; PMFS does nothing."""


@subroutine
def reserve_first_piece(s, arena, out, op, row, parent):
    """Return whether `out` and the arena have room for the operation's first part; grow the tables that it changes."""
    code = op.op
    if calls.allocates(op):
        stop = ((op.offset + op.length - 1) >> s.shift) + 1
        words = words_for(arena, row, stop) if stop <= MOST_BLOCKS else TOO_FAR
        if not has_room(s, arena, words + words_aside(s, arena, op)) or not reserve_events(s, out, WRITE_EVENTS):
            return False
        reserve(s, arena, row, stop)
        reserve_aside(s, arena, op)
        return True
    if code == records.CREATE or records.UNLINK <= code <= records.RMDIR:
        blocks = 3 * arena[parent + state.DIRCOUNT] + 3 * dircount(arena, row)
        words = 2 * dirs.words_for_name(arena, parent) + 2 * dirs.words_for_name(arena, row)
        if code == records.RENAME and op.replaced >= 0:
            blocks += 3 * dircount(arena, s.files + op.replaced * state.FILE_WORDS)
        if arena[row + state.PARENT] != 0:
            words += 2 * dirs.words_for_name(arena, arena[row + state.PARENT])
        return has_room(s, arena, words) and reserve_events(s, out, NAME_EVENTS + 2 * blocks)
    return reserve_events(s, out, 2 * FILL_EVENTS if code != records.READDIR else 8 + arena[row + state.DIRCOUNT])


@subroutine
def dircount(arena, row):
    """Return the number of blocks of the directory that contains a file's newest name."""
    return arena[arena[row + state.PARENT] + state.DIRCOUNT] if arena[row + state.PARENT] != 0 else 0


@subroutine
def read_directory(s, arena, out, row):
    """Model getdents: read every block of the directory."""
    for j in range(arena[row + state.DIRCOUNT]):
        place = table.get(arena, row + state.DIRBLOCKS, j)
        s.reg[templates.NODE] = arena[place + state.DIR_BLOCK] * templates.BLOCK
        s.reg[templates.BYTES] = templates.BLOCK
        emit_template(s, out, templates.SCAN_MATCH)
    s.reg[templates.COUNT] = arena[row + state.DIRENTS]
    emit_template(s, out, templates.READDIR)


@subroutine
def parent_of(s, arena, op):
    """Return the row of the operation's parent directory; the unnamed directory's row if the parent is not a directory."""
    parent = calls.parent_of(s, op)
    is_dir = arena[parent + file_row.STATUS] & file_row.IS_DIR
    return parent if is_dir else s.files + (s.file_count - state.UNNAMED) * state.FILE_WORDS


@subroutine
def is_ready(s, arena, op):
    """Return whether the allocator's own state has room for the operation; PMFS's always has."""
    return True


@subroutine
def run_on(s, thread):
    """Switch to the CPU of the operation's thread; PMFS shares all state among CPUs."""


@subroutine
def set_file(s, row):
    """Set register INODE to the device offset of the file's inode."""
    s.reg[templates.INODE] = inode_at(s, row)


@subroutine
def make_directories(s, arena, out):
    """Make the directories from before the trace in the order of their numbers; return False if `out` or the arena must grow."""
    while s.directories_made < s.file_count - state.UNNAMED:
        row = s.files + s.directories_made * state.FILE_WORDS
        is_old = arena[row + file_row.INITIAL_SIZE] > 0 and arena[row + file_row.STATUS] & file_row.IS_DIR
        if is_old and not names.adopt(s, arena, out, row, arena[row + state.PARENT]):
            return False
        s.stage = state.NEW
        s.directories_made += 1
    return True


@subroutine
def perform(s, arena, out, op):
    """Run or resume an operation; return DONE, FULL or NO_ROOM."""
    row, parent = s.files + op.file * state.FILE_WORDS, parent_of(s, arena, op)
    if not is_ready(s, arena, op) or not make_directories(s, arena, out):
        return NO_ROOM
    run_on(s, op.thread)
    if s.stage == state.ADOPTING:
        if not names.adopt(s, arena, out, row, parent):
            return NO_ROOM
        s.stage = state.NEW if ADOPTS_FIRST else state.READY
    if s.stage == state.NEW:
        fits = admit(s, arena, out, op, row, parent)
        if ADOPTS_FIRST and fits == DONE and s.stage == state.ADOPTING:
            s.stage = state.NEW
            fits = admit(s, arena, out, op, row, parent)
        if fits != DONE:
            return fits
        s.stage = state.READY
    if s.stage == state.READY:
        s.replacing = op.op == records.WRITE and replaces(s, arena, op, row)
        if not is_ready(s, arena, op) or not reserve_first_piece(s, arena, out, op, row, parent):
            return NO_ROOM
        if moves(s, arena, op, row, op.offset + op.length) > 0:
            move(s, arena, out, row)
    return calls.run(s, arena, out, op, row, parent)


@subroutine
def block_shift(s):
    """Return log2 of the bytes of a data block."""
    return s.shift


@subroutine
def check_prefix(s, arena, op, last):
    """Return DONE if a write up to the end of data block `last` gets its blocks, else FULL or NO_ROOM.

    pmfs_xip_file_write continues with the blocks that its allocation got, and returns the bytes that it copied. A write
    that replaces blocks, or that is the first call on a file that existed before the trace, completes or is refused as a whole.
    """
    row = s.files + op.file * state.FILE_WORDS
    if s.replacing or calls.adopts(arena, op, row):
        return FULL
    data = missing(s, arena, op, row, op.offset >> s.shift, last + 1)
    data += moves(s, arena, op, row, (last + 1) << s.shift)
    return check_blocks(s, arena, data, NODES + (data >> 8)) if data > 0 else DONE


@subroutine
def end(s, out):
    """Make the next operation start from the beginning."""
    s.stage = state.NEW


HOOKS = {
    operations: {"perform": perform, "block_shift": block_shift, "check_prefix": check_prefix, "end": end},
    calls: {
        "state": state,
        "templates": templates,
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
