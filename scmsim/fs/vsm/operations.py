"""Run VSM's operations: PMFS's, with multi-grained copy-on-write (MCoW) and zero-copy file data migration (ZFDM).

Source: VSM paper (2020), III; IV.A says that its authors built it on PMFS.
"""

from scmsim.core import records
from scmsim.fs.engine import calls, file_row, operations, table
from scmsim.fs.pmfs import copy, tree
from scmsim.fs.pmfs import data as pmfs_data
from scmsim.fs.pmfs import names as pmfs_names
from scmsim.fs.pmfs import operations as pmfs_operations
from scmsim.fs.pmfs import state as pmfs_state
from scmsim.fs.vsm import data, gaps, zfdm
from scmsim.jit import subroutine
from scmsim.jit.binding import bind


@subroutine
def looked_up(s, page, pages):
    """Return 1, the number of index lookups for a run of pages, since a run is in one superpage."""
    return 1


@subroutine
def open_fast(s, arena, out, op, row):
    """Clear the bytes between the file's end and a write inside one existing superpage."""
    s.edges = 0
    gaps.gaps(s, arena, out, op, row)


@subroutine
def pages_of(s, arena, row, i):
    """Return how many pages superpage `i` has, fewer than `s.unit` if its tail was reclaimed; clear that record."""
    if arena[row + pmfs_state.KEPT] == 0 or arena[row + pmfs_state.KEPT_AT] != i:
        return s.unit
    pages = arena[row + pmfs_state.KEPT]
    arena[row + pmfs_state.KEPT] = 0
    return pages


@subroutine
def fresh_pages(s, op):
    """Return the maximum number of fresh pages that a copy-on-write allocates."""
    return s.replacing * min(2 * s.unit, (op.length >> 12) + 2)


@subroutine
def words_aside(s, arena, op):
    """Return the arena words that the table of fresh pages needs."""
    return table.words_to_hold(arena, s.fresh, fresh_pages(s, op))


@subroutine
def reserve_aside(s, arena, op):
    """Grow the table of fresh pages."""
    table.reserve(s, arena, s.fresh, fresh_pages(s, op))


@subroutine
def write(s, arena, out, op, row):
    """Run a write, by copy-on-write or as PMFS does; return False if `out` or the arena must grow first."""
    if s.replacing:
        return data.overwrite(s, arena, out, op, row)
    return pmfs_data.write_file(s, arena, out, op, row)


@subroutine
def on_still_linked(s, arena, out, op, row):
    """Free the unused pages of a file that still has a name when its last descriptor is closed."""
    if op.op == records.CLOSE and arena[row + file_row.OPENS] <= 0:
        zfdm.reclaim(s, arena, out, row)


emit = bind(
    "vsm",
    operations,
    {
        copy: {"looked_up": looked_up},
        pmfs_data: {"open_fast": open_fast, "edges": gaps.gaps},
        tree: {"pages_of": pages_of},
        pmfs_names: {"on_growth": gaps.on_growth, "adopted": gaps.keep_tail},
        operations: {**pmfs_operations.HOOKS[operations], "mount": data.mount},
        calls: {**pmfs_operations.HOOKS[calls], "write": write, "on_still_linked": on_still_linked},
        pmfs_operations: {
            "ADOPTS_FIRST": 1,
            "WRITE_EVENTS": 2 * pmfs_operations.WRITE_EVENTS,
            "count_replaced": data.count_needs,
            "words_aside": words_aside,
            "reserve_aside": reserve_aside,
            "moves": zfdm.due,
            "move": zfdm.migrate,
        },
    },
).emit
