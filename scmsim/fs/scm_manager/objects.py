"""Model the SCM manager's memory objects: malloc, free, load, store, and conversions without copies.

A memory object is a block of the buddy system. It becomes a file when it gets a metadata object and a name, and its
units of 512 bytes are linked in the chain table. A file becomes a memory object when it gets a pointer. If
the call names its directory (`parent`), the file loses its name and metadata object, and lives until `free`. The
paper does not say how the pointer reaches units that are not adjacent: here loads and stores follow them run by run. An object
of less than 512 bytes stays in place as a single short unit, and moves when the file outgrows it (`moved_bytes`).
Source: SCM manager paper, section 4.2, Table 1, Figure 3.
"""

from scmsim.alloc import buddy
from scmsim.core import records
from scmsim.fs.engine import calls, file_row, table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.scm_manager import index, names, operations, state, templates, units
from scmsim.fs.scm_manager.cache import STEP
from scmsim.fs.scm_manager.data import free_to_end, set_run
from scmsim.fs.scm_manager.index import entry_at, place, stretch
from scmsim.fs.scm_manager.names import add_name, new_inode, remove_name
from scmsim.jit import subroutine

DATA_ORDER, META_ORDER = 4, 1  # buddy orders of a data object (512 bytes) and of a metadata object (64 bytes)


@subroutine
def malloc(s, arena, out, row, length):
    """Model malloc: allocate one block of the buddy system; leave a row that is in use unchanged."""
    emit_template(s, out, templates.MALLOC)
    if arena[row + file_row.STATUS] & (file_row.EXISTS | state.MEMORY):
        return
    order = buddy.order_for(max(length, 1))
    at = buddy.allocate(s, arena, order)
    units = (1 << order) >> DATA_ORDER
    for i in range(max(units, 1)):
        table.put(arena, row + state.BLOCKS, i, ((at >> state.PLACE_SHIFT) + (i << DATA_ORDER)) << 2)
    arena[row + file_row.MAPPED] = arena[row + state.UNIT_COUNT] = max(units, 1)
    arena[row + state.SHORT] = order + 1 if units == 0 else 0
    arena[row + file_row.SIZE], arena[row + file_row.INITIAL_SIZE] = max(length, 1), 0
    arena[row + file_row.STATUS] |= state.MEMORY


@subroutine
def units_of(length):
    """Return how many units a memory object of `length` bytes needs."""
    return max(1, (1 << buddy.order_for(max(length, 1))) >> DATA_ORDER)


@subroutine
def free(s, arena, out, row):
    """Model free: free the object unless it is also a file; return False if `out` or the arena must grow."""
    if s.stage == state.READY:
        emit_template(s, out, templates.FREE)
        s.stage, s.resume_at = state.FREEING, 0
    if not arena[row + file_row.STATUS] & file_row.EXISTS and arena[row + file_row.STATUS] & state.MEMORY:
        emitted = s.emitted
        if not free_to_end(s, arena, out, row, 0):
            return False
        s.emitted = emitted  # the cost of free() includes the buddy system's own work
        table.drop(s, arena, row + state.BLOCKS)
        arena[row + file_row.SIZE] = 0
    arena[row + file_row.STATUS] &= ~state.MEMORY
    return True


@subroutine
def touch(s, arena, out, op, row):
    """Model loads and stores through a pointer, which are not calls; return False if `out` or the arena must grow."""
    if not arena[row + file_row.STATUS] & state.MEMORY:
        return True
    if s.stage == state.READY:
        s.stage, s.resume_at = state.COPYING, op.offset
    end = min(op.offset + op.length, arena[row + file_row.SIZE])
    while s.resume_at < end:
        if not reserve_events(s, out, STEP):
            return False
        at, stop = s.resume_at, stretch(s, arena, row, s.resume_at, end)
        set_run(s, arena, row, at, stop)
        emit_template(s, out, templates.OBJECT_LOAD if op.op == records.ULOAD else templates.OBJECT_STORE)
        s.resume_at = stop
    return True


@subroutine
def to_file(s, arena, out, row, parent):
    """Model mm_to_file: create a metadata object, a name and the chain; copy nothing."""
    if not arena[row + file_row.STATUS] & state.MEMORY or arena[row + file_row.STATUS] & file_row.EXISTS:
        emit_template(s, out, templates.OTHER)
        return
    s.reg[templates.CHAIN] = entry_at(s, place(arena, row, 0))
    s.reg[templates.CHAIN_BYTES] = templates.WORD * ((arena[row + file_row.SIZE] + (1 << s.shift) - 1) >> s.shift)
    emit_template(s, out, templates.TO_FILE)
    arena[row + file_row.STATUS] = file_row.EXISTS
    arena[row + file_row.LINKS], arena[row + file_row.OPENS] = 1, 1
    new_inode(s, arena, out, row)
    add_name(s, arena, out, row, parent)


