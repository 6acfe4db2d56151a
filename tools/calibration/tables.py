"""Provide the calibrations' common code: measured rows, the ridge fit, the text of a cost table, the report of errors.

A ridge fit moves priors as little as possible until the totals of measured cells are met.  The model's structure gives how
often each cost is charged in a cell; the amounts of bulk copies are subtracted before the fit.
"""

import argparse
import csv
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from scmsim.core import registry, toml
from tests.fs import lab
from tests.verification import cells

FAMILIES = pathlib.Path(__file__).parents[2] / "scmsim" / "fs"
FIELDS = ("instructions", "loads", "stores")
COLUMNS = ("ins_call", "ld_norep_call", "st_norep_call")  # columns of a measured row with FIELDS
PULL = 0.15  # pull of a prior of weight 1: a cost off by 100 % of its prior counts as much as a cell off by 15 %


class Cost(NamedTuple):
    """One entry of a cost table."""

    amounts: Sequence[float]  # as FIELDS
    site: str
    per: str
    kind: str
    source: str


class Left(NamedTuple):
    """A measured cell, and the fitted costs' errors in it."""

    fs: str
    op: str
    unit: int
    errors: Sequence[float]  # as FIELDS, relative
    fitted: bool


def folders(about: str) -> Iterator[tuple[str, pathlib.Path]]:
    """Yield each kernel of the command line and the folder of its runs; `about` is the program's description."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--kernel", default="6.1,6.12")
    given = parser.parse_args()
    for kernel in given.kernel.split(","):
        folder = given.folder / kernel
        folder.mkdir(parents=True, exist_ok=True)
        yield kernel, folder


def shipped(fs: str, name: str) -> dict[str, Sequence[float]]:
    """Return {cost: amounts as FIELDS} of a cost table of a file system's family."""
    _, table = toml.read(registry.path("fs", fs).parent / "costs" / f"{name}.toml")
    return {cost: [entry[field] for field in FIELDS] for cost, entry in table.items()}


def rows(name: str, fs: str, kernel: str = "") -> dict[tuple[str, int], np.ndarray]:
    """Return {(pass, unit): amounts per call} of a file system in a file of measured rows."""
    with open(cells.DATA / name, newline="") as file:
        chosen = [row for row in csv.DictReader(file) if row["fs"] == fs and kernel in ("", row.get("kernel"))]
    return {(row["op"], int(row["unit"])): amounts(row) for row in chosen}


def names(fs: str, kernel: str = "", name: str = "measured_namespace.csv") -> dict[str, np.ndarray]:
    """Return {row: amounts per call} of the passes over names."""
    return {op: value for (op, _), value in rows(name, fs, kernel).items()}


def amounts(row: Mapping[str, str]) -> np.ndarray:
    """Return instructions, loads and stores of a measured row, without rep-strings."""
    return np.array([float(row[column]) for column in COLUMNS])


