"""Run NOVA's operations one by one, for nova-cow, nova-inplace and nova-fast16.

An operation begins only if the device has enough blocks for its worst case. A long one (write, read, truncate, fallocate,
building a file from before the trace) stops between two of its extents when the buffer or the arena is full, and
resumes in the next call at the state's `stage` and `resume_at`.
"""

from scmsim.alloc import cpu_lists, first_fit
from scmsim.core import records
from scmsim.fs.engine import calls, file_row, operations, table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.nova import names as names
from scmsim.fs.nova import state, templates
from scmsim.fs.nova.data import read_file, reserve_pages, write_file
from scmsim.fs.nova.log import inode_of, log_growth
from scmsim.jit import subroutine
from scmsim.jit.binding import bind

# maximum number of events of a namespace operation or the start of a truncate, without extensions of logs
NAME_EVENTS = 192
OWN_BYTES, DENTRY_BYTES = 3 * 56, 312  # maximum bytes appended to a file's log and to a directory's log
SPARE = 2000  # log pages that the extensions of three logs may add, and a dead zone (`cpu_lists.DEAD_ZONE`)


@subroutine
def holes(s, arena, row, first, stop):
    """Return the pages of [first, stop) without a block and the number of their runs, as runs << 40 | pages."""
    count, before = 0, 1
    for page in range(first, stop):
        mapped = table.get(arena, row + state.PAGES, page) != 0
        if not mapped:
            count += 1 + (before << 40)
        before = mapped
    return count


