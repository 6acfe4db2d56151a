"""ext2's mapped files: its own driver maps with DAX 4 KiB at a time, the driver of ext4 also 2 MiB."""

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any


@functools.cache
def _kernels(dax: bool, by_ext4: bool) -> ModuleType:
    from scmsim.fs.ext2.operations import BY_EXT4, HOOKS
    from scmsim.fs.linux import mapping
    from scmsim.fs.mapping import hooks, kernels
    from scmsim.jit.binding import bind

    own = mapping.DAX | {"MAY_BE_LARGE": by_ext4} if dax else mapping.CACHED
    name = f"ext2_{'dax' if dax else 'cache'}_{'by_ext4' if by_ext4 else 'own'}_mapped"
    return bind(name, kernels, {**HOOKS, **(BY_EXT4 if by_ext4 else {}), hooks: own})


def mapped(model: Any, params: Mapping[str, Any], files: int) -> Any:
    """The mapped files of a model."""
    from scmsim.fs.mapping.driver import Mapped
    from scmsim.fs.mapping.words import FILLS, LOADS_DIRTY

    kernel = params.get("kernel", "5.13")  # of DAX alone
    words = {LOADS_DIRTY: int(kernel == "6.1"), FILLS: int(kernel != "5.13")}
    return Mapped(model, lambda record: (_kernels(bool(record.dax), bool(record.recent_room)), words), files)
