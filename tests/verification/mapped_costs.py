"""Costs of page faults, fitted to half of the cases of mapped_cases.py and judged on the others.

Run: python -m tests.verification.mapped_costs FOLDER [--fs ext4-dax,xfs-dax] [--write]

FOLDER holds what `mapped_cases -o FOLDER` counted.  The model says how often each cost is charged in a row; what it counts besides
(blocks, transactions, the file's times) is taken off.  The fit is one of least squares of relative errors with non-negative costs;
a cost that too few rows charge keeps the amount of the table for all.  With --write the tables
scmsim/fs/mapping/costs/mapping-FS.toml are replaced.
"""

import argparse
import json
import pathlib
from typing import Any

import numpy as np

from scmsim.core import records as r
from scmsim.core import toml
from scmsim.fs.engine import costs
from scmsim.fs.mapping.mechanisms import COSTS
from tests.verification import mapped_cases

FOLDER = pathlib.Path(mapped_cases.drive.model.__file__).parents[1] / "mapping" / "costs"
FIELDS = costs.COLUMNS
JUDGED = ("load", "store", "munmap", "msync")
SEEN = 5  # rows that must charge a cost before it is fitted


def counts(
    fs: str, params: dict[str, Any], each: dict[str, Any], extents: list[list[int]]
) -> tuple[np.ndarray, np.ndarray]:
    """(How often each row of a case charges each cost, what the rest of the model counts in FIELDS) of its rows."""
    found = []
    for first in range(0, len(COSTS), len(FIELDS)):
        marked = dict(zip(COSTS[first : first + len(FIELDS)], FIELDS, strict=False))
        found.append(_amounts(fs, params, each, extents, marked))
    found.append(_amounts(fs, params, each, extents, {}))
    rest = found.pop()
    charges = np.concatenate([part - rest for part in found], 1)[:, : len(COSTS)]
    return charges, rest


def _amounts(fs: str, params: dict[str, Any], each: dict[str, Any], extents: Any, marked: dict[str, str]) -> np.ndarray:
    """FIELDS of each row with costs of mappings that are 1 in the field of `marked`, and 0 else."""

    def change(name: str, table: dict[str, Any]) -> dict[str, Any]:
        if not name.startswith("mapping"):
            return table
        return {
            cost: {**row, **dict.fromkeys(FIELDS, 0), **({marked[cost]: 1} if cost in marked else {})}
            for cost, row in table.items()
        }

    with costs.changed(change):
        return np.array(mapped_cases.predict(fs, params, each, extents, of_code), float)


