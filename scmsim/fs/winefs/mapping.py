"""WineFS' mapped files: 2 MiB at once on aligned extents, which it exists for (fs/winefs/xip.c: winefs_dax_huge_fault)."""

from collections.abc import Mapping
from typing import Any


def mapped(model: Any, params: Mapping[str, Any], files: int) -> Any:
    """The mapped files of a model."""
    from scmsim.fs.mapping.driver import Mapped
    from scmsim.fs.mapping.words import LEAVES_LARGE
    from scmsim.fs.pmfs.mapping import kernels

    return Mapped(model, lambda record: (kernels(True, False), {LEAVES_LARGE: 1}), files)
