"""Bind the kernels of mapped files to families whose files have rows of `engine.file_row` (see `rows`)."""

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any


@functools.cache
def _kernels(name: str, words: int, own: tuple[tuple[str, Any], ...]) -> ModuleType:
    from scmsim.fs.mapping import hooks, kernels, rows
    from scmsim.jit.binding import bind

    return bind(name, kernels, {rows: {"ROW_WORDS": words}, hooks: rows.HOOKS | dict(own)})


def mapped_files(
    model: Any, files: int, name: str, words: int, own: Mapping[str, Any], fields: Mapping[int, int] | None = None
) -> Any:
    """Return the object that handles a model's mapped files; the first touch of a mapping binds its kernels.

    `name` is the name of the bound kernels, `words` the number of arena words in a row of the model's table of files.  `own` has
    the hooks that the family adds to those of `rows`, and `fields` has values for fields of the table of mappings.
    """
    from scmsim.fs.mapping.driver import Mapped

    return Mapped(model, lambda record: (_kernels(name, words, tuple(own.items())), fields or {}), files)
