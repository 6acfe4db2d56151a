"""The operations of file systems whose files are contiguous in virtual memory, one by one.

An operation begins only if the device surely has the blocks for it.  A long one stops between two pieces when the buffer is full
and goes on in the next call.  What background threads do (migration to superpages, collection of unused pages) is left to
`collect`, between operations.
"""

from scmsim.alloc import first_fit, two_zone
from scmsim.core import records as r
from scmsim.fs.contiguous import area as area
from scmsim.fs.contiguous import map as m
from scmsim.fs.contiguous import names as names
from scmsim.fs.contiguous import recipes as q
from scmsim.fs.contiguous import state as n
from scmsim.fs.contiguous.data import inode_at, read_file, write_file
from scmsim.fs.contiguous.move import enqueue, next_due, reclaim
from scmsim.fs.engine import file_row, operations, table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import has_events, play
from scmsim.jit import part
from scmsim.jit.binding import bind

NAME_BLOCKS = 2  # that one more name may take in a directory


@part
def allocates(op):
    return (op.op == r.WRITE or (op.op == r.FALLOCATE and not op.flag & r.PUNCH_HOLE)) and op.length > 0


@part
def missing(arena, row, first, stop):
    """Blocks that mapping the pages [first, stop) takes, pages of entries included."""
    end = min(stop, arena[row + n.END])
    count = stop - max(first, arena[row + n.END]) if stop > arena[row + n.END] else 0
    for page in range(first, end):
        count += table.get(arena, row + n.BLOCKS, page) == 0
    if count == 0:
        return 0
    return count + (stop - 1) // m.PIECE - first // m.PIECE + 1


@part
def blocks_needed(s, arena, op, row, adopts):
    """Blocks that the operation may take."""
    count, code = 0, op.op
    if allocates(op):
        first, stop = op.offset // q.BLOCK, (op.offset + op.length - 1) // q.BLOCK + 1
        first, stop = m.span(arena, row, first, stop)
        count = stop - first if stop - first > s.device_blocks else missing(arena, row, first, stop)
    if adopts:
        pages = (max(arena[row + file_row.FIRST] - 1, 0) + q.BLOCK - 1) // q.BLOCK
        count += m.span(arena, row, 0, pages)[1] + pages // m.PIECE + 1
    makes = code == r.CREATE or code == r.MKDIR or code == r.LINK or code == r.RENAME
    return count + blocks_beside(s, op, count) + (adopts + makes) * NAME_BLOCKS


@part
def blocks_beside(s, op, count):
    """Blocks that an operation on data may take beside `count` ones."""
    return 0


