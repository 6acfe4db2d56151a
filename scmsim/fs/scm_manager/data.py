"""Model read, write, truncate and fallocate, in runs of units that are contiguous on the device.

By default a file has no holes: a write after the end allocates and clears the gap.
Source: SCM manager paper, section 5.1 (two copies against one); Linux 2.6.24 mm/filemap.c, fs/buffer.c (cont_expand_zero;
block_prepare_write, which first reads a unit that is written in part), fs/mpage.c.
"""

from scmsim.core import records
from scmsim.fs.engine import file_row
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.scm_manager import cache, inodes, state, templates, units
from scmsim.fs.scm_manager.cache import STEP, fetch_edges
from scmsim.fs.scm_manager.index import place, stretch
from scmsim.fs.scm_manager.units import extend, free_run, walk
from scmsim.jit import subroutine

HOLES = 0  # 1: a file has units only where it was written


@subroutine
def set_run(s, arena, row, at, stop):
    """Set the registers for the file's bytes [at, stop), which are contiguous."""
    start = place(arena, row, at >> s.shift)
    s.reg[templates.AT] = start + (at & ((1 << s.shift) - 1)) if start != 0 else 0
    s.reg[templates.BYTES], s.reg[templates.WORDS] = stop - at, (stop - at + templates.WORD - 1) // templates.WORD
    s.reg[templates.UNITS] = ((stop - 1) >> s.shift) - (at >> s.shift) + 1


@subroutine
def extend_to(s, arena, out, row, stop):
    """Allocate the units from `resume_at` to `stop`; return False if `out` or the arena must grow."""
    while s.resume_at < stop:
        if not units.ready(s, arena, s.longest + 4) or not reserve_events(s, out, STEP):
            return False
        extend(s, arena, out, row, stop)
    return True


@subroutine
def clear_to(s, arena, out, row, end):
    """Clear the file's bytes from `resume_at` to `end`; return False if `out` or the arena must grow."""
    while s.resume_at < end:
        if not units.ready(s, arena, 1) or not reserve_events(s, out, STEP):
            return False
        at, stop = s.resume_at, stretch(s, arena, row, s.resume_at, end)
        if place(arena, row, at >> s.shift) != 0:
            set_run(s, arena, row, at, stop)
            emit_template(s, out, templates.CLEAR)
            cache.mark(s, arena, row, at >> s.shift, s.reg[templates.UNITS])
        s.resume_at = stop
    return True


@subroutine
def widen(s, arena, out, row, end):
    """Prepare a file that will get units up to `end`; by default do nothing."""


@subroutine
def lengthen(s, arena, out, row, first, end):
    """Allocate the bytes [first, end), and the gap before them in a file without holes.

    Returns False if `out` or the arena must grow.
    """
    if s.stage == state.READY:
        widen(s, arena, out, row, end)
        s.resume_at = first >> s.shift if HOLES else arena[row + state.UNIT_COUNT]
        s.stage = state.EXTENDING
    if s.stage == state.EXTENDING:
        if not extend_to(s, arena, out, row, (end + (1 << s.shift) - 1) >> s.shift):
            return False
        s.stage = state.CLEARING
        s.resume_at = first if HOLES else arena[row + file_row.SIZE]
    return True


@subroutine
def write_file(s, arena, out, op, row):
    """Model write(); return False if `out` or the arena must grow."""
    end = op.offset + op.length
    if s.stage == state.READY:
        emit_template(s, out, templates.WRITE)
        s.reg[templates.META] = arena[row + state.META]
        emit_template(s, out, templates.INODE_LOAD)
        walk(s, arena, out, row, op.offset >> s.shift)
    if s.stage <= state.EXTENDING and not lengthen(s, arena, out, row, op.offset, end):
        return False
    if s.stage == state.CLEARING:
        if not clear_to(s, arena, out, row, op.offset):
            return False
        s.stage, s.resume_at = state.COPYING, op.offset
    while s.resume_at < end:
        if not units.ready(s, arena, 1) or not reserve_events(s, out, STEP):
            return False
        at, stop = s.resume_at, stretch(s, arena, row, s.resume_at, end)
        fetch_edges(s, arena, out, row, at, stop)
        set_run(s, arena, row, at, stop)
        s.reg[templates.USER_AT] = (op.thread << 36) + op.buffer + at - op.offset
        emit_template(s, out, templates.COPY_IN)
        cache.mark(s, arena, row, at >> s.shift, s.reg[templates.UNITS])
        s.resume_at = stop
    if not reserve_events(s, out, STEP):
        return False
    arena[row + state.CURSOR] = (end - 1) >> s.shift
    arena[row + file_row.SIZE] = max(arena[row + file_row.SIZE], end)
    inodes.changed(s, arena, out, row)
    return True


