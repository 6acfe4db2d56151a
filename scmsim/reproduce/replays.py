"""Replay for the reproduction, always without footprints, because the documents' rows were evaluated that way.

docs/validation/reproduce.md describes the effect.
"""

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from scmsim import footprint, pipeline
from scmsim.core.records import Files

replay = functools.partial(pipeline.replay, footprints=footprint.NONE_AT_ALL)


class Rows:
    """A source of operations that are in memory; `operations` is an array of OP."""

    header: dict[str, Any] = {"tool": "scmsim reproduce"}

    def __init__(self, files: Files, operations: np.ndarray) -> None:
        self.files, self.rows, self._operations = files, len(operations), operations

    def batches(self, chunk: int = 1 << 14) -> Iterator[np.recarray]:
        """Yield the operations in record arrays of at most `chunk` rows."""
        for first in range(0, self.rows, chunk):
            yield self._operations[first : first + chunk].view(np.recarray)
