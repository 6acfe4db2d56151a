"""Mapped files of XFS with the page cache: a fault for a store reserves a block and makes the page dirty.

Source: Linux 6.1 fs/xfs/xfs_file.c (__xfs_filemap_fault), fs/iomap/buffered-io.c (iomap_page_mkwrite), mm/filemap.c.
"""

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import reserve_events
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.engine.table import reserve, words_to_hold
from scmsim.fs.linux import mapping
from scmsim.fs.linux import state as e
from scmsim.fs.linux.blocks import last_of_folio
from scmsim.fs.linux.folios import folio_of
from scmsim.fs.linux.mapping import word_of
from scmsim.fs.linux.transfer import cache_page
from scmsim.fs.mapping.words import FAULT_WORDS
from scmsim.fs.xfs import state as n
from scmsim.fs.xfs.cached import mark_dirty
from scmsim.fs.xfs.data import unreserved
from scmsim.fs.xfs.delayed import most_pages, reserve_blocks
from scmsim.fs.xfs.mapping import note_write
from scmsim.jit import subroutine


@subroutine
def has_background_work(s):
    """Return whether the flusher or the log's workers have work to do (see `run_background_work`)."""
    return s.now >= s.next_flush or s.now >= s.next_tick or s.push != 0 or s.cil_bytes >= s.cil_limit


@subroutine
def make_dirty(s, arena, out, f, page):
    """Make a page and its whole folio dirty, and reserve a block if it has none; return the outcome."""
    record, end = arena[f + e.ROW_RECORD], (page + 1) << 12
    if not reserve_events(s, out, e.ROOM):
        return NO_ROOM
    # only a hole may make the arena grow: after a retry, the fault of a page that was read in would not count as major
    if word_of(arena, f, page) == 0:
        count = most_pages(s, arena[record + e.SIZE], end, last_of_folio(s, page))
        if not has_room(s, arena, words_to_hold(arena, record + e.PAGES, count) + FAULT_WORDS + (page >> 8) + n.WORDS):
            return NO_ROOM
        reserve(s, arena, record + e.PAGES, count)
        if unreserved(s) < 1:
            return FULL
        reserve_blocks(s, arena, record, page << 12, end, arena[record + e.SIZE])
    if not word_of(arena, f, page) & e.IS_CACHED:
        cache_page(s, arena, out, record, page, False)
    first, pages = folio_of(arena, record, page)
    mark_dirty(s, arena, f, record, first, pages)
    return DONE


@functools.cache
def _kernels(folios: bool) -> ModuleType:
    from scmsim.fs.mapping import hooks, kernels
    from scmsim.fs.xfs.cached_operations import HOOKS
    from scmsim.jit.binding import bind

    own = {"has_background_work": has_background_work, "make_dirty": make_dirty, "note_write": note_write}
    if folios:
        return bind("xfs_folios_mapped", kernels, {**HOOKS, hooks: mapping.LARGE_FOLIOS | own})
    return bind("xfs_cached_mapped", kernels, {**HOOKS, hooks: mapping.CACHED | own})


def mapped(model: Any, params: Mapping[str, Any], files: int) -> Any:
    """Return the object that handles a model's mapped files."""
    from scmsim.fs.mapping.driver import Mapped
    from scmsim.fs.mapping.words import FILLS, LOADS_DIRTY

    return Mapped(model, lambda record: (_kernels(bool(record.folio_order)), {LOADS_DIRTY: 1, FILLS: 1}), files)
