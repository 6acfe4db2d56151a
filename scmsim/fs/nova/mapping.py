"""Map NOVA's files in 4 KiB pages; with copy-on-write a page keeps the block of its fault.

The page size was measured on the 5.13.13 port.
"""

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from scmsim.fs.engine import table
from scmsim.fs.nova import state
from scmsim.fs.nova.data import locate
from scmsim.jit import subroutine


@subroutine
def place(s, arena, f, page):
    """Return the device offset of a page, taken from its write entry; 0 for a hole."""
    ref = table.get(arena, f + state.PAGES, page)
    return locate(s, arena, ref, page) if ref else 0


@functools.cache
def _kernels() -> ModuleType:
    from scmsim.fs.mapping import hooks, kernels, rows
    from scmsim.jit.binding import bind

    return bind("nova_mapped", kernels, {rows: {"ROW_WORDS": state.FILE_WORDS}, hooks: rows.HOOKS | {"place": place}})


def mapped(model: Any, params: Mapping[str, Any], files: int) -> Any:
    """Return the mapped files of a model."""
    from scmsim.fs.mapping.driver import Mapped

    return Mapped(model, lambda record: (_kernels(), {}), files)
