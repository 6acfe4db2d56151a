"""Run a sweep: plan it, compute its points, and gather them in a data set."""

import contextlib
import os
import pathlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scmsim.core.errors import ScmsimError, UsageError
from scmsim.sweep import executors, store
from scmsim.sweep.config import Sweep
from scmsim.sweep.point import Settings, evaluate, in_words, key_of, source, varying

OPERATIONS_PER_S = 1e6  # assumed speed of a replay through MMU and medium; paging alone and repeated passes are faster
START_S = 0.2  # assumed time to open the trace and build the models, s

Progress = Callable[[int, int, float], None]  # points done, points, seconds left
Compiling = Callable[[str, int, int], None]  # what is compiled, pieces done, pieces in all


@dataclass
class Plan:
    """The plan of a sweep: its points by key, the finished keys, and the estimated seconds for the rest."""

    points: dict[str, Settings]
    finished: set[str]
    seconds: float
    unknown: list[str] = field(default_factory=list)


@dataclass
class Outcome:
    """The outcome of a sweep: path of its data set, numbers of points, failures (parameters -> reason), and this run's work."""

    results: pathlib.Path
    points: int
    computed: int
    failed: dict[str, str]
    work: "Work"


@dataclass
class Work:
    """The work of this run of a sweep: operations simulated, operations that only repeat a pass, and bytes moved."""

    operations: int = 0
    repeated: int = 0
    moved: int = 0
    seconds: float = 0.0
    warned: int = 0  # points whose run has warnings, including points computed earlier

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a point's row; a policy's row has no operations and adds nothing."""
        self.operations += row.get("operations", 0)
        self.repeated += row.get("repeated", 0)
        self.moved += row.get("payload_written", 0) + row.get("payload_read", 0)


def plan(sweep: Sweep, out: str | os.PathLike[str], jobs: int) -> Plan:
    """Return the plan of a sweep without writing anything."""
    points = {key_of(settings): settings for settings in sweep.points}
    if not points:
        raise UsageError(f"{str(sweep.path)!r} has no points; give [axes] or [[point]]")
    finished = store.check(pathlib.Path(out)) & points.keys()
    rows: dict[str, float] = {}
    seconds = 0.0
    for key, settings in points.items():
        if key not in finished:
            replayed = repr(_replayed(settings))
            if replayed not in rows:
                rows[replayed] = _rows(settings)
            seconds += START_S + rows[replayed] / OPERATIONS_PER_S
    return Plan(points, finished, seconds / max(1, jobs))


def _replayed(settings: Settings) -> Settings:
    """Return the settings that define a point's trace or workload."""
    return {name: value for name, value in settings.items() if name.split(".")[0] in ("trace", "workload")}


def _rows(settings: Settings) -> float:
    from scmsim.pipeline import open_source

    try:
        return open_source(source(settings))[0].rows
    except ScmsimError:
        return 0.0  # computing the point reports the error


def run(
    sweep: Sweep,
    out: str | os.PathLike[str],
    *,
    executor: str = "threads",
    jobs: int = 0,
    scheduler: str | None = None,
    progress: Progress | None = None,
    compiling: Compiling = lambda *_: None,
) -> Outcome:
    """Compute the points that the folder lacks, and gather all points.

    Parameters
    ----------
    out : path
        Folder of the sweep: `points/KEY.json`, `results.parquet`, `failed.json`.
    executor : "threads", "processes" or "dask"
    jobs : int
        Number of workers; 0 means as many as there are CPUs.
    scheduler : str, optional
        Address of a running Dask scheduler; by default, a cluster is started on this machine.
    progress : callable(done, points, seconds left), optional
    compiling : callable(what, pieces done, pieces), optional
        Called while kernels are compiled before the first point, which happens once after an installation.

    Raises
    ------
    UsageError, EnvironmentProblem
        For a folder that is not the folder of a sweep or is not writable, or a missing executor.  Finished points are kept.
    """
    jobs = jobs or len(os.sched_getaffinity(0))
    ahead = plan(sweep, out, jobs)
    failed: dict[str, str] = {}
    work = Work()
    with store.opened(out) as place:
        todo = [(key, settings) for key, settings in ahead.points.items() if key not in place.finished()]
        if executor != "dask" or scheduler is None:
            points = [settings for _, settings in todo]
            compile_points(points, jobs, compiling)
            warm(points)
        done, started, stop = len(ahead.points) - len(todo), time.monotonic(), threading.Event()
        try:
            for i, (key, row, error) in enumerate(executors.run(executor, todo, jobs, scheduler, stop), 1):
                if row is not None:
                    store.save(place, key, ahead.points[key], row)
                    work.add(row)
                else:
                    failed[key] = str(error)
                if progress:
                    progress(done + i, len(ahead.points), (time.monotonic() - started) / i * (len(todo) - i))
        finally:
            stop.set()
        work.seconds = time.monotonic() - started
        keys = varying(sweep.points)
        order = {in_words(one, keys): failed[key] for key, one in ahead.points.items() if key in failed}
        results, work.warned = store.gather(place, list(ahead.points), order)
        return Outcome(results, len(ahead.points), len(todo), order, work)


def compile_points(points: list[Settings], jobs: int, compiling: Compiling) -> None:
    """Compile the missing kernels of points with file systems, in at most `jobs` processes."""
    from scmsim.pipeline import DEFAULTS, compile_ahead
    from scmsim.pipeline.arguments import models_of

    placed = [one for one in points if "fs" in one]
    models: set[str] = set()
    for fs, machine, paging in {
        (one["fs"], one.get("machine", DEFAULTS["machine"]), one.get("paging")) for one in placed
    }:
        with contextlib.suppress(ScmsimError):  # computing the points reports the error, with their settings
            models |= models_of([fs], machine, paging)
    names = {one["fs"] for one in placed} & models
    compile_ahead.compile_missing(names, models - names, lambda: _calls(placed), jobs, compiling)


def _calls(points: list[Settings]) -> set[str]:
    """Return the names of the operations with which the points' traces and workloads begin."""
    from scmsim.pipeline import compile_ahead, open_source

    found: set[str] = set()
    for one in {repr(_replayed(one)): one for one in points}.values():
        with contextlib.suppress(ScmsimError):
            found |= compile_ahead.first_operations(open_source(source(one))[0])
    return found


def warm(points: list[Settings]) -> None:
    """Compile the points' kernels, or load them from the cache, once and before any worker starts."""
    tiny = {"workload.kind": "microbench", "workload.op": "append", "workload.total": 8192, "workload.unit": 4096}
    for kind, name in dict.fromkeys((kind, one[kind]) for one in points for kind in ("fs", "policy") if kind in one):
        try:
            evaluate({kind: name, **tiny})
        except ScmsimError:
            continue  # computing the points reports the error, with their settings


def summary(outcome: Outcome) -> dict[str, Any]:
    """Return a summary of a run as values that can be written as JSON."""
    work = outcome.work
    return {
        "results": str(outcome.results), "points": outcome.points, "computed": outcome.computed, "failed": outcome.failed,
        "warned": work.warned, "operations": work.operations, "repeated_operations": work.repeated, "bytes": work.moved,
        "seconds": round(work.seconds, 3),
    }  # fmt: skip
