"""Reads and writes of famfs: copies to and from preallocated memory, extent by extent, and the log.

Source: fs/famfs/famfs_file.c (famfs_dax_write_iter, famfs_meta_to_dax_offset), fs/dax.c (dax_iomap_rw); src/famfs_lib.c
(famfs_append_log, famfs_log_file_creation, famfs_init_locked_log).
"""

from scmsim.core import records as r
from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.events import emit_run, emit_template, reserve_events
from scmsim.fs.famfs import state, templates
from scmsim.fs.famfs.units import extent_end, extents_before
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.transfer import copy_in
from scmsim.jit import subroutine

LOOK_UP_EVENTS = 6  # maximum number of events of a look-up, without its chase
MAPPING_SITE = list(templates.SITES).index("mapping")
MAPS = q.DESCRIPTORS  # address of the kernel's maps of files: 64 KiB for each
CHASED = q.DESCRIPTORS + (1 << 39)  # address of the lines that chases (dependent loads of a look-up) read


@subroutine
def place(s, arena, row, at):
    """Return the device offset of byte `at` of a file, which must be in one of the file's units."""
    unit = table.get(arena, row + state.UNITS, at >> templates.UNIT_SHIFT)
    return (unit << templates.UNIT_SHIFT) + (at & templates.UNIT - 1)


@subroutine
def look_up(s, arena, out, row, unit):
    """Emit iomap_begin: the search for a unit's extent, then `s.chase` dependent loads (famfs_meta_to_dax_offset)."""
    number, chunk = (row - s.files) // state.FILE_WORDS, arena[row + state.CHUNK]
    s.reg[q.NEW] = s.lookup == state.STRIPE and chunk > 0
    s.reg[q.COUNT] = extents_before(arena, row, unit) if s.lookup == state.LIST else 0
    s.reg[q.PAGES] = s.chase
    s.reg[q.FROM], s.reg[q.HAS] = MAPS + (number << 16), 0
    if s.lookup == state.LIST:  # the walk reads each extent before the one that it looks for
        s.reg[q.HAS] = s.reg[q.COUNT] * templates.EXTENT_BYTES
    elif s.lookup == state.SHIFT or chunk:
        of_strip = (unit // chunk) % max(arena[row + state.EXTENTS], 1) if chunk and s.lookup == state.STRIPE else unit
        s.reg[q.FROM] += of_strip * templates.EXTENT_BYTES
    emit_template(s, out, templates.LOOK_UP)
    for k in range(s.chase):
        # lines of a table shared by all files, spread by a multiplicative hash over 16 MiB
        line = ((number * s.chase + k + 1) * 2654435761) & 0x3FFFF
        emit_run(s, out, r.LOAD | MAPPING_SITE << 8 | r.KERNEL << 16, CHASED + (line << 6), 8)


@subroutine
def append(s, arena, out, row):
    """Emit the store of a file's log entry: a new entry in the next slot, a changed entry in its old slot."""
    if arena[row + state.ENTRY] == 0:
        arena[row + state.ENTRY] = s.logged % s.log_entries + 1
        s.logged += 1
        s.live_entries += 1
    slot = arena[row + state.ENTRY] - 1
    s.reg[templates.LOG_AT] = templates.LOG_OFFSET + templates.LOG_HEADER + slot * templates.ENTRY_BYTES
    emit_template(s, out, templates.APPEND)


@subroutine
def publish(s, arena, out, row):
    """Emit the creation or change of a file's map in the kernel, and its log entry; if `s.scans`, the log is read first."""
    if s.scans:
        s.reg[q.COUNT], s.reg[q.BYTES] = s.live_entries, s.live_entries * templates.ENTRY_BYTES
        emit_template(s, out, templates.SCAN_LOG)
    emit_template(s, out, templates.SET_MAP)
    if not arena[row + file_row.STATUS] & state.HAS_MAP:
        emit_template(s, out, templates.ASK_MAP)
        arena[row + file_row.STATUS] |= state.HAS_MAP
    append(s, arena, out, row)


@subroutine
def ask_map(s, arena, out, row):
    """Emit the request for a file's map at its first open, if the kernel does not have the map yet (fuse_get_fmap)."""
    if arena[row + state.ENTRY] and not arena[row + file_row.STATUS] & state.HAS_MAP:
        emit_template(s, out, templates.ASK_MAP)
        arena[row + file_row.STATUS] |= state.HAS_MAP


@subroutine
def copy(s, arena, out, op, row, end, writes):
    """Copy from `resume_at` to `end`, one extent after the other; return False if `out` must grow first."""
    while s.resume_at < end:
        if not reserve_events(s, out, 24 + LOOK_UP_EVENTS + s.chase):
            return False
        at, unit = s.resume_at, s.resume_at >> templates.UNIT_SHIFT
        stop = min(extent_end(arena, row, unit) << templates.UNIT_SHIFT, end)
        look_up(s, arena, out, row, unit)
        user = (op.thread << 36) + op.buffer + at - op.offset
        if writes:
            copy_in(s, out, place(s, arena, row, at), user, stop - at)
        else:
            s.reg[q.FROM], s.reg[q.USER_AT], s.reg[q.BYTES] = place(s, arena, row, at), user, stop - at
            emit_template(s, out, q.COPY_OUT)
        s.resume_at = stop
    return True


@subroutine
def write(s, arena, out, op, row):
    """Run or resume a write inside the file's units; return whether it is done."""
    end = op.offset + op.length
    if s.stage == state.READY:
        if s.sized:
            arena[row + file_row.SIZE] = max(arena[row + file_row.SIZE], end)
            publish(s, arena, out, row)
        emit_template(s, out, q.WRITE)
        s.stage, s.resume_at = state.COPYING, op.offset
    return copy(s, arena, out, op, row, end, 1)


@subroutine
def read(s, arena, out, op, row):
    """Run or resume a read; return whether it is done."""
    if s.stage == state.READY:
        emit_template(s, out, q.READ)
        s.stage, s.resume_at = state.COPYING, op.offset
    return copy(s, arena, out, op, row, min(op.offset + op.length, arena[row + file_row.SIZE]), 0)
