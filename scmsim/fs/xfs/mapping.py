"""Mapped files of xfs-dax: a fault for a store allocates blocks as a write does, in a transaction of its own."""

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import reserve_events
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.engine.table import reserve, words_to_hold
from scmsim.fs.linux import state as e
from scmsim.fs.linux.blocks import holes
from scmsim.fs.mapping.words import FAULT_WORDS
from scmsim.fs.xfs import state as n
from scmsim.fs.xfs.data import map_run, set_times
from scmsim.jit import subroutine


@subroutine
def has_background_work(s):
    """Return whether the log's workers have work to do (see `run_background_work`)."""
    return s.now >= s.next_tick or s.push != 0 or s.cil_bytes >= s.cil_limit


@subroutine
def give_blocks(s, arena, out, f, page, count):
    """Give cleared blocks to the first of `count` pages, all holes or all unwritten; return (outcome, pages served)."""
    record, last = arena[f + e.ROW_RECORD], page + count - 1
    words = words_to_hold(arena, record + e.PAGES, last + 1) + n.WORDS + 4 * arena[record + e.LEAF_COUNT]
    if not reserve_events(s, out, n.ROOM) or not has_room(s, arena, words + FAULT_WORDS + (last >> 8)):
        return NO_ROOM, 0
    reserve(s, arena, record + e.PAGES, last + 1)
    if s.free_blocks < count + 1 + n.MOST_BLOCKS and holes(arena, record, page, last) > s.free_blocks:
        return FULL, 0
    return DONE, map_run(s, arena, out, record, page, count, 0)


@subroutine
def note_write(s, arena, out, f):
    """Set the file's times at a fault for a store."""
    set_times(s, arena, out, arena[f + e.ROW_RECORD])


@subroutine
def must_sync(s, arena, f):
    """Return whether the next checkpoint holds a change of the file's blocks."""
    return arena[arena[f + e.ROW_RECORD] + e.DATA_TID] == s.sequence and s.cil_bytes > 0


@functools.cache
def _kernels() -> ModuleType:
    from scmsim.fs.linux import mapping
    from scmsim.fs.mapping import hooks, kernels
    from scmsim.jit.binding import bind

    own = {
        "SYNCS": True, "UNMAPS_ALL": True, "ALLOCATION_UNMAPS": True, "GROWTH_SYNCS": True,
        "has_background_work": has_background_work, "give_blocks": give_blocks,
        "note_write": note_write, "must_sync": must_sync,
    }  # fmt: skip
    return bind("xfs_mapped", kernels, {hooks: mapping.DAX | own})


def mapped(model: Any, params: Mapping[str, Any], files: int) -> Any:
    """Return the object that handles a model's mapped files."""
    from scmsim.fs.mapping.driver import Mapped
    from scmsim.fs.mapping.words import FILLS, LEAVES_LARGE, LOADS_DIRTY

    newer, dirty = int(params["kernel"] != "5.13"), int(params["kernel"] == "6.1")
    words = {LEAVES_LARGE: 1, LOADS_DIRTY: dirty, FILLS: newer}
    return Mapped(model, lambda record: (_kernels(), words), files)
