"""Mapped files of ext4 and ext4-dax: the hooks of Linux's file systems, bound when a trace first touches a mapping."""

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any


@functools.cache
def _kernels(dax: bool, folios: bool) -> ModuleType:
    from scmsim.fs.ext4.operations import HOOKS
    from scmsim.fs.linux import mapping
    from scmsim.fs.mapping import hooks, kernels
    from scmsim.jit.binding import bind

    if dax:
        return bind("ext4_dax_mapped", kernels, {**HOOKS, hooks: mapping.DAX | {"SYNCS": True, "UNMAPS_ALL": True}})
    if folios:
        return bind("ext4_folios_mapped", kernels, {**HOOKS, hooks: mapping.LARGE_FOLIOS})
    return bind("ext4_mapped", kernels, {**HOOKS, hooks: mapping.CACHED})


def mapped(model: Any, params: Mapping[str, Any], files: int) -> Any:
    """Return the object that handles a model's mapped files."""
    from scmsim.fs.mapping.driver import Mapped
    from scmsim.fs.mapping.words import FILLS, LEAVES_LARGE, LOADS_DIRTY

    kernel = params.get("kernel", "5.13")
    newer, dirty = int(kernel != "5.13"), int(kernel == "6.1")

    def bound(record: Any) -> tuple[ModuleType, dict[int, int]]:
        words = {LEAVES_LARGE: int(record.dax), LOADS_DIRTY: dirty, FILLS: newer}
        return _kernels(bool(record.dax), bool(record.folio_order)), words

    return Mapped(model, bound, files)
