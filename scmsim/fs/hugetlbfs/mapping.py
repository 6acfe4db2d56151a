"""Map the memory of hugetlbfs and device-dax: a fault sets one entry of the page's size.

A mapping's offset in the file and its address are multiples of the page size.  A fault of hugetlbfs, for a load or a
store, takes a page from the pool and clears it.  No page is ever written back or write-protected.
Source: Linux 6.1 mm/hugetlb.c (hugetlb_no_page), drivers/dax/device.c (check_vma, __dev_dax_pmd_fault,
__dev_dax_pud_fault).  Simplified: private mappings are refused (hugetlbfs copies whole pages for them).
"""

from collections.abc import Mapping
from typing import Any

from scmsim.core import records as r
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import reserve_events
from scmsim.fs.engine.operations import DONE, NO_ROOM
from scmsim.fs.hugetlbfs import pages, state
from scmsim.fs.mapping import words as w
from scmsim.fs.mapping.families import mapped_files
from scmsim.jit import subroutine


@subroutine
def place(s, arena, f, page):
    """Return the physical address of a file's 4 KiB page; 0 if it has no memory or is the first page of the device."""
    return max(pages.place(s, arena, f, page << 12), 0)


@subroutine
def read_in(s, arena, out, f, page):
    """Allocate and clear the huge page of a 4 KiB page if it is missing; return (outcome, w.WAS_THERE or w.CAME_WHOLE)."""
    first = page << 12 >> s.shift
    if pages.word_of(s, arena, f, first) >= state.FIRST:
        return DONE, w.WAS_THERE
    outcome = pages.can_take(s, arena, f, first, first + 1)
    if outcome != DONE:
        return outcome, w.WAS_THERE
    if not reserve_events(s, out, 64) or not has_room(s, arena, w.FAULT_WORDS):
        return NO_ROOM, w.WAS_THERE
    pages.take(s, arena, out, f, first)
    return DONE, w.CAME_WHOLE


def mapped(model: Any, params: Mapping[str, Any], files: int) -> Any:
    """Return the object that handles the model's mapped files; `files` is the number of files in the trace."""
    order, device = int(model.state.record[0].shift), bool(model.state.record[0].is_device)
    own = {
        "ORDER": order,
        "place": place,
        "read_in": read_in,
        "SPACE": r.PM if device else r.KERNEL,
        "DAX": False,
        "KEEPS_CLEAN": False,
        "MAY_BE_LARGE": order > 12,
        "HUGETLB": not device,
        "SYNCS": device,
    }
    name = f"{'device_dax' if device else 'hugetlbfs'}_mapped_{order}"
    return mapped_files(model, files, name, state.FILE_WORDS, own)