@subroutine
def to_memory(s, arena, out, op, row, parent):
    """Model file_to_mm; with a directory (`parent`) the file loses its name and metadata."""
    emit_template(s, out, templates.TO_MM)
    if not arena[row + file_row.STATUS] & file_row.EXISTS or arena[row + file_row.STATUS] & file_row.IS_DIR:
        return
    s.reg[templates.META] = arena[row + state.META]
    emit_template(s, out, templates.INODE_LOAD)
    arena[row + file_row.STATUS] |= state.MEMORY
    if op.parent >= 0:
        remove_name(s, arena, out, row, arena[row + state.PARENT] if arena[row + state.SLOT] >= 0 else parent)
        buddy.release(s, arena, arena[row + state.META], META_ORDER)
        arena[row + state.META], arena[row + file_row.LINKS], arena[row + file_row.OPENS] = 0, 0, 0
        arena[row + file_row.STATUS] &= ~file_row.EXISTS


@subroutine
def object_call(s, arena, out, op, row, parent):
    """Run malloc, free, load, store, mm_to_file or file_to_mm; return False if `out` or the arena must grow."""
    if op.op == records.ULOAD or op.op == records.USTORE:
        return touch(s, arena, out, op, row)
    if op.op == records.FREE:
        return free(s, arena, out, row)
    if op.op == records.MALLOC:
        malloc(s, arena, out, row, op.length)
    elif op.op == records.MM_TO_FILE:
        to_file(s, arena, out, row, parent)
    else:
        to_memory(s, arena, out, op, row, parent)
    return True


@subroutine
def filter_operation(s, op):
    """Return whether the model runs the operation: a file call or a memory-object operation."""
    return op.file >= 0 and (op.op <= records.CLOSE or records.MALLOC <= op.op <= records.FILE_TO_MM)


@subroutine
def of_object(op):
    """Return whether the operation is on a memory object alone."""
    return op.op == records.ULOAD or op.op == records.USTORE or records.MALLOC <= op.op < records.FILE_TO_MM


@subroutine
def adopts(arena, op, row):
    """Return whether the operation is the first on a file from before the trace; never true for memory objects."""
    return not of_object(op) and not arena[row + file_row.STATUS] & state.MEMORY and calls.adopts(arena, op, row)


@subroutine
def units_for_names(op):
    """Return how many units a conversion needs for a name and a metadata object."""
    return names.NAME_UNITS * (op.op >= records.MM_TO_FILE)


@subroutine
def admit(s, arena, op, row):
    """Reserve table space for a memory object; return DONE, FULL (device) or NO_ROOM (tables must grow)."""
    if op.op != records.MALLOC:
        return DONE
    if op.length > 1 << buddy.LARGEST_SHIFT or buddy.room(s, buddy.order_for(op.length)) == 0:
        return FULL
    if not has_room(s, arena, index.words_for(arena, row, units_of(op.length))):
        return NO_ROOM
    index.reserve(s, arena, row, units_of(op.length))
    return DONE


@subroutine
def any_step(s, arena, out, op, row, parent):
    """Run or resume a call; treat a file call on a memory object that is not a file as a failed call."""
    if not of_object(op) and arena[row + file_row.STATUS] & (file_row.EXISTS | state.MEMORY) == state.MEMORY:
        emit_template(s, out, templates.OTHER)
        return True
    if of_object(op) or op.op == records.FILE_TO_MM:
        return object_call(s, arena, out, op, row, parent)
    return operations.any_step(s, arena, out, op, row, parent)


@subroutine
def widen(s, arena, out, row, end):
    """Move a file that was a memory object of less than a unit into a whole unit before it outgrows its block."""
    order = arena[row + state.SHORT] - 1
    if order < 0 or end <= 1 << (order + state.PLACE_SHIFT):
        return
    s.reg[templates.HOP_AT], s.reg[templates.BYTES] = place(arena, row, 0), arena[row + file_row.SIZE]
    s.reg[templates.AT] = units.take(s, arena, 1)
    emit_template(s, out, templates.MOVE)
    s.moved_bytes += arena[row + file_row.SIZE]
    buddy.release(s, arena, s.reg[templates.HOP_AT], order)
    table.put(arena, row + state.BLOCKS, 0, (s.reg[templates.AT] >> state.PLACE_SHIFT) << 2)
    arena[row + state.SHORT] = 0
