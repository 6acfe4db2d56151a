"""Measure how much each capture back end slows a program down on this machine, by timing a loop of small writes."""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from scmsim.core import registry
from scmsim.core.errors import EnvironmentProblem

CALLS = 20_000
UNIT = 4096
REPEATS = 3
WARM = 2000

# the program times the loop itself, to exclude the time that the tracer takes to start and stop
_LOOP = f"""
import os, sys, time
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
unit, pages = b"x" * {UNIT}, 1024
places = [i * 389 % pages * {UNIT} for i in range(int(sys.argv[3]))]
os.ftruncate(file, pages * {UNIT})
for place in places[:{WARM}] + list(range(0, pages * {UNIT}, {UNIT})): os.pwrite(file, unit, place)
start = time.perf_counter_ns()
for place in places: os.pwrite(file, unit, place)
took = time.perf_counter_ns() - start
with open(sys.argv[2], "w") as out: out.write(str(took))
"""


def calibrate(backends: list[str], *, calls: int = CALLS, repeats: int = REPEATS) -> dict[str, dict[str, Any]]:
    """Time a Python loop of 4 KiB pwrite calls, in turn without a tracer and under each back end.

    Parameters
    ----------
    backends : list of str
        Names of back ends; a back end that cannot work on this machine gets an entry with the reason (`problem`).
    calls : int
        Number of calls per run.
    repeats : int
        Number of runs without a tracer, and under each back end; the results are medians.

    Returns
    -------
    dict
        Back end -> `loop`, `calls`, `repeats`, `base_ns` and `traced_ns` (median ns per call without and with tracing) and
        `factor` (traced / base); only `problem` if the back end cannot work.
    """
    took: dict[str, list[float]] = {name: [] for name in ("", *backends)}
    problems: dict[str, str] = {}
    with tempfile.TemporaryDirectory(dir=_fast_folder()) as folder:
        for _ in range(repeats):
            for name, values in took.items():
                if name not in problems:
                    try:
                        values.append(_once(name, pathlib.Path(folder), calls) / calls)
                    except EnvironmentProblem as problem:
                        problems[name] = str(problem)
    base = statistics.median(took.pop(""))
    out: dict[str, dict[str, Any]] = {}
    for name, values in took.items():
        if name in problems:
            out[name] = {"problem": problems[name]}
            continue
        traced = statistics.median(values)
        measured = {"base_ns": round(base), "traced_ns": round(traced), "factor": round(traced / base, 2)}
        out[name] = {"loop": f"pwrite of {UNIT} bytes", "calls": calls, "repeats": repeats, **measured}
    return out


def _fast_folder() -> str | None:
    """Return a folder in memory if there is one, so that disk time does not hide the tracer's cost."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _once(backend: str, folder: pathlib.Path, calls: int) -> float:
    result = folder / "took"
    argv = [sys.executable, "-I", "-S", "-c", _LOOP, str(folder / "data"), str(result), str(calls)]
    if backend:
        registry.load("capture", backend).capture(argv, folder / "trace.parquet", under=str(folder))
    else:
        subprocess.run(argv, check=True)
    return float(result.read_text())
