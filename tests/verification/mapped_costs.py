"""Costs of page faults, fitted to some cases of mapped_cases.py and judged by others.

Run: python -m tests.verification.mapped_costs FITTED JUDGED [--fs ext4-dax,xfs-dax] [--write]

Both folders hold what `mapped_cases -o FOLDER` counted.  The model says how often each cost is charged in a row; what it counts
besides (blocks, transactions) is taken off.  It is told when a fault found the clock's tick a new one.  Kernel threads are not
counted: what a call spends on waiting for a commit is fitted (`waits`), but is no cost of a mapping.  A cost that too few rows
charge keeps the amount of the table for all.  With --write the tables scmsim/fs/mapping/costs/mapping-FS.toml are replaced.
"""

import argparse
import json
import pathlib
from typing import Any

import numpy as np

from scmsim.core import records as r
from scmsim.core import registry, toml
from scmsim.fs.engine import costs
from scmsim.fs.mapping.mechanisms import COSTS
from tests.verification import mapped_cases
from tools.calibration import tables

FOLDER = pathlib.Path(mapped_cases.drive.model.__file__).parents[1] / "mapping" / "costs"
FIELDS = costs.COLUMNS
JUDGED = ("load", "store", "mmap", "munmap", "msync")
THREADS = (  # costs of kernel threads, whose instructions are not counted
    "commit", "journal_block", "revoke", "checkpoint_block", "checkpoint", "log_block", "log_item", "busy_extent", "push_block",
)  # fmt: skip
LOGS = ("journal", "checkpoint", "log", "metadata")  # what they write
WAITS = ("commit", "checkpoint")  # the call waits for one
COUNTED = (*COSTS, "waits")
MSYNCS = 150  # instructions of __do_sys_msync: a call has about 100, and one is made for each mapping
AT_ONCE, DIGIT = (
    3,
    10**5,
)  # costs that are counted in one field, and more than how often a row charges the first two of them
TIMES = {"generic_update_time", "xfs_vn_update_time"}  # functions of a fault that finds the clock's tick a new one
SEEN = 5  # rows that must charge a cost before it is fitted
LEAST, TELLS, STEPS = 500, 0.05, 30  # instructions of a small row; an error that is no chance; steps of the fit
HUGE_CLEARED = 2048  # instructions of clear_page_erms for 2 MiB: the first huge page of zeros after a boot
UPDATES = ("store", "madvise", "mmap")  # rows that set a file's times
MEANS = ("mmap",)


