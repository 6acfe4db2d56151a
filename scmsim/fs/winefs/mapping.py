"""Map WineFS's files, with 2 MiB at once on aligned extents, its design goal (fs/winefs/xip.c: winefs_dax_huge_fault)."""

from collections.abc import Mapping
from typing import Any


def mapped(model: Any, params: Mapping[str, Any], files: int) -> Any:
    """Return the mapped files of a model."""
    from scmsim.fs.mapping.driver import Mapped
    from scmsim.fs.mapping.words import LEAVES_LARGE
    from scmsim.fs.pmfs.mapping import kernels

    return Mapped(model, lambda record: (kernels(True, False), {LEAVES_LARGE: 1}), files)