@subroutine
def read_file(s, arena, out, op, row):
    """Model read(); return False if `out` or the arena must grow."""
    if s.stage == state.READY:
        emit_template(s, out, templates.READ)
        s.reg[templates.META] = arena[row + state.META]
        emit_template(s, out, templates.INODE_LOAD)
        if op.offset < arena[row + file_row.SIZE] and op.length > 0:
            walk(s, arena, out, row, op.offset >> s.shift)
        s.stage, s.resume_at = state.COPYING, op.offset
    end = min(op.offset + op.length, arena[row + file_row.SIZE])
    while s.resume_at < end:
        if not reserve_events(s, out, STEP):
            return False
        at, stop = s.resume_at, stretch(s, arena, row, s.resume_at, end)
        cache.fill_cache(s, arena, out, row, at >> s.shift, ((stop - 1) >> s.shift) + 1, s.cold)
        set_run(s, arena, row, at, stop)
        s.reg[templates.USER_AT] = (op.thread << 36) + op.buffer + at - op.offset
        emit_template(s, out, templates.COPY_OUT)
        arena[row + state.CURSOR] = (stop - 1) >> s.shift
        s.resume_at = stop
    return True


@subroutine
def free_to_end(s, arena, out, row, stop):
    """Free the units from `resume_at` to the file's end, so that `stop` units are left.

    Returns False if `out` or the arena must grow.
    """
    while s.resume_at < arena[row + state.UNIT_COUNT]:
        if not units.ready(s, arena, 1) or not reserve_events(s, out, STEP):
            return False
        free_run(s, arena, out, row)
    units.free_nodes(s, arena, row, stop)
    arena[row + state.UNIT_COUNT] = stop
    arena[row + state.CURSOR] = 0
    return True


@subroutine
def truncate(s, arena, out, row, new_size):
    """Model truncate: free the units after the end, or fill the gap; return False if `out` or the arena must grow."""
    size, mask = arena[row + file_row.SIZE], (1 << s.shift) - 1
    if new_size > size and not HOLES:
        if s.stage == state.READY:
            emit_template(s, out, templates.TRUNCATE)
        if s.stage != state.CLEARING and not lengthen(s, arena, out, row, size, new_size):
            return False
        if not clear_to(s, arena, out, row, new_size):
            return False
    elif s.stage == state.READY:
        emit_template(s, out, templates.TRUNCATE)
        s.stage, s.resume_at = state.FREEING, (new_size + mask) >> s.shift
        tail = min(size, (new_size | mask) + 1)
        if new_size < size and new_size & mask and place(arena, row, new_size >> s.shift) != 0 and new_size < tail:
            set_run(s, arena, row, new_size, tail)
            emit_template(s, out, templates.CLEAR)
            cache.mark(s, arena, row, new_size >> s.shift, 1)
    if s.stage == state.FREEING and new_size < size:
        left = min(arena[row + state.UNIT_COUNT], (new_size + mask) >> s.shift)
        if not free_to_end(s, arena, out, row, left):
            return False
    if not reserve_events(s, out, STEP):
        return False
    arena[row + file_row.SIZE] = new_size
    inodes.changed(s, arena, out, row)
    return True


@subroutine
def fallocate(s, arena, out, op, row):
    """Model fallocate: allocate units and clear them where the file grows; return False if `out` or the arena must grow."""
    end = op.offset + op.length
    if s.stage == state.READY:
        emit_template(s, out, templates.OTHER)
    if s.stage <= state.EXTENDING and not lengthen(s, arena, out, row, op.offset, end):
        return False
    if not op.flag & records.KEEP_SIZE:
        s.resume_at = max(s.resume_at, arena[row + file_row.SIZE])
        if not clear_to(s, arena, out, row, end):
            return False
        arena[row + file_row.SIZE] = max(arena[row + file_row.SIZE], end)
    if not reserve_events(s, out, STEP):
        return False
    inodes.changed(s, arena, out, row)
    return True
