"""Operations of file systems whose files are contiguous in virtual memory.

An operation begins only if the device surely has the blocks for it.  A long operation stops between two pieces when the
buffer is full and goes on in the next call.  Background threads (migration to superpages, collection of unused pages)
run in `collect`, between operations.
"""

from scmsim.alloc import first_fit, two_zone
from scmsim.core import records
from scmsim.fs.contiguous import area as area
from scmsim.fs.contiguous import map as page_map
from scmsim.fs.contiguous import names as names
from scmsim.fs.contiguous import state, templates
from scmsim.fs.contiguous.data import inode_at, read_file, write_file
from scmsim.fs.contiguous.move import enqueue, next_due, reclaim
from scmsim.fs.engine import calls, file_row, operations
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.jit import subroutine
from scmsim.jit.binding import bind

NAME_BLOCKS = 2  # maximum number of blocks that a new name adds to its directory


@subroutine
def missing(arena, row, first, stop):
    """Return the maximum number of blocks needed to map the unmapped pages in [first, stop), including page-table pages."""
    end = min(stop, arena[row + state.PAGE_COUNT])
    count = stop - max(first, arena[row + state.PAGE_COUNT]) if stop > arena[row + state.PAGE_COUNT] else 0
    page = page_map.next_missing(arena, row, first, end)
    while page < end:
        count += 1
        page = page_map.next_missing(arena, row, page + 1, end)
    if count == 0:
        return 0
    return count + (stop - 1) // page_map.PIECE - first // page_map.PIECE + 1


@subroutine
def blocks_needed(s, arena, op, row, adopts):
    """Return the maximum number of blocks that the operation may allocate."""
    count, code = 0, op.op
    if calls.allocates(op):
        first, stop = op.offset // templates.BLOCK, (op.offset + op.length - 1) // templates.BLOCK + 1
        first, stop = page_map.span(arena, row, first, stop)
        count = stop - first if stop - first > s.device_blocks else missing(arena, row, first, stop)
    if adopts:
        pages = (max(arena[row + file_row.INITIAL_SIZE] - 1, 0) + templates.BLOCK - 1) // templates.BLOCK
        count += page_map.span(arena, row, 0, pages)[1] + pages // page_map.PIECE + 1
    makes = code == records.CREATE or code == records.MKDIR or code == records.LINK or code == records.RENAME
    return count + blocks_beside(s, op, count) + (adopts + makes) * NAME_BLOCKS


@subroutine
def blocks_beside(s, op, count):
    """Return the number of blocks that an operation on data may allocate in addition to its `count` data blocks."""
    return 0


