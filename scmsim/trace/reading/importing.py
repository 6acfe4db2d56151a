"""Build an importer's `convert`: it opens the input and bundles the arguments that every importer gets."""

import functools
import os
from collections.abc import Callable
from typing import Any

from scmsim.trace.reading.builder import Import
from scmsim.trace.reading.input import Input
from scmsim.trace.reading.lines import Progress
from scmsim.trace.reading.report import Report
from scmsim.trace.store import TraceWriter

__all__ = ["Import", "importer"]


def importer(convert: Callable[..., Report]) -> Callable[..., Report]:
    """Return `convert(path, writer, *, strict, progress, under, **params)`, which opens the input and calls the function given."""

    @functools.wraps(convert)
    def opened(
        path: str | os.PathLike[str] | Input,
        writer: TraceWriter,
        *,
        strict: bool = False,
        progress: Progress | None = None,
        under: str | None = None,
        **params: Any,
    ) -> Report:
        with Input.of(path) as given:
            return convert(Import(given, writer, strict, progress, under), **params)

    return opened
