"""Map famfs's files: DAX faults, each with famfs's search for the page's extent; every page of a file has memory.

fs/dax.c maps 4 KiB or 2 MiB.  dax_iomap_fault does not support 1 GiB, so an aligned GiB costs one more attempt and is
mapped by entries of 2 MiB.  fsync and msync do nothing (noop_fsync), so no entry is ever write-protected again.
Source: fs/famfs/famfs_file.c (__famfs_filemap_fault, famfs_file_mmap), Linux 6.1 fs/dax.c.
"""

from collections.abc import Mapping
from typing import Any

from scmsim.fs.engine import table
from scmsim.fs.famfs import data, state, templates
from scmsim.fs.mapping.families import mapped_files
from scmsim.jit import subroutine

_PAGES = templates.UNIT_SHIFT - 12  # log2 of the pages of a unit


@subroutine
def place(s, arena, f, page):
    """Return the device offset of a page, or 0 if the file has no unit there."""
    unit = table.get(arena, f + state.UNITS, page >> _PAGES)
    return (unit << templates.UNIT_SHIFT) + ((page & (1 << _PAGES) - 1) << 12) if unit else 0


@subroutine
def look_up(s, arena, out, f, page):
    """Emit the search for the extent of a page."""
    data.look_up(s, arena, out, f, page >> _PAGES)


@subroutine
def look_up_events(s):
    """Return the maximum number of events that `look_up` emits."""
    return data.LOOK_UP_EVENTS + s.chase


HOOKS = {
    "place": place,
    "MAY_BE_LARGE": True,
    "KEEPS_CLEAN": False,
    "look_up": look_up,
    "look_up_events": look_up_events,
}


def mapped(model: Any, params: Mapping[str, Any], files: int) -> Any:
    """Return the object that handles the model's mapped files; `files` is the number of files in the trace."""
    return mapped_files(model, files, "famfs_mapped", state.FILE_WORDS, HOOKS)
