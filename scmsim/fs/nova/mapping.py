"""NOVA's mapped files: 4 KiB at a time (measured on the 5.13.13 port); with copy-on-write a page keeps the block of its fault."""

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
    """Where a page lies, by its write entry."""
    ref = table.get(arena, f + state.PAGES, page)
    return locate(s, arena, ref, page) if ref else 0


@functools.cache
def _kernels() -> ModuleType:
    from scmsim.fs.mapping import hooks, kernels, rows
    from scmsim.jit.binding import bind

    return bind("nova_mapped", kernels, {rows: {"ROW_WORDS": state.FILE_WORDS}, hooks: rows.HOOKS | {"place": place}})


def mapped(model: Any, params: Mapping[str, Any], files: int) -> Any:
    """The mapped files of a model."""
    from scmsim.fs.mapping.driver import Mapped

    return Mapped(model, lambda record: (_kernels(), {}), files)
