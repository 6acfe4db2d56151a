"""Return the thesis's matrix as a result: the table of the sweep `sweep-thesis`, or a few of its cells replayed at small size.

In a cell, a program passes over one file in units until `total` bytes are moved (workload/thesis.py).  The thesis prints the cells
of the write operation for files of 1, 8, 64 and 1024 MiB.  Figures 14 to 16 are missing, because they show misses of data caches,
which are not modelled here.
"""

import os
import pathlib
from typing import cast

from scmsim.core.errors import UsageError
from scmsim.core.records import Source
from scmsim.plot import panels
from scmsim.reproduce.replays import replay
from scmsim.reproduce.thesis import ALL, MACHINE
from scmsim.result import Result, metrics
from scmsim.sweep import table
from scmsim.workload import thesis

MI = 1 << 20
FILES = tuple(size * MI for size in (1, 8, 64, 1024))
UNITS = thesis.UNITS[::2]  # units of the cells that `small` replays: every other one of the thesis
WALKS = tuple(name for name in metrics.TABLE7 if "walk" in name)


def read(folder: str | os.PathLike[str]) -> Result:
    """Return the cells of the sweep in `folder`; raise UsageError if there are none."""
    if not table.is_sweep(folder):
        raise UsageError(f"{str(folder)!r} is not a sweep; make a sweep with 'scmsim sweep sweep-thesis -o {folder}'")
    found = table.read(folder)
    runs = [run for run in found.runs if run.cell.get("operation")]
    if not runs:
        raise UsageError(f"{str(folder)!r} has no cells of the thesis; make the cells with 'scmsim sweep sweep-thesis'")
    return Result(found.manifest, runs)


def small(quick: bool) -> Result:
    """Replay write cells of the thesis's four file sizes at every other unit; quick: 64 MiB each, without the largest file."""
    total = 64 * MI if quick else 1024 * MI
    runs = []
    for size in (size for size in FILES if size <= total):
        for unit in UNITS:
            source = cast(Source, thesis.Workload("write", size, size, unit, unit, total))
            runs += replay(source, ALL, MACHINE).runs
    return Result({"tool": "scmsim reproduce"}, runs)


def draw(found: Result, folder: str | os.PathLike[str], suffix: str) -> list[pathlib.Path]:
    """Draw the page walks of each operation, including the thesis's Figures 8 to 13; return the paths."""
    return panels.draw({"simulated": found}, folder, suffix, quantities=WALKS, prefix="thesis-").paths