@subroutine
def words_needed(arena, op, row, parent, adopts):
    """Return the maximum number of arena words that the operation may need for its tables."""
    words = 2 * page_map.words_for(arena, parent, arena[parent + state.PAGE_COUNT] + 2) + 64
    if arena[row + state.PARENT] != 0:
        words += page_map.words_for(
            arena, arena[row + state.PARENT], arena[arena[row + state.PARENT] + state.PAGE_COUNT] + 2
        )
    if calls.allocates(op):
        words += page_map.words_for(arena, row, (op.offset + op.length - 1) // templates.BLOCK + 1)
    if adopts:
        words += page_map.words_for(
            arena, row, (max(arena[row + file_row.INITIAL_SIZE] - 1, 0) + templates.BLOCK - 1) // templates.BLOCK
        )
    return words


@subroutine
def events_needed(arena, op, row, parent):
    """Return the maximum number of events of an operation's first step, including the scans of directories."""
    if (
        op.op != records.CREATE
        and op.op != records.MKDIR
        and not records.UNLINK <= op.op <= records.RMDIR
        and arena[row + file_row.STATUS] & file_row.EXISTS
    ):
        listed = arena[row + state.PAGE_COUNT] if op.op == records.READDIR else 0
        return names.NAME_EVENTS + 2 * listed + names.look_events(arena, row)
    pages = arena[parent + state.PAGE_COUNT]
    if arena[row + state.PARENT] != 0:
        pages += 2 * arena[arena[row + state.PARENT] + state.PAGE_COUNT]
    if op.op == records.RENAME and op.replaced >= 0:
        pages += 2 * arena[parent + state.PAGE_COUNT]
    return names.NAME_EVENTS + 4 * pages


@subroutine
def admit(s, arena, out, op, row, parent):
    """Begin an operation: check that it fits, and adopt its file; return DONE if it may run."""
    adopts = calls.adopts(arena, op, row)
    changes = adopts or calls.changes_names(arena, op, row)
    s.owed = blocks_needed(s, arena, op, row, adopts)
    if s.owed > 0 and not two_zone.free_everywhere(s) >= s.owed:
        # a full device first gives up spare pages and null files
        if s.spare_blocks > 0 and not reclaim(s, arena, out):
            return NO_ROOM
        s.owed = blocks_needed(s, arena, op, row, adopts)  # the file's own spare pages may be among the freed ones
        if two_zone.free_everywhere(s) < s.owed:
            return FULL
    if calls.allocates(op) and (op.offset + op.length - 1) // templates.BLOCK < page_map.MOST_PAGES:
        if not area.has_range(s, arena, row, (op.offset + op.length - 1) // templates.BLOCK + 1):
            return FULL
    if s.owed > 0 and not first_fit.ready(s, arena, min(s.free_blocks, s.owed + s.spare)):
        return NO_ROOM
    if adopts and not reserve_events(s, out, page_map.MAP_EVENTS + events_needed(arena, op, row, parent)):
        return NO_ROOM
    if (adopts or changes or calls.allocates(op)) and not has_room(
        s, arena, words_needed(arena, op, row, parent, adopts)
    ):
        return NO_ROOM
    if changes:
        reserve_names(s, arena, row, parent)
    if calls.allocates(op):
        page_map.reserve(s, arena, row, (op.offset + op.length - 1) // templates.BLOCK + 1)
    if adopts:
        names.adopt(s, arena, out, row, parent)
    return DONE


@subroutine
def reserve_names(s, arena, row, parent):
    """Reserve table space for a further page of each directory that an operation may change."""
    page_map.reserve(s, arena, parent, arena[parent + state.PAGE_COUNT] + 2)
    directory = arena[row + state.PARENT]
    if directory != 0 and directory != parent:
        page_map.reserve(s, arena, directory, arena[directory + state.PAGE_COUNT] + 2)


@subroutine
def list_names(s, arena, out, row):
    """Run readdir: scan all records of a directory."""
    names.visit(s, arena, out, row)
    is_dir = arena[row + file_row.STATUS] & file_row.IS_DIR != 0
    names.scan(s, arena, out, row, arena[row + file_row.SIZE] * is_dir)
    emit_template(s, out, templates.READDIR)


@subroutine
def set_file(s, row):
    """Set the register of the file's inode."""
    s.reg[templates.INODE] = inode_at(s, row)


@subroutine
def after_call(s, arena, op, row):
    """Queue a file that grew for migration if that is due."""
    if calls.allocates(op):
        enqueue(s, arena, row)


@subroutine
def parent_of(s, arena, op):
    """Return the row of the directory that an operation names, or of the unnamed directory if the named row is a sparse file."""
    parent = calls.parent_of(s, op)
    return s.files + (s.file_count - state.UNNAMED) * state.FILE_WORDS if names.is_sparse(arena, parent) else parent


@subroutine
def perform(s, arena, out, op):
    """Run or resume an operation; return its outcome."""
    row, parent = s.files + op.file * state.FILE_WORDS, parent_of(s, arena, op)
    if s.stage == state.NEW:
        fits = admit(s, arena, out, op, row, parent)
        if fits != DONE:
            return fits
        s.stage = state.READY
    if s.stage == state.READY and not reserve_events(s, out, events_needed(arena, op, row, parent)):
        return NO_ROOM
    return calls.run(s, arena, out, op, row, parent)


@subroutine
def prepare(s, arena, out, op):
    """Let background threads run before a new operation (see `collect`); return False if they have work to do."""
    s.now = op.time_ns
    if s.stage == state.NEW and operations.filter_operation(s, op):
        s.need_collect = next_due(s, arena, op)
    return s.need_collect == state.NOTHING


@subroutine
def end(s, out):
    """Reset the stage for the next operation."""
    s.stage = state.NEW


HOOKS = {
    operations: {"prepare": prepare, "perform": perform, "end": end},
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
        "read_directory": list_names,
        "begin_eviction": names.begin_eviction,
        "evict": names.evict,
        "after_call": after_call,
    },
}
emit = bind(
    "contiguous", operations, {**HOOKS, operations: {**HOOKS[operations], "leave": page_map.place_metadata}}
).emit
