"""Run DaxFS's operations one by one.

A write allocates pages and stores them by plain copies; fsync is a store barrier, so nothing is written back.  DaxFS has
no fallocate and no link, ends a read at a hole, and never frees a page; with gaps = filled the model does all of this.
Source: daxfs/file.c, daxfs/dir.c, daxfs/dax_mem.c (daxfs_mem_sync).
"""

from scmsim.core import records as r
from scmsim.fs.daxfs import data, names, overlay, state, templates
from scmsim.fs.engine import calls, file_row, operations, table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_template, note_refused, reserve_events
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.linux import memory_operations
from scmsim.fs.linux import templates as q
from scmsim.jit import subroutine
from scmsim.jit.binding import bind

EVENTS = 128  # maximum number of events of a call, without those of its pages


@subroutine
def adopt(s, arena, row, parent):
    """Create a file or directory from before the trace, as if it had been copied in; return the outcome."""
    is_dir = arena[row + file_row.STATUS] & file_row.IS_DIR
    length = 0 if is_dir else max(arena[row + file_row.INITIAL_SIZE] - 1, 0)
    pages = length + templates.PAGE - 1 >> 12
    fits = overlay.has_entries(s, arena, names.ROOM, names.KEYS + pages) and pages < s.free_blocks
    if not fits or pages > data.most_pages(s):
        return FULL
    if not has_room(s, arena, table.words_to_hold(arena, row + state.PAGES, pages)):
        return NO_ROOM
    if pages:
        table.reserve(s, arena, row + state.PAGES, pages)
    names.adopt(s, arena, row, parent)
    data.adopt_pages(s, arena, row, pages)
    arena[row + file_row.STATUS] |= file_row.EXISTS
    arena[row + file_row.LINKS], arena[row + file_row.SIZE], arena[row + file_row.INITIAL_SIZE] = 1, length, 0
    return DONE


@subroutine
def is_refused(s, arena, op, row):
    """Return whether DaxFS does not support the call (link and fallocate, without gaps = filled)."""
    return not s.filled and (op.op == r.LINK or op.op == r.FALLOCATE)


@subroutine
def admit(s, arena, out, op, row):
    """Prepare a new operation: adopt its file, and check that its pages and entries fit; return its outcome."""
    if calls.adopts(arena, op, row):
        s.too_far += arena[row + file_row.INITIAL_SIZE] - 1 > data.most_pages(s) << 12
        outcome = adopt(s, arena, row, s.files + (s.file_count - 1) * state.FILE_WORDS)
        if outcome != DONE:
            return outcome
    if is_refused(s, arena, op, row):
        s.refused_calls += 1
        note_refused(s)
        return DONE
    grows = op.op == r.CREATE or op.op == r.MKDIR or op.op == r.LINK or op.op == r.RENAME
    if grows and calls.changes_names(arena, op, row):
        return DONE if overlay.has_entries(s, arena, names.ROOM, names.KEYS) else FULL
    if calls.allocates(op):
        s.too_far += op.offset + op.length > data.most_pages(s) << 12
        return data.can_take(s, arena, row, op.offset >> 12, op.offset + op.length - 1 >> 12)
    return DONE


@subroutine
def check_prefix(s, arena, op, last):
    """Return the outcome of a write up to the end of the file's page `last`; FULL if the file itself did not fit."""
    row = s.files + op.file * state.FILE_WORDS
    if calls.adopts(arena, op, row):
        return FULL
    return data.can_take(s, arena, row, op.offset >> 12, last)


@subroutine
def punch(s, arena, out, op, row):
    """Run or resume the punching of a hole (gaps = filled); return whether it is done."""
    if s.stage == state.READY:
        if not data.reserve_list(s, arena, row):
            return False
        emit_template(s, out, templates.OTHER)
        s.stage, s.resume_at = state.COPYING, op.offset
    end = op.offset + op.length
    while s.resume_at < end:
        at, page = s.resume_at, s.resume_at >> 12
        stop = min(page + 1 << 12, end)
        if data.word_of(arena, row, page) & state.PLACE:
            if not reserve_events(s, out, 12):
                return False
            if stop - at == templates.PAGE:
                data.free_page(s, arena, out, row, page)
            else:
                data.look_up(s, arena, out, row, page)
                data.clear(s, out, data.place(s, arena, row, page) + (at & templates.PAGE - 1), stop - at)
        elif arena[row + state.PAGES] == 0 or page >= 1 << arena[row + state.PAGES + table.ORDER]:
            break
        s.resume_at = stop
    return True


@subroutine
def on_lookup(s, arena, out, row):
    """Emit daxfs_refresh_isize: open and stat read the length in the inode's entry."""
    if arena[row + state.ENTRY]:
        data.find_entry(s, arena, out, row)
        s.reg[templates.AT], s.reg[q.BYTES] = arena[row + state.ENTRY] - 1, templates.INODE_BYTES
        emit_template(s, out, templates.READ_ENTRY)


@subroutine
def fallocate(s, arena, out, op, row):
    """Run fallocate (gaps = filled)."""
    end = op.offset + op.length
    if not data.fallocate(s, arena, out, op.offset >> 12, end - 1 >> 12, row) or not reserve_events(s, out, 12):
        return False
    if end > arena[row + file_row.SIZE] and not op.flag & r.KEEP_SIZE:
        data.set_size(s, arena, out, row, end)
    return True


@subroutine
def evict(s, arena, out, row):
    """Forget a file without a name; its pages are lost, or freed with gaps = filled."""
    if s.filled and not data.reserve_list(s, arena, row):
        return False
    while s.filled and arena[row + file_row.MAPPED]:
        if data.word_of(arena, row, s.resume_at) & state.PLACE:
            if not reserve_events(s, out, 12):
                return False
            data.free_page(s, arena, out, row, s.resume_at)
        s.resume_at += 1
    if not reserve_events(s, out, 12):
        return False
    memory_operations.set_file(s, row)
    emit_template(s, out, q.REMOVE)
    s.lost_pages += arena[row + file_row.MAPPED]
    table.drop(s, arena, row + state.PAGES)
    for word in (
        file_row.SIZE,
        file_row.OPENS,
        file_row.MAPPED,
        state.INO,
        state.ENTRY,
        state.DIRENT,
        state.LIST,
        state.LISTED,
    ):
        arena[row + word] = 0
    arena[row + state.NAMED] = arena[row + state.PATH]  # a rename may have given the file another name
    arena[row + file_row.STATUS] &= ~file_row.EXISTS
    return True


HOOKS = {
    operations: {**memory_operations.HOOKS, "check_prefix": check_prefix},
    memory_operations: {"state": state, "EVENTS": EVENTS, "admit": admit, "is_refused": is_refused, "punch": punch},
    calls: {
        "state": state,
        "templates": templates,
        **memory_operations.CALLS,
        "on_lookup": on_lookup,
        "write": data.write,
        "read": data.read,
        "fallocate": fallocate,
        "truncate": data.truncate,
        "create": names.make,
        "unlink": names.unlink,
        "link": names.link,
        "rename": names.rename,
        "read_directory": names.read_directory,
        "evict": evict,
    },
}
emit = bind("daxfs", operations, HOOKS).emit
