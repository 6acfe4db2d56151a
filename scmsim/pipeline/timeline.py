"""Replay a trace in windows, and record the counts of each mechanism in each window."""

import os
import pathlib
from dataclasses import dataclass

import numpy as np

from scmsim.core.counters import SCHEMA, rounded
from scmsim.core.errors import UsageError, expect
from scmsim.core.records import Source
from scmsim.fs.engine.model import ROOM
from scmsim.pipeline import DEFAULTS, kernels
from scmsim.pipeline.arguments import Params, Progress, checked_params, open_source
from scmsim.pipeline.run import Replay
from scmsim.pipeline.stages import CounterIndex, Stage
from scmsim.result import Run

MOST_WINDOWS = 10_000


@dataclass
class Timeline:
    """A run and its windows."""

    run: Run
    # int64 array: trace time, ns, of the first operation of each window, and of the last operation of the trace
    starts: np.ndarray
    # site -> counter -> int64 array with one count per window; the counts add up to those of the run's `sites`
    counts: dict[str, dict[str, np.ndarray]]
    operations: np.ndarray  # int64 array: number of operations of each window


class _Snapshots(Stage):
    """Snapshots of the counters before each batch; this stage comes after the stages that count."""

    def __init__(self, counting: CounterIndex) -> None:
        self.counting = counting
        self.starts: list[int] = []
        self.operations: list[int] = []
        self.kept: list[np.ndarray] = []

    def begin(self, batch: np.recarray) -> None:
        self.operations.append(len(batch))
        self.keep(int(batch[0]["time_ns"]))

    def take(self, events: np.ndarray, bins: np.ndarray) -> None:
        pass

    def keep(self, now: int) -> None:
        """Keep the counts until now, by site and counter."""
        cells = self.counting.counters[:-1].view(np.int64).reshape(-1, self.counting.sites, len(SCHEMA))
        self.starts.append(now)
        self.kept.append(cells.sum(axis=0))


def timeline(
    trace: "str | os.PathLike[str] | Source",
    fs: str,
    *,
    windows: int = 200,
    machine: str = DEFAULTS["machine"],
    paging: str | None = None,
    medium: str = DEFAULTS["medium"],
    params: Params | None = None,
    progress: Progress | None = None,
) -> Timeline:
    """Replay a trace on one file system, in about `windows` windows with equal numbers of operations.

    The other parameters and errors are those of `replay`.
    """
    expect("windows", windows, int, f"a whole number from 1 to {MOST_WINDOWS}")
    if not 1 <= windows <= MOST_WINDOWS:
        raise UsageError(f"{windows} windows are not between 1 and {MOST_WINDOWS}; give another number")
    source, _ = open_source(pathlib.Path(trace) if isinstance(trace, os.PathLike) else trace)
    chunk = max(1, min(ROOM, -(-source.rows // windows)))
    given = checked_params(params)
    footprints = kernels.choose(None, [fs], given, None).footprints
    one = Replay(source, fs, machine, paging, medium, given, "site", footprints, chunk)
    snapshots = _Snapshots(one.counting)
    one.loop.stages = [*one.loop.stages, snapshots]
    run = one.run(False, progress)
    snapshots.keep(int(one.counting.ended[0]))
    counts: dict[str, dict[str, np.ndarray]] = {}
    for s, site in enumerate(one.model.sites):
        # differences of rounded sums, so that the windows add up to the run's
        sums = [rounded(dict(zip(SCHEMA, kept[s].tolist(), strict=True))) for kept in snapshots.kept]
        counts[site] = {name: np.diff([each[name] for each in sums]) for name in SCHEMA if sums[-1][name]}
    return Timeline(run, np.array(snapshots.starts, np.int64), counts, np.array(snapshots.operations, np.int64))
