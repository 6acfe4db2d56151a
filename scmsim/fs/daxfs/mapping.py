"""Map DaxFS's files: every fault maps one page of 4 KiB, found in the inode's map or the hash table.

A fault for a store gives a hole a cleared page; a load maps a page read-only, so that the first store after it faults again
(pfn_mkwrite).  There is no huge_fault, MAP_SYNC is refused, and nothing is cleaned or protected again.
Source: daxfs/file.c (daxfs_dax_fault, daxfs_dax_pfn_mkwrite).  Simplified: a load of a hole maps a page of zeros, where DaxFS
copies zeros to a new page; private mappings read the file's pages, where DaxFS copies them.
"""

from collections.abc import Mapping
from typing import Any

from scmsim.fs.daxfs import data, state
from scmsim.fs.engine.events import reserve_events
from scmsim.fs.engine.operations import DONE, NO_ROOM
from scmsim.fs.mapping.families import mapped_files
from scmsim.jit import subroutine


@subroutine
def look_up_events(s):
    """Return the maximum number of events that `look_up` emits."""
    return 8


@subroutine
def give_blocks(s, arena, out, f, page, count):
    """Allocate a page for a store to a hole; return (outcome, 1): one page."""
    outcome = data.can_take(s, arena, f, page, page)
    if outcome == DONE and not reserve_events(s, out, 64):
        outcome = NO_ROOM
    if outcome == DONE:
        data.look_up(s, arena, out, f, page)
        data.add_page(s, arena, out, f, page, False)
    return outcome, 1


HOOKS = {
    "place": data.place,
    "look_up": data.look_up,
    "look_up_events": look_up_events,
    "give_blocks": give_blocks,
    "BY_REQUEST": False,
    "KEEPS_CLEAN": False,
}


def mapped(model: Any, params: Mapping[str, Any], files: int) -> Any:
    """Return the object that handles the model's mapped files; `files` is the number of files in the trace."""
    return mapped_files(model, files, "daxfs_mapped", state.FILE_WORDS, HOOKS)