@subroutine
def log_blocks(s, arena, row, entries):
    """Return how many log pages appending `entries` write entries may add at most."""
    if entries <= 40:
        return log_growth(arena, row, entries * s.entry_bytes)
    return 4 * (entries // 40) + min(2 * arena[row + state.LOG_SIZE], 512) + 4  # extensions double a short log


@subroutine
def has_enough_blocks(s, arena, op, places, pages, adopted):
    """Return whether the device has the blocks that the operation may need.

    `pages`: blocks of the operation itself; `adopted`: blocks of a file from before the trace; `places`: rows of the
    file, its parent, and the file that it replaces. The bound on log pages follows the number of free runs that the
    data may use, because each run makes a write entry of its own. Log pages come from one CPU's list, and only while its
    free blocks span a dead zone; this bound requires as many free blocks in addition.
    """
    row, parent, other = places
    spans = 1
    if pages > 0 and (s.inplace or op.op == records.FALLOCATE):
        found = holes(s, arena, row, op.offset >> 12, (op.offset + op.length + 4095) >> 12)
        pages, spans = found & ((1 << 40) - 1), found >> 40
    need, entries = pages + adopted, 3
    if need > 0:
        entries = need
        if s.cpus == 1:
            entries = min(need, first_fit.runs(s, arena, need + need // 8 + SPARE) + spans + (need >> 8))
    data = need
    if need > 0 or op.op == records.CREATE or records.TRUNCATE <= op.op <= records.RMDIR:
        need += log_blocks(s, arena, row, entries)
    if op.op == records.CREATE or records.RENAME <= op.op <= records.MKDIR:
        need += log_growth(arena, parent, DENTRY_BYTES)
    if op.op == records.RENAME and other != parent:
        need += log_growth(arena, other, OWN_BYTES)
    if need > data:
        need = data + s.cpus * (need - data + s.dead_zone)
    return need <= s.free_blocks


@subroutine
def run_on(s, thread):
    """Switch to the free list and the journal of the CPU on which `thread` runs."""
    cpu = thread % s.cpus
    if cpu == s.cpu:
        return
    s.tails[s.cpu], s.cpu = s.reg[templates.JOURNAL], cpu
    s.reg[templates.JOURNAL_PAGE] = s.journal_at + cpu * state.BLOCK
    s.reg[templates.POINTERS] = s.pointers_at + cpu * templates.LINE
    s.reg[templates.JOURNAL] = max(s.tails[cpu], s.reg[templates.JOURNAL_PAGE])


@subroutine
def admit(s, arena, out, op, places):
    """Prepare a new operation: check that the device has enough blocks, extend the bitmaps, build a file from before the trace.

    Return DONE if the operation can run, FULL if the device lacks blocks, NO_ROOM if the arena or the buffer must grow
    first.
    """
    row = places[0]
    pages, adopted = 0, 0
    if calls.allocates(op):
        pages = ((op.offset & 4095) + op.length + 4095) >> 12
        if pages > s.blocks:
            return FULL
    if not arena[row + file_row.STATUS] & (file_row.EXISTS | file_row.IS_DIR):
        adopted = (arena[row + file_row.INITIAL_SIZE] + 4094) >> 12
    most = pages + adopted + (pages + adopted) // 8 + SPARE * s.cpus
    # The exact count below does not include the blocks that a collection needs.
    s.collects = s.free_blocks >= most
    # Count exactly only if the device is nearly full.
    if s.free_blocks < most:
        if not has_enough_blocks(s, arena, op, places, pages, adopted):
            return FULL
        most = s.free_blocks
    if not cpu_lists.ready(s, arena, most):
        return NO_ROOM
    if calls.adopts(arena, op, row) and not names.adopt(s, arena, out, row):
        return NO_ROOM
    return DONE


@subroutine
def reserve_first_piece(s, arena, out, op, places):
    """Return whether `out` and the arena have room for the first part; grow the page table of a write or fallocate."""
    code = op.op
    row, parent, other = places
    if code == records.WRITE or (code == records.FALLOCATE and not op.flag & records.PUNCH_HOLE):
        return reserve_events(s, out, 8) and (
            op.length <= 0 or reserve_pages(s, arena, row, op.offset >> 12, (op.offset + op.length + 4095) >> 12)
        )
    if code != records.CREATE and code != records.TRUNCATE and not records.UNLINK <= code <= records.RMDIR:
        return reserve_events(s, out, 16)
    added = log_growth(arena, row, OWN_BYTES) + log_growth(arena, parent, DENTRY_BYTES)
    added += log_growth(arena, other, OWN_BYTES)
    if added == 0:
        return reserve_events(s, out, NAME_EVENTS)
    logs = added + arena[row + state.LOG_COUNT] + arena[parent + state.LOG_COUNT] + arena[other + state.LOG_COUNT]
    return reserve_events(s, out, NAME_EVENTS + 8 * logs) and has_room(s, arena, (added << s.page_order) + 8 * logs)


@subroutine
def fallocate(s, arena, out, op, row):
    """Model fallocate: fill holes with zeroed blocks; return False if the event buffer or the arena is full."""
    if s.stage == state.READY:
        s.reg[templates.INODE] = inode_of(s, op.file)
        emit_template(s, out, templates.WRITE)
        s.stage, s.resume_at, s.uncommitted = state.AT_WORK, op.offset >> 12, 0
    end = op.offset + op.length
    grows = (op.flag & records.KEEP_SIZE == 0) * (end > arena[row + file_row.SIZE])
    if not names.fill_holes(s, arena, out, row, (end + 4095) >> 12, 1, grows):
        return False
    if grows:
        arena[row + file_row.SIZE] = end
    return True


@subroutine
def read_directory(s, arena, out, row):
    """Model readdir, which reads the index in DRAM."""
    emit_template(s, out, templates.READDIR)


@subroutine
def perform(s, arena, out, op):
    """Run or resume an operation; return DONE, FULL or NO_ROOM."""
    row, parent = s.files + op.file * state.FILE_WORDS, calls.parent_of(s, op)
    if op.op == records.RENAME and arena[row + state.DIRECTORY] != 0:
        parent = 0 + arena[row + state.DIRECTORY]
    if op.op == records.RENAME and op.replaced >= 0 and op.replaced != op.file:
        # The new name is that of the replaced file, in its directory.
        target = s.files + op.replaced * state.FILE_WORDS
        if arena[target + file_row.STATUS] & file_row.EXISTS and arena[target + state.DIRECTORY] != 0:
            parent = 0 + arena[target + state.DIRECTORY]
    other = s.files + op.replaced * state.FILE_WORDS if op.op == records.RENAME and op.replaced >= 0 else parent
    places = (row, parent, other)
    if s.stage == state.NEW:
        run_on(s, op.thread)
        fits = admit(s, arena, out, op, places)
        if fits != DONE:
            return fits
        s.stage = state.READY
    elif s.stage == state.ADOPTING:
        if not names.adopt(s, arena, out, row):
            return NO_ROOM
        s.stage = state.READY
    if s.stage == state.READY and not reserve_first_piece(s, arena, out, op, places):
        return NO_ROOM
    return calls.run(s, arena, out, op, row, parent)


@subroutine
def end(s, out):
    """Finish the operation and request thorough GC for the log that is due for it, if any."""
    s.need_collect = s.gc_row
    s.gc_row = 0
    s.stage = state.NEW


_CALLS = {
    "state": state,
    "templates": templates,
    "write": write_file,
    "read": read_file,
    "fallocate": fallocate,
    "truncate": names.truncate,
    "create": names.create,
    "unlink": names.unlink,
    "link": names.link,
    "rename": names.rename,
    "read_directory": read_directory,
    "evict": names.evict,
}
emit = bind("nova", operations, {operations: {"perform": perform, "end": end}, calls: _CALLS}).emit
