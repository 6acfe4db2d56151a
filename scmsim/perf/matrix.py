"""Define a matrix of measurements (file systems x operations x file sizes x units x repeats) and the order of its cells.

A cell is a self-contained measurement: it creates the file that it needs, so any cell can run after any other, and the order
can be random.  Sizes and operations follow the thesis on the TLB overhead of NVM file systems (2020), chapter 5.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from scmsim.core.units import format_bytes

OPERATIONS = ("write", "rewrite", "read", "reread", "fwrite")
COUNTS = ("all", "split", "user")
MAX_UNIT = 16 << 20  # maximum bytes of a call: the size of the thesis's array
_NO_IDENTITY = ("targets", "allow_other_files", "summary")  # no count depends on them; `identity` has the targets


class Cell(NamedTuple):
    """One measurement; sizes in bytes, `repeat` from 1."""

    fs: str
    operation: str
    file_bytes: int
    unit_bytes: int
    repeat: int

    @property
    def key(self) -> str:
        """Return the name of the cell and of its file, e.g. `ext4-write-8MiB-4KiB-03`."""
        return f"{self.point}-{self.repeat:02d}"

    @property
    def point(self) -> str:
        """Return the cell's name without its repeat."""
        return f"{self.fs}-{self.operation}-{format_bytes(self.file_bytes)}-{format_bytes(self.unit_bytes)}"

    @property
    def length(self) -> int:
        """Return the bytes of one call: the unit, or the whole file if the unit is larger."""
        return min(self.unit_bytes, self.file_bytes)

    @property
    def pass_calls(self) -> int:
        """Return the number of calls of one pass over the file; a remainder is dropped, as in the thesis's loop."""
        return self.file_bytes // self.length

    def passes(self, total: int) -> int:
        """Return the number of passes over the file that move `total` bytes, at least one."""
        return max(1, total // (self.pass_calls * self.length))


@dataclass(frozen=True)
class Target:
    """A file system under measurement: a directory on it, named by `label` in the result."""

    label: str
    path: str
    create: bool = False  # make the directory if it is missing, and remove it at the end


@dataclass(frozen=True)
class Matrix:
    """A matrix: what to measure, and how (see docs/guide/harness-run.md for the keys of the file)."""

    targets: tuple[Target, ...]
    file_sizes: tuple[int, ...]
    units: tuple[int, ...]
    operations: tuple[str, ...]
    repeats: int = 1
    total: int = 0  # bytes moved in each measurement; 0 means one pass over the file
    seed: int = 1
    backend: str = "perf"
    count: str = "all"
    counters: tuple[str, ...] = ()
    cpu: int = -1
    warm_up: int = 0
    drop_caches: bool = False
    allow_multiplexing: bool = False
    allow_other_files: bool = False
    backend_params: dict[str, int | str] = field(default_factory=dict)
    summary: str = ""

    def cells(self) -> list[Cell]:
        """Return all cells in the order in which they run.

        Cells run repeat by repeat, so that a slow drift of the machine spreads over all points. Within a repeat, file
        systems, operations and sizes are shuffled, so that the drift does not correlate with any of them.
        """
        return [cell for repeat in range(1, self.repeats + 1) for cell in self._shuffled(repeat)]

    def points(self) -> Iterator[Cell]:
        """Yield the first repeat of every cell, in the order of the file."""
        for target in self.targets:
            for operation in self.operations:
                for file_bytes in self.file_sizes:
                    for unit in self.units:
                        yield Cell(target.label, operation, file_bytes, unit, 1)

    def _shuffled(self, repeat: int) -> list[Cell]:
        cells = [cell._replace(repeat=repeat) for cell in self.points()]
        random.Random(f"{self.seed}/{repeat}").shuffle(cells)
        return cells

    def identity(self) -> dict[str, Any]:
        """Return the settings that a stored cell depends on; a matrix is resumed only under the same identity."""
        known = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _NO_IDENTITY}
        lists = {name: list(value) if isinstance(value, tuple) else value for name, value in known.items()}
        return {"fs": {target.label: target.path for target in self.targets}, **lists}
