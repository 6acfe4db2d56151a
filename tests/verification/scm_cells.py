"""The cells of the SCM manager paper's tables, as traces; times of their operations, from counts and the board's presets."""

import csv
import pathlib
from typing import Any

import numpy as np

import scmsim
from scmsim import registry
from scmsim.estimate import estimate
from scmsim.mmu.presets import timing
from scmsim.records import OPS, SETUP
from scmsim.workload import memory_objects
from tests.reference import drive

DATA = pathlib.Path(__file__).parent / "data"
MACHINE = "xscale"
BOARD = "64MiB"
COLUMNS = ("fat-nand", "fat-scm", "ext2-scm", "scm-manager")
MEDIUM = {"fat-nand": "nand", "fat-scm": "feram", "ext2-scm": "feram", "scm-manager": "feram"}
NO_CALLS = ("malloc", "free", "load", "store")  # not system calls in the paper's test


def published() -> dict[str, dict[str, Any]]:
    """Rows by id; `values` are the figures in the order of the columns."""
    with open(DATA / "published_scm_manager.csv", newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    for row in rows.values():
        row["values"] = [float(value) for value in row["value"].split("|")]
    return rows


def run(fs: str, trace: Any, medium: str | None = None, **params: str) -> Any:
    """Replay on the paper's board, by operation."""
    given = {fs: {"capacity": BOARD, **params}}
    return scmsim.replay(trace, fs, MACHINE, medium=medium or MEDIUM[fs], params=given, by="op", paging="base-4k").runs[
        0
    ]


def nanoseconds(run: Any, op: str | None = None, calls: int = 0) -> float:
    """Estimated time of all operations of a kind in a run (of all operations: None) that are `calls` system calls."""
    counters = run.groups.get(op, {}) if op else run.counters
    return estimate(counters, timing(MACHINE), registry.literals("medium", run.medium), calls=calls).total_ns


def per_call(run: Any, op: str, times: int) -> float:
    """Microseconds of one operation."""
    return nanoseconds(run, op, 0 if op in NO_CALLS else times) / times / 1000


def micro(fs: str, size: int, medium: str | None = None, **params: str) -> dict[str, float]:
    """Table 2 and 3: microseconds of each operation on a file of `size` bytes, and on a memory object of the SCM manager."""
    times = 10
    files = drive.files(0, *[-1] * (2 * times), dirs=[0])
    rows: list[tuple] = [("create", 1, 0, 0, 0, SETUP), ("unlink", 1, 0, 0, 0, SETUP)]
    for i in range(1, times + 1):
        rows += [
            ("create", i, 0, 0, 0),
            ("close", i),
            ("open", i),
            ("write", i, 0, size),
            ("read", i, 0, size),
            ("close", i),
        ]
        rows += [("unlink", i, 0, 0, 0, SETUP)]
    counts = dict.fromkeys(("create", "open", "write", "read"), times)
    if fs == "scm-manager":
        for i in range(times + 1, 2 * times + 1):
            rows += [("malloc", i, 0, size), ("store", i, 0, size), ("load", i, 0, size), ("free", i)]
        counts.update(dict.fromkeys(NO_CALLS, times))
    else:
        params = {"mount": "sync", "page_cache": "cold", **params}
    found = run(fs, drive.source(files, drive.ops(*rows)), medium, **params)
    return {"close": per_call(found, "close", 2 * times)} | {op: per_call(found, op, n) for op, n in counts.items()}


def program(fs: str, app: str, interface: str) -> float:
    """Table 5: milliseconds of one run of a program over the five files, its own work left out."""
    source = memory_objects.source(app=app, interface=interface, repeats=10)
    params = {} if fs == "scm-manager" else {"mount": "sync", "page_cache": "cold"}
    found = run(fs, source, **params)
    calls = found.calls - sum(
        int(np.isin(batch.op, [OPS.index(op) for op in NO_CALLS]).sum()) for batch in source.batches()
    )
    return nanoseconds(found, None, calls) / 10 / 1e6


def latency(medium: str) -> float:
    """Nanoseconds of one access, as the medium's preset has them."""
    return float(registry.literals("medium", medium)["load_ns"])