def of_code(events: np.recarray) -> tuple[float, ...]:
    """FIELDS of events: those of WORK, and of copies with an instruction for each `width` bytes."""
    work = events[events.code == r.WORK]
    copies = [events[(events.width > 0) & np.isin(events.code, codes)] for codes in ([r.LOAD], [r.STORE, r.NTSTORE])]
    loads, stores = (int((these.length // these.width).sum()) for these in copies)
    amounts = (work.addr, loads + stores), (work.length, loads), (work.width, stores)
    return tuple(int(column.sum()) / r.MILLI + copied for column, copied in amounts)


def rows_of(fs: str, folder: pathlib.Path) -> tuple[np.ndarray, ...]:
    """(Case, operation, charges, rest, counted) of the judged rows whose outcome the model has right."""
    case, op, charges, rest, counted = [], [], [], [], []
    for path in sorted(folder.glob(f"{fs}-*.json")):
        kept = json.loads(path.read_text())
        params = {"kernel": "6.1"} | mapped_cases.MADE[fs][
            int(path.stem.rsplit("-", 1)[1]) % len(mapped_cases.MADE[fs])
        ][2]
        measured = iter(kept["rows"])
        for k, each in enumerate(kept["cases"], 1):
            extents = None if fs == "tmpfs" else [x for x in kept["extents"] if x[0] == k]
            said = mapped_cases.predict(fs, params, each, extents)
            how, other = counts(fs, params, each, extents)
            for i, (row, model, real) in enumerate(
                zip(each["rows"], said, [next(measured) for _ in said], strict=True)
            ):
                right = all(model[name] == real[name] for name in mapped_cases.judged(row[0]))
                if row[0] in JUDGED and right and not model["bus"] + model["segv"] and how[i].any():
                    case.append(f"{path.stem} {k}")
                    op.append(row[0])
                    charges.append(how[i])
                    rest.append(other[i])
                    counted.append([real[field] for field in FIELDS])
    return np.array(case), np.array(op), np.array(charges), np.array(rest), np.array(counted, float)


def fit(charges: np.ndarray, amounts: np.ndarray, whole: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Non-negative costs (and any amount per call, `base`) by least squares, rows weighted by all that was counted."""
    columns = np.concatenate([charges, base], 1)
    weight = 1 / np.maximum(whole, 500)
    active = (columns > 0).sum(0) >= SEEN
    while True:
        found = np.zeros(columns.shape[1])
        found[active] = np.linalg.lstsq(columns[:, active] * weight[:, None], amounts * weight, rcond=None)[0]
        if (found[: len(COSTS)] >= 0).all():
            return np.where(active, found, np.nan)
        active[np.argmin(found[: len(COSTS)])] = False


def main() -> None:
    """Fit, judge, and with --write replace the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--fs", default="ext4-dax,xfs-dax,ext2-dax,tmpfs")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    for fs in given.fs.split(","):
        case, op, charges, rest, counted = rows_of(fs, given.folder)
        names = sorted(set(case))
        first = np.isin(case, names[::2])
        calls = np.stack([op == "munmap", op == "msync"], 1).astype(
            float
        )  # what a call takes besides is no cost of a mapping
        found = np.stack(
            [
                fit(charges[first], (counted - rest)[first, k], counted[first, k], calls[first])
                for k in range(len(FIELDS))
            ],
            1,
        )
        amounts = np.nan_to_num(found)
        said = charges @ amounts[: len(COSTS)] + calls @ amounts[len(COSTS) :] + rest
        print(f"{fs}: {len(case)} rows of {len(names)} cases")
        for which, part in (("fitted to", first), ("judged", ~first)):
            for kind in JUDGED:
                here = part & (op == kind)
                if here.any():
                    _report(which, kind, said[here], counted[here])
        for name, row in zip(COSTS, found, strict=False):
            print(f"  {name:18s}" + "".join(f"{value:10.1f}" for value in row))
        if given.write:
            _write(fs, found, len(names[::2]))


def _report(which: str, kind: str, said: np.ndarray, counted: np.ndarray) -> None:
    off = np.abs(said / np.maximum(counted, 1) - 1)
    total = said.sum(0) / counted.sum(0) - 1
    within = (off[:, 0] <= 0.1).mean()
    print(
        f"  {which:9s} {kind:6s} {len(said):4d} rows: total "
        + ", ".join(f"{field} {100 * value:+.1f} %" for field, value in zip(FIELDS, total, strict=True))
        + f"; instructions of {100 * within:.0f} % of rows within 10 %, median error {100 * np.median(off[:, 0]):.1f} %"
    )


def _write(fs: str, found: np.ndarray, cases: int) -> None:
    """The table of a file system: fitted costs, and those of the table for all that no row told."""
    _, prior = toml.read(FOLDER / "mapping.toml")
    told = f"Debian's 6.1 in the lab, {cases} random cases of {fs} (python -m tests.verification.mapped_costs)"
    text = [
        f"# As mapping.toml, fitted to what {fs} of Linux 6.1 did in the lab; tests/verification/mapped_costs.py judges it.\n"
    ]
    for name, row in zip(COSTS, found, strict=False):
        known = not np.isnan(row).any()
        values = {field: round(float(row[k]), 1) if known else prior[name][field] for k, field in enumerate(FIELDS)}
        about = {
            "per": prior[name]["per"],
            "kind": "fitted" if known else "estimate",
            "source": told if known else prior[name]["source"],
        }
        lines = [
            f"[{name}]",
            f'site = "{prior[name]["site"]}"',
            *(f"{field} = {value}" for field, value in values.items()),
        ]
        text.append("\n".join([*lines, *(f'{key} = "{value}"' for key, value in about.items())]) + "\n")
    (FOLDER / f"mapping-{fs}.toml").write_text("\n".join(text), encoding="utf-8")


if __name__ == "__main__":
    main()
