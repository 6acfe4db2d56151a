"""Run SIMFS's operations: those of `contiguous`, with a file's page tables linked only while the file is open.

Source: SIMFS file.c, namei.c, dir.c.
"""

from scmsim.fs.contiguous import data as contiguous_data
from scmsim.fs.contiguous import map as page_map
from scmsim.fs.contiguous import names as contiguous_names
from scmsim.fs.contiguous import operations as contiguous_operations
from scmsim.fs.contiguous import state as contiguous_state
from scmsim.fs.contiguous import templates as tpl
from scmsim.fs.engine import calls, file_row, operations
from scmsim.fs.engine.events import emit_template
from scmsim.fs.simfs import tables, templates
from scmsim.jit import subroutine
from scmsim.jit.binding import bind

CLEARED_EVENTS = 3 * page_map.PIECE  # maximum events of one call of `release_from` to clear each run of freed pages


@subroutine
def write_aside(s, arena, out, op, row):
    """Model an atomic update through a temporary file.

    SIMFS finds the smallest page table that maps the whole write, and copies all other data that this table maps to the
    temporary file. Then it swaps one entry, flushes every TLB and clears the old pages. A write that crosses a GiB boundary
    is done in place.

    Source: SIMFS file.c, nvmm_consistency_function; the temporary file's pages do not come from the model's device.
    """
    end, shift = op.offset + op.length, 12
    # Find the level of the smallest table that maps the whole write.
    while op.offset >> shift != (end - 1) >> shift:
        shift += 9
    if not s.shadow or shift > 30:
        return
    low, high = op.offset >> shift << shift, min(((op.offset >> shift) + 1) << shift, max(s.old_size, end))
    pages = (high - low + tpl.BLOCK - 1) // tpl.BLOCK
    s.reg[tpl.PAGES], s.reg[tpl.PTE_BYTES] = pages, pages << 3
    emit_template(s, out, templates.SHADOW_OPEN)
    s.reg[tpl.BYTES] = op.offset - low + high - end
    if s.reg[tpl.BYTES] > 0:
        emit_template(s, out, templates.SHADOW_COPY)
    s.reg[tpl.BYTES] = pages * tpl.BLOCK
    s.reg[tpl.COUNT] = 24 * pages
    emit_template(s, out, templates.SHADOW_CLOSE)
    tables.detach(s, arena, out, row)


@subroutine
def enter(s, arena, out, directory):
    """Map a directory and search it for a missing name, then map it again to add the name."""
    tables.visit(s, arena, out, directory)
    contiguous_names.scan(s, arena, out, directory, arena[directory + file_row.SIZE])
    tables.attach(s, arena, out, directory)


@subroutine
def release_events(arena, row):
    """Return the maximum number of events to free one piece and, after the last piece, the inode."""
    return page_map.UNMAP_EVENTS + CLEARED_EVENTS + 4 * (2 + (arena[row + contiguous_state.PAGE_COUNT] >> 18))


@subroutine
def blocks_beside(s, op, count):
    """Return how many blocks the upper tables above `count` blocks may need."""
    return (3 + (count >> 18)) * (count > 0)


emit = bind(
    "simfs",
    operations,
    {
        **contiguous_operations.HOOKS,
        calls: {**contiguous_operations.HOOKS[calls], "on_first_open": tables.attach, "on_last_close": tables.detach},
        contiguous_operations: {"NAME_BLOCKS": 4, "blocks_beside": blocks_beside},
        contiguous_data: {"mapped": write_aside},
        contiguous_names: {
            "visit": tables.visit,
            "enter": enter,
            "leave": tables.detach,
            "release_events": release_events,
            "released": tables.drop_upper,
        },
        page_map: {
            "UPPER_TABLES": 3,
            "has_supers": tables.has_supers,
            "upper_tables": tables.upper_tables,
            "taken": tables.taken,
            "freed": tables.freed,
        },
    },
).emit
