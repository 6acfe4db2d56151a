"""Read the models' errors in measured cells from the table `residuals.csv`, and summarise them for a model.

Each row has one figure per call of one cell (model, kernel, pass of the microbenchmark, unit), both as measured on a real kernel
in an emulated machine and as computed by the model.  `python -m tests.verification.residuals` writes the table again.
"""

import csv
import pathlib
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

TABLE = pathlib.Path(__file__).with_name("residuals.csv")
_NOTHING = 0.5  # count per call; two figures below it are treated as equal


class Residual(NamedTuple):
    """One figure per call, measured and replayed.

    `basis` is "predicted" if no cost was fitted to the cell or the figure has no cost, else "fitted".
    """

    model: str
    kernel: str
    call: str
    unit_bytes: int
    counter: str
    basis: str
    measured: float
    replayed: float

    @property
    def percent(self) -> float:
        """Return the error in percent of the measured figure."""
        if max(abs(self.measured), abs(self.replayed)) < _NOTHING:
            return 0.0
        return 100 * (self.replayed / self.measured - 1) if self.measured else float("inf")


class Summary(NamedTuple):
    """Absolute errors of one counter over all cells of a kernel and a basis, in percent."""

    kernel: str
    counter: str
    basis: str
    cells: int
    median: float
    ninetieth: float
    worst: float


def read() -> list[Residual]:
    """Return every row of the table."""
    with TABLE.open(newline="", encoding="utf-8") as file:
        return [_residual(row) for row in csv.DictReader(file)]


def _residual(row: dict[str, str]) -> Residual:
    found = {**row, "unit_bytes": int(row["unit_bytes"])}
    return Residual(**{**found, **{name: float(row[name]) for name in ("measured", "replayed")}})  # type: ignore[arg-type]


def of_model(fs: str) -> list[Summary]:
    """Return the summaries of a model's errors; empty for a model without measured cells in the table."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for one in read():
        if one.model == fs:
            groups.setdefault((one.kernel, one.counter, one.basis), []).append(abs(one.percent))
    return [Summary(*key, len(errors), *_quantiles(errors)) for key, errors in groups.items()]


def _quantiles(errors: Iterable[float]) -> Sequence[float]:
    """Return the median, the 90 % quantile and the maximum of the errors."""
    ordered = sorted(errors)
    return statistics.median(ordered), ordered[-(-9 * len(ordered) // 10) - 1], ordered[-1]
