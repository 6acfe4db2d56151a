"""The chunk loop: trace -> file system -> paging -> MMU and medium -> counters.  The only place that knows all stages."""

import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scmsim.core import registry
from scmsim.core.counters import COUNTERS, SCHEMA, rounded
from scmsim.core.errors import UsageError, expect, unknown
from scmsim.core.records import CONTINUES, EVENT, FSYNC, KINDS, OP, OPS, SYNC, Source
from scmsim.core.units import is_whole
from scmsim.medium import read as read_medium
from scmsim.paging import _choice as choice
from scmsim.pipeline.arguments import Params, check_progress, checked_params, machine_table, models_of, names_of
from scmsim.pipeline.arguments import model_params as model_params
from scmsim.pipeline.arguments import opened as opened
from scmsim.pipeline.periods import Watch, parts
from scmsim.result import SYNC_AT_END, Result, Run
from scmsim.trace.formats._report import missed

CHUNK = 1 << 14  # operations and events in flight: an event buffer of 640 KiB fits the second-level cache
GROUPS = ("site", "op", "file")
_LEFT = {  # what a space report says was not written back
    "dirty_bytes": "the page cache are dirty",
    "uncommitted_bytes": "metadata are in no journal or table yet",
    "staged_bytes": "staged data are in no file yet",
}
MAX_BINS = 1 << 19  # rows of counters (0.4 KiB each) that a breakdown may take

DEFAULTS: dict[str, Any] = {"machine": "i7-8700k", "paging": None, "medium": "nvdimm"}  # None: each file system's own

Progress = Callable[[str, int, int], None]


def replay(
    trace: "str | pathlib.Path | Source",
    fs: str | Iterable[str] = "nova-cow",
    machine: str | dict[str, Any] = DEFAULTS["machine"],
    *,
    paging: str | None = None,
    medium: str = DEFAULTS["medium"],
    params: Params | None = None,
    by: str = "site",
    sync_at_end: bool = False,
    progress: Progress | None = None,
    chunk: int = CHUNK,
) -> Result:
    """Replay a trace through models and return their counters, one run per file system.

    Parameters
    ----------
    trace : path or Source
        A stored trace, or a workload such as `scmsim.workload.microbench.source(...)`.
    fs : str or list of str
        File systems: "ext4,ext4-dax", "nova*", "all" or ["ext4", "ext4-dax"] (`scmsim list fs`).
    machine, medium : str
        Names from `scmsim list`, or the path of a machine's own TOML file, or its table (whose summary is its name).
    paging : str, optional
        A name from `scmsim list paging`; by default each file system has the one that it wants, mostly directmap-1g.  A run's
        `paging` is what ran, and a warning says why if that is not what was asked for.
    params : mapping
        Parameters by plug-in, e.g. {"nova-cow": {"capacity": "16GiB"}, "directmap-1g": {"user_page": "2MiB"}}.
    by : "site", "op" or "file"
        Breakdown besides the totals; mechanisms (sites) are always given.
    sync_at_end : bool
        Write back at the end what is dirty or uncommitted, as sync(2) does.  It counts, as an operation `sync` that is no call.
    progress : callable(fs, rows done, rows), optional
    chunk : int
        Operations and events in flight; results do not depend on it.

    Returns
    -------
    Result
        `counters` are counts predicted from structure; times are estimates derived from them last.

    Raises
    ------
    UsageError
        For an argument of a wrong type, an unknown name or parameter, or a trace that cannot be read.
    """
    names, params = names_of(fs), checked_params(params)
    expect("by", by, str, f"one of {', '.join(GROUPS)}")
    if by not in GROUPS:
        raise unknown("breakdown", by, GROUPS)
    check_progress(progress)
    expect("sync_at_end", sync_at_end, bool, "True or False")
    if not is_whole(chunk) or chunk < 1:
        raise UsageError(f"chunk must be a whole number of operations from 1, not {chunk!r}")
    known = models_of(names, machine, paging)
    for target in params:
        if target not in known:
            raise unknown("model in this replay", target, sorted(known))
    source, inputs = opened(trace)
    result = Result(manifest={})
    for name in names:
        if progress:
            progress(name, 0, source.rows)
        setup = _Setup(name, machine, paging, medium, params, by, sync_at_end)
        result.runs.append(_Replay(setup, source, chunk).run(progress))
    from scmsim.result import provenance

    result.manifest = provenance.build(inputs, trace=source.header)
    return result