def structure(measured: Sequence[dict], costs: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return (counts of each cost, amounts without costs) per call of each measured cell."""
    counts = [cells.totals(row["fs"], cells.workload(row), len(costs), merge=0)["cost_counts"] for row in measured]
    free = [cells.totals(row["fs"], cells.workload(row), free=True) for row in measured]
    return np.array(counts), np.array([[found[key] for key in ("ins", "ld", "st")] for found in free])


def ridge(
    measured: Sequence[dict],
    found: tuple[np.ndarray, np.ndarray],
    costs: Sequence[str],
    priors: Mapping[str, Sequence],
    fixed: Mapping[str, Sequence[float]],
    leave_out: int | Callable[[dict], bool] = 0,
) -> tuple[dict[str, list[float]], list[Left]]:
    """Return the fitted costs and the errors in all cells.

    Cells of unit `leave_out` (or for which `leave_out`, a function of the row, is true) are excluded from the fit.
    `found` is the result of `structure`; a prior is (instructions, loads, stores, weight, ...).
    """
    counts, direct = found
    matrix, rest = (counts[:, [costs.index(name) for name in part]] for part in (priors, fixed))
    out = leave_out if callable(leave_out) else lambda row: row["unit"] == leave_out
    used = np.array([not out(row) for row in measured])
    weight = np.array([prior[3] for prior in priors.values()]) * PULL
    fitted, left = np.zeros((len(priors), 3)), np.zeros((len(measured), 3))
    for k, column in enumerate(COLUMNS):
        target = np.array([row[column] for row in measured])
        given = direct[:, k] + rest @ np.array([cost[k] for cost in fixed.values()])
        prior = np.array([each[k] for each in priors.values()], float)
        system = np.vstack([(matrix / target[:, None])[used], np.diag(weight / np.maximum(prior, 1))])
        right = np.concatenate([((target - given - matrix @ prior) / target)[used], np.zeros(len(priors))])
        fitted[:, k] = np.maximum(prior + np.linalg.lstsq(system, right, rcond=None)[0], 0)
        left[:, k] = (matrix @ fitted[:, k] + given) / target - 1
    report = [Left(r["fs"], r["op"], int(r["unit"]), e, bool(u)) for r, e, u in zip(measured, left, used, strict=True)]
    return dict(zip(priors, fitted.tolist(), strict=True)), report


def calls(
    fs: str,
    passes: tuple,
    measured: Mapping[str, np.ndarray],
    costs: Sequence[str],
    known: Mapping[str, Sequence[float]],
    wanted: Mapping[str, Sequence[str]],
) -> dict[str, list[float]]:
    """Return the costs of calls on names: the measured row minus the model's other charges for it.

    `passes` are operations, labels and files; `wanted` has each cost's row and the further costs to subtract.
    """
    ops, labels, files = passes
    model = lab.begin(fs, files, capacity=2 << 30, merge=0)
    state = model.state
    state.record.cost[0, :, :3] = 0
    for name, values in known.items():
        if name != "close":  # create() and its close are one row
            state.record.cost[0, costs.index(name), :3] = [round(1000 * value) for value in values]
    sums = lab.per_op(model, ops)
    found: dict[str, list[float]] = {}
    for name, (row, *less) in wanted.items():
        left = measured[row] - sums[np.array([label == row for label in labels])].sum(0)[:3] / 1000
        for other in less:
            left = left - np.array(found[other] if other in found else known[other])
        found[name] = np.maximum(left, 0.0).tolist()
    return found


def tenths(value: float) -> str:
    return f"{value:.1f}"


def significant(value: float) -> str:
    """Return a number's text: four significant digits below 100, else one decimal."""
    return f"{value:.4g}" if value < 100 else f"{value:.1f}"


def text(head: str, costs: Mapping[str, Cost], number: Callable[[float], str] = significant) -> str:
    """Return a cost table as TOML text, a cost on each line after the comment `head`."""
    return f"{head}\n" + "".join(line(name, cost, number) for name, cost in costs.items())


def line(name: str, cost: Cost, number: Callable[[float], str] = significant) -> str:
    """Return one cost as a line of TOML."""
    numbers = "".join(f"{field} = {number(value)}, " for field, value in zip(FIELDS, cost.amounts, strict=True))
    about = f'kind = "{cost.kind}", source = "{cost.source}"'
    return f'{name} = {{ site = "{cost.site}", per = "{cost.per}", {numbers}{about} }}\n'


def write(name: str, table: str) -> None:
    """Replace scmsim/fs/FAMILY/costs/TABLE.toml, given as FAMILY/TABLE."""
    family, _, table_name = name.partition("/")
    path = FAMILIES / family / "costs" / f"{table_name}.toml"
    draft = path.with_suffix(".tmp")
    draft.write_text(table, encoding="utf-8")
    os.replace(draft, path)


def report(cells_left: Iterable[Left]) -> None:
    """Print the errors in each cell, worst first."""
    for cell in sorted(cells_left, key=lambda cell: -max(map(abs, cell.errors))):
        errors = "  ".join(f"{field} {value:+.3f}" for field, value in zip(FIELDS, cell.errors, strict=True))
        print(f"{cell.fs:13s} {cell.op:8s} {cell.unit:7d}  {errors}{'' if cell.fitted else '  not fitted to'}")
