"""Map the files of tmpfs and ramfs: their frames directly, 2 MiB at once where the mount has huge pages."""

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any


@functools.cache
def _kernels() -> ModuleType:
    from scmsim.fs.mapping import hooks, kernels
    from scmsim.fs.tmpfs import faults
    from scmsim.jit.binding import bind

    return bind("tmpfs_mapped", kernels, {hooks: faults.HOOKS})


def mapped(model: Any, params: Mapping[str, Any], files: int) -> Any:
    """Return the object that handles the model's mapped files; `files` is the number of files in the trace."""
    from scmsim.fs.mapping.driver import Mapped
    from scmsim.fs.mapping.words import HUGE

    return Mapped(model, lambda record: (_kernels(), {HUGE: int(params.get("huge", "never") != "never")}), files)
