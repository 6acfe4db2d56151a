"""Map WineFS's files; a fault on an aligned extent maps 2 MiB at once (fs/winefs/xip.c: winefs_dax_huge_fault)."""

from collections.abc import Mapping
from typing import Any

from scmsim.fs.pmfs.mapping import mapped_as


def mapped(model: Any, params: Mapping[str, Any], files: int) -> Any:
    """Return the object that handles a model's mapped files."""
    return mapped_as(model, files, True, False)
