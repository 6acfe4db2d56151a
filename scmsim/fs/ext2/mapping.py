"""Mapped files of ext2: with DAX its own driver maps 4 KiB at a time, the driver of ext4 also 2 MiB.

The driver of ext4 reports a hole by the missing pointer blocks; where the last pointer block exists, it reports block
by block.
Source: Linux 6.1 fs/ext4/indirect.c: ext4_ind_map_blocks.
"""

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from scmsim.fs.ext2.map import DIRECT, FAN_SHIFT, end_of_block
from scmsim.fs.linux import state as e
from scmsim.fs.linux.mapping import word_of
from scmsim.fs.mapping.words import FAN
from scmsim.jit import subroutine

_DOUBLE = DIRECT + (1 << FAN_SHIFT)  # first page below the double-indirect block


@subroutine
def any_block(arena, f, page, stop):
    """Return whether a page of [page, stop) has a block."""
    for at in range(page, min(stop, arena[arena[f + e.ROW_RECORD] + e.PAGE_COUNT])):
        if word_of(arena, f, at) >> e.BLOCK_SHIFT:
            return True
    return False


@subroutine
def is_long_hole(s, arena, f, page):
    """Return whether the 2 MiB from a page on, which are all holes, are reported as one hole.

    That requires that the pointer block of the first page is missing, and that it covers all of the 2 MiB or that the
    pointer block above it is missing, too.
    """
    stop = end_of_block(page)
    if page < DIRECT or any_block(arena, f, stop - (1 << FAN_SHIFT), stop):
        return False
    return stop - page >= FAN or (page >= _DOUBLE and not any_block(arena, f, _DOUBLE, stop + (1 << 2 * FAN_SHIFT)))


@subroutine
def hole_at_once(s, arena, f, page):
    """Return how many pages from `page` on get blocks at once.

    That is one page if the last pointer block that leads to it exists, else all the pages to which this block will point.
    """
    stop = end_of_block(page)
    if page < DIRECT or any_block(arena, f, stop - (1 << FAN_SHIFT), stop):
        return 1
    return stop - page


@functools.cache
def _kernels(dax: bool, by_ext4: bool) -> ModuleType:
    from scmsim.fs.ext2.operations import BY_EXT4, HOOKS
    from scmsim.fs.linux import mapping
    from scmsim.fs.mapping import hooks, kernels
    from scmsim.jit.binding import bind

    holes = {"is_long_hole": is_long_hole, "hole_at_once": hole_at_once}
    own = mapping.DAX | holes | {"MAY_BE_LARGE": by_ext4, "UNMAPS_ALL": by_ext4} if dax else mapping.CACHED
    name = f"ext2_{'dax' if dax else 'cache'}_{'by_ext4' if by_ext4 else 'own'}_mapped"
    return bind(name, kernels, {**HOOKS, **(BY_EXT4 if by_ext4 else {}), hooks: own})


def mapped(model: Any, params: Mapping[str, Any], files: int) -> Any:
    """Return the object that handles a model's mapped files."""
    from scmsim.fs.mapping.driver import Mapped
    from scmsim.fs.mapping.words import FILLS, LOADS_DIRTY

    kernel = params.get("kernel", "5.13")  # only DAX has this parameter
    words = {LOADS_DIRTY: int(kernel == "6.1"), FILLS: int(kernel != "5.13")}
    return Mapped(model, lambda record: (_kernels(bool(record.dax), bool(record.recent_room)), words), files)
