"""Operations of ctFS: the shared operations of contiguous files, with partitions, but without a name cache or clearing.

Sources: ctFS ctfs_func.c, ctfs_inode.c, ctfs_cpy.c.
"""

from scmsim.fs.contiguous import area
from scmsim.fs.contiguous import data as contiguous_data
from scmsim.fs.contiguous import map as page_map
from scmsim.fs.contiguous import names as contiguous_names
from scmsim.fs.contiguous import operations as contiguous_operations
from scmsim.fs.contiguous import state as contiguous_state
from scmsim.fs.contiguous import templates as tpl
from scmsim.fs.ctfs import partitions, swap, templates
from scmsim.fs.engine import calls, file_row, operations, table
from scmsim.fs.engine.events import emit_template
from scmsim.jit import subroutine
from scmsim.jit.binding import bind

RECORD_BYTES = 256  # bytes of a file's record in its directory


@subroutine
def clear(s, arena, out, row, low, high):
    """Clear nothing: ctFS does not clear pages."""


@subroutine
def copy_in(s, arena, out, row, at, stop):
    """Copy the user's bytes to file bytes [at, stop): whole lines by non-temporal stores, the rest bytewise with write-backs.

    The write-back after the unaligned head flushes the next line, because ctFS has already advanced the pointer.  Source: ctFS
    ctfs_cpy.c, avx_cpy.
    """
    user = s.reg[tpl.USER_AT] - at
    low = min((at + 63) & ~63, stop)
    high = max(stop & ~63, low)
    for first, end, template, written in (
        (at, low, templates.COPY_EDGE, low),
        (low, high, tpl.COPY_IN, high),
        (high, stop, templates.COPY_EDGE, stop - 1),
    ):
        if first < end:
            s.reg[tpl.USER_AT], s.reg[tpl.PAGES] = user + first, (end - first) >> 6
            s.reg[tpl.TABLE] = (
                table.get(arena, row + contiguous_state.BLOCKS, first // tpl.BLOCK) * tpl.BLOCK
                + first % tpl.BLOCK
                + written
                - first
            )
            contiguous_data.touch(s, arena, out, row, template, first, end)


@subroutine
def lengthen(s, arena, out, op, row):
    """Emit the stores to the inode of a growing file, which precede the copy."""
    if op.offset + op.length > s.old_size:
        emit_template(s, out, tpl.WRITTEN)


@subroutine
def record_bytes(arena, row):
    """Return the size in bytes of a file's directory record, the same for every name."""
    return RECORD_BYTES


@subroutine
def enter(s, arena, out, directory):
    """Scan a directory once to check that the new name is not in it."""
    contiguous_names.scan(s, arena, out, directory, arena[directory + file_row.SIZE])


@subroutine
def on_lookup(s, arena, out, row):
    """Look up a path in its directory, up to the file's record; ctFS has no name cache."""
    directory = contiguous_names.directory_of(arena, row)
    if directory != 0:
        stop = min(arena[row + contiguous_state.PLACE] + RECORD_BYTES, arena[directory + file_row.SIZE])
        contiguous_names.scan(s, arena, out, directory, stop)
        s.reg[tpl.DIR] = contiguous_data.inode_at(s, directory)
        emit_template(s, out, templates.LOOKED)


@subroutine
def look_events(arena, row):
    """Return the maximum number of events that `on_lookup` emits."""
    directory = contiguous_names.directory_of(arena, row)
    return 8 + 2 * arena[directory + contiguous_state.PAGE_COUNT] if directory != 0 else 0


@subroutine
def blocks_beside(s, op, count):
    """Return the number of page-table pages that an atomic write may allocate: one for each of up to two split pieces."""
    return 2 * s.shadow * calls.allocates(op)


emit = bind(
    "ctfs",
    operations,
    {
        operations: {**contiguous_operations.HOOKS[operations], "leave": page_map.place_metadata},
        calls: {**contiguous_operations.HOOKS[calls], "on_lookup": on_lookup},
        contiguous_operations: {"NAME_BLOCKS": 2 + page_map.PIECE, "blocks_beside": blocks_beside},
        contiguous_data: {
            "END_EVENTS": contiguous_data.END_EVENTS + swap.EVENTS,
            "clear": clear,
            "copy_in": copy_in,
            "mapped": lengthen,
            "copied": swap.write_swapped,
        },
        contiguous_names: {
            "KEEPS_PAGES": 1,
            "record_bytes": record_bytes,
            "enter": enter,
            "look_events": look_events,
        },
        area: {
            "LARGEST": partitions.LARGEST,
            "range_order": partitions.range_order,
            "place": partitions.place,
            "set_moved": partitions.set_moved,
        },
        page_map: {
            "METADATA_ORDER": page_map.SUPER,
            "span": partitions.span,
            "has_supers": partitions.has_supers,
            "extends_supers": partitions.extends_supers,
            "drop_split": partitions.drop_split,
        },
    },
).emit
