"""Entries that mappings lose when a file's length changes or a hole is punched.

Source: Linux 5.13 mm/memory.c: unmap_mapping_range, mm/truncate.c: truncate_pagecache_range (even_cows), fs/dax.c:
dax_layout_busy_page, dax_delete_mapping_entry.
"""

from scmsim.core import records as r
from scmsim.fs.engine import table
from scmsim.fs.engine.arena import give
from scmsim.fs.engine.events import reserve_events
from scmsim.fs.mapping import hooks, tables
from scmsim.fs.mapping import words as w
from scmsim.fs.mapping.clean import clean_at
from scmsim.jit import subroutine


@subroutine
def file_of(s, arena, op):
    """Return the arena offset of the fields of an operation's file."""
    return arena[s.maps + w.FILES] + op.file * w.FILE_WORDS


@subroutine
def forget_given(s, arena, file, low, high):
    """Delete the entries of the pages [low, high) from DAX's tree of a file (dax_delete_mapping_entry)."""
    page, last = low, arena[file + w.TREE + table.ORDER]
    stop = min(high, (1 << last) * w.FAN) if arena[file + w.TREE] else low
    while page < stop:
        end = min((page | w.FAN - 1) + 1, stop)
        at = tables.tree_slot(arena, file, page)
        if arena[at] and not arena[at] & w.PRESENT:
            entries = arena[at] >> 12
            for k in range(entries + (page & w.FAN - 1), entries + (end - 1 & w.FAN - 1) + 1):
                tables.set_entry(arena, file, k, 0)
            if end - page == w.FAN:
                give(s, arena, entries, w.FAN_ORDER)
                arena[at] = 0
        else:
            tables.set_entry(arena, file, at, 0)
        page = end


@subroutine
def zap_file(s, arena, out, op, low, high):
    """Remove pages of a file from all mappings (UNMAPS_ALL: the whole file) and from DAX's tree; return False if unfinished.

    Punching a hole does not remove private copies of its pages.
    """
    file = file_of(s, arena, op)
    if not reserve_events(s, out, 4 + 13 * arena[s.maps + w.LIVE]):
        return False
    if op.op == r.TRUNCATE:
        arena[file + w.LAST_GIVEN] = min(arena[file + w.LAST_GIVEN], max(low - 1, 0))
    first, stop = (
        (0, r.NEVER >> 13) if hooks.UNMAPS_ALL else hooks.unmapped_by(s, arena, op, hooks.find(s, arena, op.file))
    )
    mapping = arena[file + w.HEAD]
    while mapping:
        tables.note_uses(s, arena, out, mapping, first, stop)
        tables.zap_but(s, arena, out, mapping, first, stop, w.COPIED)
        tables.note_uses(s, arena, out, mapping, low, high)
        # even_cows of unmap_mapping_range: a truncation also removes private copies
        tables.zap_but(s, arena, out, mapping, low, high, 0 if op.op == r.TRUNCATE else w.COPIED)
        mapping = arena[mapping + w.NEXT]
    forget_given(s, arena, file, low, high)
    return True


@subroutine
def sync_tail(s, arena, out, op):
    """Write back the last page of a file that becomes longer, if the file system has this rule; return False if unfinished.

    Source: fs/xfs/xfs_iops.c: xfs_setattr_size, for the bytes that xfs_zero_range has cleared.
    """
    f = hooks.find(s, arena, op.file) if hooks.GROWTH_SYNCS else 0
    end = hooks.length(s, arena, f) if f else 0
    if end >= op.new_size or end & w.PAGE - 1 == 0:
        return True
    place = hooks.place(s, arena, f, end >> 12)
    return place == 0 or place & w.UNWRITTEN or clean_at(s, arena, out, file_of(s, arena, op), end >> 12)