def touches(
    trace: "str | pathlib.Path | Source",
    fs: str = "nova-cow",
    *,
    paging: str | None = None,
    params: Params | None = None,
    progress: Progress | None = None,
) -> Iterator[np.ndarray]:
    """Yield int64 arrays of the data addresses that replaying a trace touches: one in each 4 KiB page of each event.

    Parameters and errors as for `replay`, with one file system; operations that bring it into its starting state are left out.
    """
    expect("fs", fs, str, "the name of one file system")
    check_progress(progress)
    registry.path("fs", fs)
    models_of([fs], DEFAULTS["machine"], paging)
    setup = _Setup(fs, DEFAULTS["machine"], paging, DEFAULTS["medium"], checked_params(params), "site")
    source, _ = opened(trace)
    return _touched(_Touches(setup, source, CHUNK), source, progress)


def _touched(run: "_Touches", source: Source, progress: Progress | None) -> Iterator[np.ndarray]:
    name, done = run.setup.fs, 0
    if progress:
        progress(name, 0, source.rows)
    for batch in source.batches(CHUNK):
        run.batch(batch)
        yield from run.taken()
        done += len(batch)
        if progress:
            progress(name, done, source.rows)


def placed(
    trace: "str | pathlib.Path | Source", fs: str, params: Mapping[str, str | int], progress: Progress | None = None
) -> tuple[dict[str, int], Any, Any]:
    """Replay a trace on a file system alone: (its space report, the model's state, the model); errors as for `replay`."""
    source, _ = opened(trace)
    registry.path("fs", fs)
    setup = _Setup(fs, DEFAULTS["machine"], None, DEFAULTS["medium"], {fs: params}, "site")
    if progress:
        progress(fs, 0, source.rows)
    run, nothing, done = _Placed(setup, source, CHUNK), np.zeros(0, np.int64), 0
    for batch in source.batches(CHUNK):
        run._batch(run.refusals.screen(batch), nothing)
        done += len(batch)
        if progress:
            progress(fs, done, source.rows)
    failed = int(run.record[0]["failed"]) + sum(run.refusals.counts.values())
    report = {**run.space(), "failed_operations": failed}
    return report, run.state, run.fs


@dataclass
class _Setup:
    """One combination of models, by name."""

    fs: str
    machine: str | dict[str, Any]
    paging: str | None  # what was asked for
    medium: str
    params: Params
    by: str
    sync_at_end: bool = False