@part
def words_needed(arena, op, row, parent, adopts):
    """Words of arena that the operation may take for its tables."""
    words = 2 * m.words_for(arena, parent, arena[parent + n.END] + 2) + 64
    if op.op == r.RENAME and arena[row + n.PARENT] != 0:
        words += m.words_for(arena, arena[row + n.PARENT], arena[arena[row + n.PARENT] + n.END] + 2)
    if allocates(op):
        words += m.words_for(arena, row, (op.offset + op.length - 1) // q.BLOCK + 1)
    if adopts:
        words += m.words_for(arena, row, (max(arena[row + file_row.FIRST] - 1, 0) + q.BLOCK - 1) // q.BLOCK)
    return words


@part
def events_needed(arena, op, row, parent):
    """Events that an operation may begin with: of one on names, the scans of directories included."""
    if (
        op.op != r.CREATE
        and op.op != r.MKDIR
        and not r.UNLINK <= op.op <= r.RMDIR
        and arena[row + file_row.STATUS] & file_row.EXISTS
    ):
        return names.NAME_EVENTS
    pages = arena[parent + n.END]
    if arena[row + n.PARENT] != 0:
        pages += 2 * arena[arena[row + n.PARENT] + n.END]
    if op.op == r.RENAME and op.file2 >= 0:
        pages += 2 * arena[parent + n.END]
    return names.NAME_EVENTS + 4 * pages


@part
def begin(s, arena, out, op, row, parent):
    """A new operation: whether it fits (-1: the device is full, 0: no room yet), and its file exists."""
    exists = arena[row + file_row.STATUS] & file_row.EXISTS
    makes = op.op == r.CREATE or op.op == r.MKDIR
    adopts = not exists and not (arena[row + file_row.FIRST] == 0 and makes)
    changes = adopts or r.UNLINK <= op.op <= r.RMDIR or (makes and not exists)
    s.owed = blocks_needed(s, arena, op, row, adopts)
    if s.owed > 0 and not two_zone.free_everywhere(s) >= s.owed:
        if s.spare_blocks > 0 and not reclaim(s, arena, out):
            return 0
        s.owed = blocks_needed(s, arena, op, row, adopts)  # the file's own unused pages may be among those freed
        if two_zone.free_everywhere(s) < s.owed:
            return -1
    if allocates(op) and (op.offset + op.length - 1) // q.BLOCK < m.MOST_PAGES:
        if not area.has_range(s, arena, row, (op.offset + op.length - 1) // q.BLOCK + 1):
            return -1
    if s.owed > 0 and not first_fit.ready(s, arena, min(s.free_blocks, s.owed + s.spare)):
        return 0
    if adopts and not has_events(s, out, m.MAP_EVENTS + events_needed(arena, op, row, parent)):
        return 0
    if (adopts or changes or allocates(op)) and not has_room(s, arena, words_needed(arena, op, row, parent, adopts)):
        return 0
    if changes:
        reserve_names(s, arena, row, parent)
    if allocates(op):
        m.reserve(s, arena, row, (op.offset + op.length - 1) // q.BLOCK + 1)
    if adopts:
        names.adopt(s, arena, out, row, parent)
    return 1


@part
def reserve_names(s, arena, row, parent):
    """Room for one more page in the directories that an operation may change."""
    m.reserve(s, arena, parent, arena[parent + n.END] + 2)
    directory = arena[row + n.PARENT]
    if directory != 0 and directory != parent:
        m.reserve(s, arena, directory, arena[directory + n.END] + 2)


@part
def plain_call(s, arena, out, code, row):
    """Operations that change nothing on the device."""
    s.reg[q.INODE] = inode_at(s, row)
    if code == r.FSYNC or code == r.MSYNC:
        play(s, out, q.FSYNC)
    elif code == r.OPEN or code == r.CREATE or code == r.MKDIR:
        names.look(s, arena, out, row)
        if code != r.MKDIR and arena[row + file_row.OPENS] == 0:
            names.opened(s, arena, out, row)
        arena[row + file_row.OPENS] += code != r.MKDIR
        play(s, out, q.OPEN)
    elif code == r.CLOSE:
        play(s, out, q.CLOSE)
        s.closes += 1
        if arena[row + file_row.OPENS] == 1:
            names.closed(s, arena, out, row)
        arena[row + file_row.OPENS] = max(arena[row + file_row.OPENS] - 1, 0)
    elif code == r.STAT:
        names.look(s, arena, out, row)
        play(s, out, q.STAT)
    elif code == r.READDIR:
        names.visit(s, arena, out, row)
        names.scan(
            s, arena, out, row, arena[row + file_row.SIZE] * (arena[row + file_row.STATUS] & file_row.IS_DIR != 0)
        )
        play(s, out, q.READDIR)
    elif code == r.MMAP or code == r.MUNMAP:
        play(s, out, q.MAP_CALL)
    else:
        play(s, out, q.OTHER)


@part
def step(s, arena, out, op, row, parent):
    """Run or resume an operation; False: no room to finish it."""
    code = op.op
    if code == r.WRITE and op.length > 0:
        if not write_file(s, arena, out, op, row) or not has_events(s, out, 4):
            return False
        if op.flag & r.SYNCHRONOUS:
            play(s, out, q.FSYNC)
        enqueue(s, arena, row)
        return True
    if code == r.READ:
        return read_file(s, arena, out, op, row)
    if code == r.TRUNCATE:
        return names.truncate(s, arena, out, row, op.offset)
    if allocates(op):
        if not names.fallocate(s, arena, out, op, row):
            return False
        enqueue(s, arena, row)
        return True
    exists = arena[row + file_row.STATUS] & file_row.EXISTS
    makes = code == r.CREATE or code == r.MKDIR
    if (r.UNLINK <= code <= r.RMDIR and code != r.MKDIR) or (not exists and makes):
        names.change_names(s, arena, out, op, row, parent)
        return True
    if not has_events(s, out, 16 + 2 * arena[row + n.END] * (code == r.READDIR) + names.look_events(arena, row)):
        return False
    plain_call(s, arena, out, code, row)
    return True


@part
def finish(s, arena, out, op, row):
    """Free what an unlink, rmdir, close or rename left without a name; False: no room to go on."""
    gone = row
    if op.op == r.RENAME:
        if op.file2 < 0:
            return True
        gone = s.files + op.file2 * n.FILE_WORDS
    if s.stage != n.RELEASING and not names.due(s, arena, gone):
        return True
    s.ending = 1
    return names.evict(s, arena, out, gone)


@part
def perform(s, arena, out, op):
    """One operation on a file: 1 done, 0 no room to go on yet, -1 the device is full."""
    row = s.files + op.file * n.FILE_WORDS
    parent = s.files + (s.file_count - 1) * n.FILE_WORDS
    if op.op != r.RENAME and 0 <= op.file2 < s.file_count - 1:
        parent = s.files + op.file2 * n.FILE_WORDS
    if s.stage == n.FRESH:
        fits = begin(s, arena, out, op, row, parent)
        if fits <= 0:
            return fits
        s.stage, s.ending = n.READY, 0
    if not s.ending:
        if s.stage == n.READY and not has_events(s, out, events_needed(arena, op, row, parent)):
            return 0
        if not step(s, arena, out, op, row, parent):
            return 0
        s.stage = n.READY
    if op.op == r.UNLINK or op.op == r.RMDIR or op.op == r.CLOSE or op.op == r.RENAME:
        s.ending = 1
        return 0 + finish(s, arena, out, op, row)
    return 1


@part
def prepare(s, arena, out, op):
    """Before a new operation, background threads have their turn (see `collect`); False: they have work to do."""
    s.now = op.time_ns
    if s.stage == n.FRESH and operations.concerns(s, op):
        s.need_collect = next_due(s, arena, op)
    return s.need_collect == n.NOTHING


@part
def end(s, out):
    """The next operation is a new one."""
    s.stage = n.FRESH


HOOKS = {"prepare": prepare, "perform": perform, "end": end}
emit = bind("contiguous", operations, {operations: {**HOOKS, "leave": m.place_metadata}}).emit
