"""The measured cells (file system x operation x unit) and the model's counts for the same calls."""

import csv
import pathlib

import numpy as np

from scmsim.core import registry, units
from scmsim.core.records import LOAD, NTSTORE, PM, SETUP, STORE, WORK
from scmsim.fs.engine.model import Model
from scmsim.workload.microbench import Workload

DATA = pathlib.Path(__file__).parent / "data"
WINEFS_UNITS, WINEFS_PASSES = (1024, 4096, 16384, 65536, 2 << 20), ("append", "rewrite", "read", "wsync")


def measured(*systems: str) -> list[dict]:
    """Rows of measured_513.csv of the given file systems, numbers converted; the empty call (op null) left out.

    A name `6.1:NAME` takes the rows of file system NAME in measured_610.csv, `4.4:NAME` those of measured_440.csv; WineFS has
    a file of its own.
    """
    return [row for name in systems for row in _rows(*name.rpartition(":")[::2])]


def _rows(kernel: str, fs: str) -> list[dict]:
    """Rows of one file system on one kernel (none: 5.13.13)."""
    own = {"6.1": "measured_610.csv", "4.4": "measured_440.csv"}
    name = own.get(kernel, "measured_winefs_513.csv" if fs.startswith("winefs") else "measured_513.csv")
    with open(DATA / name, newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["fs"] == fs and row["op"] != "null" and row["unit"] != "0"]
    return [{k: v if k in ("kernel", "fs", "op") else float(v) for k, v in row.items() if v} for row in rows]


def held_out(row: dict) -> bool:
    """Whether no cost was fitted to a cell of WineFS: the black fields of a board of passes by units, in each mode others."""
    if not row["fs"].startswith("winefs"):
        return False
    unit, op = WINEFS_UNITS.index(int(row["unit"])), WINEFS_PASSES.index(row["op"])
    return bool((unit + op + (row["fs"] == "winefs")) % 2)


def kernel(row: dict) -> dict[str, str]:
    """The parameter that chooses the kernel of a row, for a model that knows several; the checksum of XFS's rows of 6.1."""
    if row.get("kernel") == "6.1" and row["fs"] == "xfs-dax":
        return {"crc32c": "table"}
    return {"kernel": row["kernel"]} if "kernel" in row and "kernel" in registry.load("fs", row["fs"]).PARAMS else {}


def workload(row: dict) -> Workload:
    """The microbenchmark of one cell, as it was measured."""
    unit, calls = int(row["unit"]), int(row["calls"])
    # A measured file was rewritten before it was read, which tmpfs notices: a page's second use activates it.
    op = "reread" if (row["fs"], row["op"]) == ("tmpfs", "read") else row["op"]
    return Workload(op=op, unit=unit, total=unit * calls)


def totals(fs: str, work, costs: int = 0, free: bool = False, **params) -> dict:
    """Per call: sums over the events of the counted operations, straight from the model (no paging, MMU or medium).

    `cost_counts`: how often each cost row was charged, if `costs` rows are asked for; `free` charges nothing for any cost.
    Fences are those that order something: the one that ends a non-temporal copy is left out unless it is asked for.
    """
    module = registry.load("fs", fs)
    defaults = {name: units.parse_param(text, unit) for name, (text, unit, _) in module.PARAMS.items()}
    ordering = {"copy_fence": 0} if "copy_fence" in defaults else {}
    model = Model(fs, {**defaults, **ordering, **params}, work.files)
    state = model.state
    if costs:
        state.record.cost[0, :costs] = [(1000, 0, 0, 100 + k) for k in range(costs)]
    if free:
        state.record.cost[0, :, :3] = 0
    sums: dict = dict.fromkeys(("ins", "ld", "st", "pmst", "pmld", "flush", "fence", "ntst", "calls"), 0.0)
    counts = np.zeros(costs)
    for batch in work.batches():
        counted = (batch.flag & SETUP) == 0
        sums["calls"] += int((counted & ((batch.flag & 4) == 0)).sum())
        for events in model.events(batch):
            add(sums, counts, events, counted)
    calls = sums.pop("calls")
    result = {key: value / calls for key, value in sums.items()}
    return {**result, "cost_counts": counts / calls, "state": state, "module": module}


def add(sums: dict, counts: np.ndarray, events: np.recarray, counted: np.ndarray) -> None:
    """Add the counted events of one buffer to the sums."""
    e = events[counted[events["op"]]]
    code, width, length, addr = e["code"], e["width"], e["length"], e["addr"]
    work = code == WORK
    if len(counts):
        np.add.at(counts, e["site"][work] - 100, addr[work] / 1000)
    else:
        sums["ins"] += addr[work].sum() / 1000
        sums["ld"] += length[work].sum() / 1000
        sums["st"] += width[work].sum() / 1000
    load, store = code == LOAD, (code == STORE) | (code == NTSTORE)
    steps = np.where(width > 0, -(-length // np.maximum(width, 1)), 0)
    sums["ld"] += steps[load].sum()
    sums["st"] += steps[store].sum()
    sums["ins"] += steps[load | store].sum()
    pages = ((addr + length - 1) >> 12) - (addr >> 12) + 1
    moved = np.where(width < 0, -width * pages, length)
    pm = e["space"] == PM
    sums["pmst"] += moved[store & pm & (length > 0)].sum()
    sums["pmld"] += moved[load & pm].sum()
    sums["ntst"] += steps[code == NTSTORE].sum()
    sums["fence"] += length[code == 5].sum()
    lines = ((addr + length - 1) >> 6) - (addr >> 6) + 1
    strided = pages * ((((addr & 63) - width - 1) >> 6) + 1)
    sums["flush"] += np.where(width < 0, strided, lines * np.maximum(width, 1))[code == 4].sum()