class _Replay:
    """State of all stages for one run, and the loop over the trace."""

    def __init__(self, setup: _Setup, source: Source, chunk: int) -> None:
        from scmsim.medium import model as medium
        from scmsim.mmu import presets
        from scmsim.mmu.replay import replay as mmu_replay
        from scmsim.pipeline.bins import SUMS, assign_bins, first_rows
        from scmsim.pipeline.failing_calls import LARGEST_FILE, Refusals

        self.setup, self.source, self.chunk = setup, source, chunk
        expect("medium", setup.medium, str, "the name of a medium")
        self.medium_table = read_medium(setup.medium)
        self.machine = machine_table(setup.machine)
        self.fs_params = model_params("fs", setup.fs, setup.params.get(setup.fs, {}))
        self.fs = registry.load("fs", setup.fs)
        largest = self.machine["walk"]["largest_page"]
        given, self.policy = choice.choose(setup.fs, setup.paging, largest)
        self.paging_params = model_params(
            "paging", self.policy, {**setup.params.get(given, {}), **setup.params.get(self.policy, {})}
        )
        self.paging = registry.load("paging", self.policy)
        self.mmu = presets.machine(self.machine).view(np.ndarray)
        self.state = self.fs.start(self.fs_params, source.files)
        self.record = self.state.record.view(np.ndarray)  # plain: attribute access of a recarray takes microseconds
        self.refusals = Refusals(source.files, getattr(self.fs, "LARGEST_FILE", LARGEST_FILE))
        self.pages = self.paging.start(self.paging_params).view(np.ndarray)
        self.name = (
            self.machine.get("summary", "table") if isinstance(setup.machine, dict) else os.fspath(setup.machine)
        )
        in_dram = set(self.fs.SITES.values()) == {"none"}
        self.remarks = choice.remarks(setup.fs, setup.paging, self.policy, (self.name, largest), self.pages, in_dram)
        self.sites = list(self.fs.SITES)
        self.medium = medium.start(list(self.fs.SITES.values()), self.medium_table["buffer"]).view(np.ndarray)
        self.groups = {"site": 1, "op": len(OPS), "file": len(source.files) + 1}[setup.by]  # the last: of no file
        if self.groups * len(self.sites) > MAX_BINS:
            raise UsageError(f"{self.groups} files are too many for --by file; use --by op, or cut the trace")
        self.counters = np.zeros(self.groups * len(self.sites) + 1, COUNTERS)
        self.group_operations = np.zeros(self.groups, np.int64)
        self.events = np.zeros(chunk, EVENT)
        self.bins = np.zeros(chunk, np.int64)
        self.sums = np.zeros(1, SUMS)  # what the operations so far asked for
        self.ended = 0  # trace time of the last one, ns
        self._assign = assign_bins
        self._rows: Callable[..., None] = first_rows
        self._mmu: Callable[..., None] = mmu_replay
        self._account: Callable[..., None] = medium.account

    def run(self, progress: Progress | None) -> Run:
        """Replay the whole trace and put the counts together."""
        run = Run(self.setup.fs, str(self.name), self.policy, self.setup.medium)
        run.params = {**self.fs_params, **self.paging_params}
        run.warnings += self.remarks
        if lost := missed(self.source.header):
            run.warnings.append(f"the trace is incomplete: {lost}")
        cell = self.source.header.get("cell")
        run.cell = cell if isinstance(cell, dict) else {}
        for batches, times in parts(self.source, self.chunk):
            run.repeated += self._part(batches, times, progress)
        if self.setup.sync_at_end:
            self._sync()
            run.params[SYNC_AT_END] = 1
        sums = self.sums[0]
        run.operations, run.calls = int(sums["operations"]), int(sums["calls"] - self.record[0]["failed_calls"])
        run.payload = {"written": int(sums["written"] - self.record[0]["failed_bytes"]), "read": int(sums["read"])}
        if sums["objects"] and not getattr(self.fs, "MEMORY_OBJECTS", False):
            run.warnings.append(
                f"{sums['objects']} operations on memory objects mean nothing to {run.fs}; scm-manager has them"
            )
        self._finish(run, int(sums["unknown_offsets"]))
        return run

    def _part(self, batches: Callable[[int], Iterable[np.recarray]], times: int, progress: Progress | None) -> int:
        """Replay `times` passes over a part of the trace; returns the operations of those that needed no replay."""
        watch, repeated = Watch(self) if times > 2 and hasattr(self.fs, "TALLIES") else None, 0
        while times:
            for batch in batches(int(self.sums[0]["rows"])):
                batch = self.refusals.screen(batch)
                self._batch(batch, self._first_rows(batch))
                self.ended = int(batch[-1]["time_ns"])
                if progress:
                    progress(self.setup.fs, int(self.sums[0]["rows"]), self.source.rows)
            times -= 1
            if watch and times and not self.refusals.counts:  # these are counted pass by pass
                before = int(self.sums[0]["operations"])
                times -= watch.skip(times)
                repeated += int(self.sums[0]["operations"]) - before
        return repeated

    def _sync(self) -> None:
        """What sync(2) does at the end of the trace; no call of its own, so that figures per call stay those of the program."""
        unsynced = self.fs.unsynced(self.state) if hasattr(self.fs, "unsynced") else []
        batch = np.zeros(len(unsynced) + 1, OP).view(np.recarray)
        batch.time_ns, batch.offset, batch.file2, batch.flag = self.ended, -1, -1, CONTINUES
        batch.op, batch.file = [FSYNC] * len(unsynced) + [SYNC], [*unsynced, -1]
        self._batch(batch, self._first_rows(batch))

    def _first_rows(self, batch: np.recarray) -> np.ndarray:
        """Per operation: the first counters row of its group, -1 where it is not to be counted; adds up what is asked for."""
        out = np.empty(len(batch), np.int64)
        self._rows(batch.view(np.ndarray), GROUPS.index(self.setup.by), len(self.sites), self.sums, out)
        if self.setup.by == "file":
            out[(out >= 0) & (batch.file < 0)] = (self.groups - 1) * len(self.sites)
        if self.setup.by != "site":
            self.group_operations += np.bincount(out[out >= 0] // len(self.sites), minlength=self.groups)
        return out

    def _batch(self, batch: np.recarray, first_rows: np.ndarray) -> None:
        """All operations of a batch, in as many event buffers as they take."""
        i, operations = 0, batch.view(np.ndarray)
        while i < len(batch):
            i = self.fs.emit(self.state.record, self.state.arena, operations, i, self.events)
            self._stages(first_rows)
            while self.record[0]["need_collect"]:
                self.fs.collect(self.state.record, self.state.arena, self.events)
                self._stages(first_rows)

    def _stages(self, first_rows: np.ndarray) -> None:
        """Paging, MMU and medium over the events just emitted."""
        record = self.record[0]
        n = int(record["emitted"])
        if n:
            self._assign(self.events, n, first_rows, len(self.counters) - 1, self.bins)
            self.paging.place(self.pages, self.events, n)
            self._mmu(self.mmu, self.counters, self.events, self.bins, n)
            self._account(self.medium, self.counters, self.events, self.bins, n)
        self._room(record)

    def _room(self, record: Any) -> None:
        """Room for what the model said did not fit."""
        if record["need_words"]:
            try:
                self.state.grow(int(record["need_words"]))
            except UsageError as error:
                raise UsageError(f"operation {int(record['seen'])} on {self.setup.fs}: {error}") from None
        if record["need_events"] > len(self.events):
            self.events = np.zeros(int(record["need_events"]), EVENT)
            self.bins = np.zeros(len(self.events), np.int64)

    def space(self) -> dict[str, int]:
        """The model's space report, with the contiguity of free space where its allocator tells."""
        from scmsim.alloc import contiguity

        free = contiguity.of_model(self.state.record[0], self.state.arena)
        return {**self.fs.space(self.state), **(contiguity.of_runs(*free) if free else {})}

    def _finish(self, run: Run, unknown_offsets: int) -> None:
        """Totals, breakdowns, space, errors and warnings; then metrics and the time estimate."""
        cells = self.counters[:-1].view(np.int64).reshape(self.groups, len(self.sites), len(SCHEMA))
        run.counters = _summed(cells)
        run.sites = {site: _summed(cells[:, s]) for s, site in enumerate(self.sites)}
        run.sites = {site: counts for site, counts in run.sites.items() if any(counts.values())}
        if self.setup.by != "site":
            labels = OPS if self.setup.by == "op" else [*self.source.files.path, "(no file)"]
            for g, label in enumerate(labels):
                counts = _summed(cells[g])
                if any(counts.values()):
                    name = label if label not in run.groups else f"{label} ({len(run.groups)})"
                    run.groups[name], run.group_operations[name] = counts, int(self.group_operations[g])
        run.stored_bytes = {kind: int(self.medium[0]["stored"][k]) for k, kind in enumerate(KINDS) if kind != "none"}
        run.space = self.space()
        if self.record[0]["failed"]:
            run.errors = {
                "ENOSPC": int(self.record[0]["failed"]),
                "first ENOSPC": int(self.record[0]["first_failed"]),
            }
            run.warnings.append(
                f"the device is full: {run.errors['ENOSPC']} operations failed with ENOSPC, the first is operation "
                f"{run.errors['first ENOSPC']}; a larger one: --set {run.fs}.capacity=..."
            )
        run.errors |= self.refusals.counts
        if unknown_offsets:
            run.warnings.append(f"{unknown_offsets} operations have an offset that the trace could not tell")
        left = [f"{run.space[key]:,} bytes of {what}" for key, what in _LEFT.items() if run.space.get(key)]
        if left:
            run.warnings.append(
                f"at the end {' and '.join(left)}: not counted; write them back with sync_at_end (--sync-at-end)"
            )
        from scmsim.mmu.presets import timing

        run.derive(timing(self.machine), self.medium_table)


class _Placed(_Replay):
    """A replay of the file system alone, whose events nobody takes."""

    def _stages(self, first_rows: np.ndarray) -> None:
        self._room(self.record[0])


class _Touches(_Replay):
    """A replay whose addresses are taken out instead of being looked up."""

    def __init__(self, setup: _Setup, source: Source, chunk: int) -> None:
        from scmsim.mmu.touches import addresses

        super().__init__(setup, source, chunk)
        self._taken: list[np.ndarray] = []
        self._mmu = lambda _, counters, events, bins, n: self._taken.append(
            addresses(events, bins, n, len(counters) - 1)
        )
        self._account = lambda *_: None

    def batch(self, batch: np.recarray) -> None:
        """Replay a batch."""
        batch = self.refusals.screen(batch)
        self._batch(batch, self._first_rows(batch))

    def taken(self) -> list[np.ndarray]:
        """The addresses since the last call."""
        taken, self._taken = self._taken, []
        return taken


def _summed(cells: np.ndarray) -> dict[str, int]:
    """Counters summed over cells of all of them, thousandths rounded."""
    total = cells.reshape(-1, len(SCHEMA)).sum(axis=0)
    return rounded(dict(zip(SCHEMA, total.tolist(), strict=True)))
