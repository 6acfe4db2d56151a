"""The thesis' matrix as a result: the table of the sweep `sweep-thesis`, or a few of its cells replayed small.

A cell passes over one file in units until `total` bytes are moved (workload/thesis.py); the thesis prints those of the write
operation for files of 1, 8, 64 and 1024 MiB.  Its Figures 14 to 16 are misses of data caches, which no model here has.
"""

import os
import pathlib
from typing import Any, cast

from scmsim import metrics
from scmsim.counters import SCHEMA
from scmsim.errors import UsageError
from scmsim.pipeline import replay
from scmsim.records import Source
from scmsim.report import figures
from scmsim.reproduce.thesis import ALL, MACHINE
from scmsim.result import Result, Run
from scmsim.workload import thesis

MI = 1 << 20
FILES = tuple(size * MI for size in (1, 8, 64, 1024))
UNITS = thesis.UNITS[::2]  # of the small cells
WALKS = tuple(name for name in metrics.TABLE7 if "walk" in name)
_TABLE = "results.parquet"  # of a sweep


def read(folder: str | os.PathLike[str]) -> Result:
    """The cells that the sweep has in `folder`; raises UsageError where there are none."""
    import pyarrow
    import pyarrow.parquet

    path = pathlib.Path(folder) / _TABLE
    if not path.is_file():
        raise UsageError(f"no {_TABLE} in {str(folder)!r}; make it with 'scmsim sweep sweep-thesis -o {folder}'")
    try:
        rows = pyarrow.parquet.read_table(path).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise UsageError(f"{str(path)!r} cannot be read ({str(error).splitlines()[0]}); run the sweep again") from None
    runs = [_run(row) for row in rows if row.get("cell_operation")]
    if not runs:
        raise UsageError(f"{str(path)!r} has no cells of the thesis; make it with 'scmsim sweep sweep-thesis'")
    return Result({"tool": "scmsim sweep"}, runs)


def _run(row: dict[str, Any]) -> Run:
    """A row of the table as the run that it was."""
    found = {name: value for name, value in row.items() if value is not None}
    cell = {key: found[f"cell_{key}"] for key in ("operation", "file_bytes", "unit_bytes")}
    run = Run(
        found["fs"], found.get("machine"), found.get("paging"), found.get("medium"), int(found["calls"]), cell=cell
    )
    run.counters = {name: int(found[name]) for name in SCHEMA if name in found}
    run.metrics = {name: found[name] for name in metrics.METRICS if name in found}
    return run


def small(quick: bool) -> Result:
    """Write cells of the thesis' four file sizes at every other unit; quick: 64 MiB each, which leaves out the largest file."""
    total = 64 * MI if quick else 1024 * MI
    runs = []
    for size in (size for size in FILES if size <= total):
        for unit in UNITS:
            source = cast(Source, thesis.source("write", size, size, unit, unit, total))
            runs += replay(source, ALL, MACHINE).runs
    return Result({"tool": "scmsim reproduce"}, runs)


def draw(found: Result, folder: str | os.PathLike[str], suffix: str) -> list[pathlib.Path]:
    """Draw the page walks of each operation, the thesis' Figures 8 to 13 among them; returns the paths."""
    return figures.draw({"simulated": found}, folder, suffix, quantities=WALKS, prefix="thesis-").paths