def counts(
    fs: str, params: dict[str, Any], each: dict[str, Any], extents: Any, times: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """(How often each row of a case charges each of COUNTED, what the rest of the model counts in FIELDS) of its rows."""
    rest = _amounts(fs, params, each, extents, times, {})
    found = []
    for first in range(0, len(COUNTED), AT_ONCE * len(FIELDS)):
        marked = {cost: (FIELDS[k // AT_ONCE], DIGIT ** (k % AT_ONCE)) for k, cost in enumerate(COUNTED[first:][:9])}
        part = np.rint(_amounts(fs, params, each, extents, times, marked) - rest).astype(np.int64)
        for field, unit in marked.values():
            count = part[:, FIELDS.index(field)] // unit
            found.append(count if unit == DIGIT ** (AT_ONCE - 1) else count % DIGIT)
    return np.stack(found, 1).astype(float), rest


def _amounts(
    fs: str,
    params: dict[str, Any],
    each: dict[str, Any],
    extents: Any,
    times: list[int],
    marked: dict[str, tuple[str, int]],
) -> np.ndarray:
    """FIELDS of each row, without what kernel threads do; costs of mappings are 0, but those of `marked`: (field, amount)."""

    def change(name: str, table: dict[str, Any]) -> dict[str, Any]:
        none = dict.fromkeys(FIELDS, 0)
        changed = {cost: dict.fromkeys(FIELDS, 0) for cost in table if name.startswith("mapping") or cost in THREADS}
        for cost, (field, amount) in marked.items():
            for known in WAITS if cost == "waits" else [cost]:
                if known in changed:
                    changed[known] = none | {field: amount}
        return {cost: {**row, **changed.get(cost, {})} for cost, row in table.items()}

    with costs.changed(change):
        tick = {"timestamp_tick": 1} if "timestamp_tick" in registry.literals("fs", fs)["PARAMS"] else {}
        return np.array(mapped_cases.predict(fs, {**params, **tick}, each, extents, of_code, times), float)


def of_code(events: np.recarray, sites: list[str]) -> tuple[float, ...]:
    """FIELDS of events: those of WORK, and of copies of `width` bytes an instruction, but for those of kernel threads."""
    work = events[events.code == r.WORK]
    own = events[~np.isin(events.site, [sites.index(name) for name in LOGS if name in sites])]
    copies = [own[(own.width > 0) & np.isin(own.code, codes)] for codes in ([r.LOAD], [r.STORE, r.NTSTORE])]
    loads, stores = (int((these.length // these.width).sum()) for these in copies)
    amounts = (work.addr, loads + stores), (work.length, loads), (work.width, stores)
    return tuple(int(column.sum()) / r.MILLI + copied for column, copied in amounts)


def rows_of(fs: str, folder: pathlib.Path) -> tuple[np.ndarray, ...]:
    """(Case, operation, charges, rest, counted) of the judged rows whose outcome the model has right."""
    case, op, charges, rest, counted = [], [], [], [], []
    for path in sorted(folder.glob(f"{fs}-*.json")):
        kept = json.loads(path.read_text())
        made = mapped_cases.MADE[fs]
        params = {"kernel": "6.1"} | made[int(path.stem.rsplit("-", 1)[1]) % len(made)][2]
        measured = iter(kept["rows"])
        for k, each in enumerate(kept["cases"], 1):
            extents = None if fs == "tmpfs" else [x for x in kept["extents"] if x[0] == k]
            reals = [next(measured) for _ in each["rows"]]
            said = mapped_cases.predict(fs, params, each, extents)
            how, other = counts(fs, params, each, extents, ticks(each["rows"], reals))
            for i, (row, model, real) in enumerate(zip(each["rows"], said, reals, strict=True)):
                right = all(model[name] == real[name] for name in mapped_cases.judged(row[0]))
                ended = model["bus"] + model["segv"]
                populates = row[0] == "mmap" and row[3] & r.POPULATE  # its faults come by another way (mm/gup.c)
                if row[0] in JUDGED and not populates and right and not ended and how[i].any() and is_usual(fs, real):
                    case.append(f"{path.stem} {k}")
                    op.append(row[0])
                    charges.append(how[i])
                    rest.append(other[i])
                    counted.append([real[field] for field in FIELDS])
    return np.array(case), np.array(op), np.array(charges), np.array(rest), np.array(counted, float)


def ticks(rows: list[Any], reals: list[dict[str, Any]]) -> list[int]:
    """Times of rows in ticks of the clock: a new one where a fault set the file's times."""
    new = [
        row[0] in UPDATES and (real["faults"] > 0 or row[0] == "mmap") and bool(TIMES & real["functions"].keys())
        for row, real in zip(rows, reals, strict=True)
    ]
    return np.cumsum(new).tolist()


def is_usual(fs: str, real: dict[str, Any]) -> bool:
    """Whether the guest made a call, and not several, and did not clear DAX' huge page of zeros, as one does after a boot."""
    ran = real["functions"]
    once = ran.get("__do_sys_msync", 0) < MSYNCS
    return real["instructions"] > 0 and once and (fs == "tmpfs" or ran.get("clear_page_erms", 0) < HUGE_CLEARED)


def fit(charges: np.ndarray, amounts: np.ndarray, whole: np.ndarray, prior: np.ndarray, op: np.ndarray) -> np.ndarray:
    """Costs that are not negative, by least squares of errors relative to all that was counted; NaN: too few rows charge one.

    Errors beyond `TELLS` count as their size and not as its square, since some rows pay for what others get, too: a slab, a list of
    free pages, a node of the tree of mappings.  Rows of MEANS are fitted by their mean: whether a node of this tree is split makes
    them one of two amounts, and no trace tells.  A cost without a fit keeps its amount of `prior`.
    """
    active = (charges > 0).sum(0) >= SEEN
    weight = 1 / np.maximum(whole, LEAST)
    by_mean = np.isin(op, MEANS)
    for kind in MEANS:
        weight[op == kind] = 1 / max(np.median(whole[op == kind]), LEAST) if (op == kind).any() else 0
    left = amounts - charges[:, ~active] @ prior[~active]
    trust = np.ones(len(left))
    for _ in range(STEPS):
        scale = weight * np.sqrt(trust)
        found = _not_negative(charges[:, active] * scale[:, None], left * scale)
        error = np.abs(charges[:, active] @ found - left) * weight
        trust = np.where(by_mean, 1, np.minimum(1, TELLS / np.maximum(error, 1e-9)))
    whole_table = np.full(charges.shape[1], np.nan)
    whole_table[active] = found
    return whole_table


def _not_negative(columns: np.ndarray, amounts: np.ndarray) -> np.ndarray:
    """Least squares; a column whose amount would be negative has none."""
    kept = np.ones(columns.shape[1], bool)
    while True:
        found = np.zeros(columns.shape[1])
        found[kept] = np.linalg.lstsq(columns[:, kept], amounts, rcond=None)[0]
        if (found >= 0).all():
            return found
        kept[np.argmin(found)] = False


def main() -> None:
    """Fit, judge, and with --write replace the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fitted", type=pathlib.Path)
    parser.add_argument("judged", type=pathlib.Path)
    parser.add_argument("--fs", default="ext4-dax,xfs-dax,ext2-dax,tmpfs")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    _, prior = toml.read(FOLDER / "mapping.toml")
    for fs in given.fs.split(","):
        case, op, charges, rest, counted = rows_of(fs, given.fitted)
        known = np.array([[prior[name][field] for field in FIELDS] for name in COSTS] + [[0] * len(FIELDS)], float)
        found = np.stack(
            [fit(charges, (counted - rest)[:, k], counted[:, k], known[:, k], op) for k in range(len(FIELDS))], 1
        )
        found[found[:, 0] == 0] = 0  # no instructions load or store nothing
        amounts = np.where(np.isnan(found), known, found)
        print(f"{fs}: fitted to {len(case)} rows of {len(set(case))} cases")
        _report("fitted", op, charges @ amounts + rest, counted)
        if given.write:
            _write(fs, found, len(set(case)))
        case, op, charges, rest, counted = rows_of(fs, given.judged)
        print(f"  judged by {len(case)} rows of {len(set(case))} cases")
        _report("judged", op, charges @ amounts + rest, counted)
        for name, row in zip(COUNTED, found, strict=True):
            print(f"  {name:18s}" + "".join(f"{value:10.1f}" for value in row))


def _report(which: str, op: np.ndarray, said: np.ndarray, counted: np.ndarray) -> None:
    off = np.abs(said / np.maximum(counted, 1) - 1)
    for kind in JUDGED:
        here = op == kind
        if not here.any():
            continue
        total = said[here].sum(0) / counted[here].sum(0) - 1
        within = (off[here, 0] <= 0.1).mean()
        print(
            f"  {which} {kind:6s} {here.sum():4d} rows: total "
            + ", ".join(f"{field} {100 * value:+.1f} %" for field, value in zip(FIELDS, total, strict=True))
            + f"; instructions of {100 * within:.0f} % of rows within 10 %, median error {100 * np.median(off[here, 0]):.1f} %"
        )


def _write(fs: str, found: np.ndarray, cases: int) -> None:
    """The table of a file system: fitted costs, and those of the table for all that no row told."""
    _, prior = toml.read(FOLDER / "mapping.toml")
    told = f"Debian's 6.1 in the lab, {cases} random cases of {fs} (python -m tests.verification.mapped_costs)"
    head = f"# The costs of mapping.toml, fitted to {fs} of Linux 6.1 in the lab; tests/verification/mapped_costs.py tests them.\n"
    entries = {}
    for name, row in zip(COSTS, found, strict=False):
        known = not np.isnan(row).any()
        amounts = [round(float(row[k]), 1) if known else prior[name][field] for k, field in enumerate(FIELDS)]
        kind, source = ("fitted", told) if known else ("estimate", prior[name]["source"])
        entries[name] = tables.Cost(amounts, prior[name]["site"], prior[name]["per"], kind, source)
    (FOLDER / f"mapping-{fs}.toml").write_text(tables.text(head, entries, str), encoding="utf-8")


if __name__ == "__main__":
    main()
