"""Map NOVA's files in 4 KiB pages.

With copy-on-write, a mapped page keeps the block that its fault found, even after a write moves the data.
The page size was measured on the 5.13.13 port.
"""

from collections.abc import Mapping
from typing import Any

from scmsim.fs.engine import table
from scmsim.fs.mapping.families import mapped_files
from scmsim.fs.nova import state
from scmsim.fs.nova.data import locate
from scmsim.jit import subroutine


@subroutine
def place(s, arena, f, page):
    """Return the device offset of a page, taken from its write entry; 0 for a hole."""
    ref = table.get(arena, f + state.PAGES, page)
    return locate(s, arena, ref, page) if ref else 0


def mapped(model: Any, params: Mapping[str, Any], files: int) -> Any:
    """Return the object that handles a model's mapped files."""
    return mapped_files(model, files, "nova_mapped", state.FILE_WORDS, {"place": place})
