"""The chunk loop: trace -> file system -> paging -> MMU and medium -> counters.  The only place that knows all stages."""

import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scmsim import registry
from scmsim.counters import COUNTERS, SCHEMA, rounded
from scmsim.errors import UsageError, unknown
from scmsim.passes import Watch, parts
from scmsim.records import EVENT, KINDS, OPS, Source
from scmsim.result import Result, Run
from scmsim.units import parse_bytes, parse_param

CHUNK = 1 << 14  # operations and events in flight: an event buffer of 640 KiB fits the second-level cache
GROUPS = ("site", "op", "file")
MAX_BINS = 1 << 19  # rows of counters (0.4 KiB each) that a breakdown may take

DEFAULTS = {"machine": "i7-8700k", "paging": "directmap-1g", "medium": "nvdimm"}

Params = Mapping[str, Mapping[str, str | int]]
Progress = Callable[[str, int, int], None]


def replay(
    trace: "str | pathlib.Path | Source",
    fs: str | Iterable[str] = "nova-cow",
    machine: str | dict[str, Any] = DEFAULTS["machine"],
    *,
    paging: str = DEFAULTS["paging"],
    medium: str = DEFAULTS["medium"],
    params: Params | None = None,
    by: str = "site",
    progress: Progress | None = None,
    chunk: int = CHUNK,
) -> Result:
    """Replay a trace through models and return their counters, one run per file system.

    Parameters
    ----------
    trace : path or Source
        A stored trace, or a workload such as `scmsim.workload.microbench.source(...)`.
    fs : str or list of str
        File systems: "ext4,ext4-dax" or ["ext4", "ext4-dax"] (`scmsim list fs`).
    machine, paging, medium : str
        Names from `scmsim list`, or the path of a machine's own TOML file, or its table (whose summary is its name).
    params : mapping
        Parameters by plug-in, e.g. {"nova-cow": {"capacity": "16GiB"}, "directmap-1g": {"user_page": "2MiB"}}.
    by : "site", "op" or "file"
        Breakdown besides the totals; mechanisms (sites) are always given.
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
        For an unknown name or parameter, or a trace that cannot be read.
    """
    names = [name.strip() for name in fs.split(",")] if isinstance(fs, str) else list(fs)
    if not names or not all(names):
        raise UsageError("no file system given; name one or more, e.g. nova-cow,ext4-dax")
    if by not in GROUPS:
        raise unknown("breakdown", by, GROUPS)
    params = dict(params or {})
    for name in names:
        registry.path("fs", name)
    registry.path("paging", paging)
    known = {*names, paging}
    for target in params:
        if target not in known:
            raise unknown("model in this replay", target, known)
    source, inputs = opened(trace)
    result = Result(manifest={})
    for name in names:
        setup = _Setup(name, machine, paging, medium, params, by)
        result.runs.append(_Replay(setup, source, chunk).run(progress))
    from scmsim import manifest

    result.manifest = manifest.build(inputs, trace=source.header)
    return result


def opened(trace: "str | pathlib.Path | Source") -> tuple[Source, list]:
    """(The trace as a Source, the files that it comes from.)"""
    if isinstance(trace, str | pathlib.Path):
        from scmsim.trace import open_trace

        return open_trace(trace), [trace]
    return trace, []


def touches(
    trace: "str | pathlib.Path | Source",
    fs: str = "nova-cow",
    *,
    paging: str = DEFAULTS["paging"],
    params: Params | None = None,
    progress: Progress | None = None,
) -> Iterator[np.ndarray]:
    """Yield int64 arrays of the data addresses that replaying a trace touches: one in each 4 KiB page of each event.

    Parameters and errors as for `replay`; operations that bring the file system into its starting state are left out.
    """
    source, _ = opened(trace)
    registry.path("fs", fs)
    setup = _Setup(fs, DEFAULTS["machine"], paging, DEFAULTS["medium"], dict(params or {}), "site")
    run = _Touches(setup, source, CHUNK)
    for batch in source.batches(CHUNK):
        run.batch(batch)
        yield from run.taken()
        if progress:
            progress(fs, len(batch), source.rows)


def placed(
    trace: "str | pathlib.Path | Source", fs: str, params: Mapping[str, str | int], progress: Progress | None = None
) -> tuple[dict[str, int], Any, Any]:
    """Replay a trace on a file system alone: (its space report, the model's state, the model); errors as for `replay`."""
    source, _ = opened(trace)
    registry.path("fs", fs)
    setup = _Setup(fs, DEFAULTS["machine"], DEFAULTS["paging"], DEFAULTS["medium"], {fs: params}, "site")
    run, nothing, done = _Placed(setup, source, CHUNK), np.zeros(0, np.int64), 0
    for batch in source.batches(CHUNK):
        run._batch(run.refusals.screen(batch), nothing)
        done += len(batch)
        if progress:
            progress(fs, done, source.rows)
    failed = int(run.record[0]["failed"]) + sum(run.refusals.counts.values())
    report = {**run.space(), "failed_operations": failed}
    return report, run.state, run.fs


def model_params(kind: str, name: str, given: Mapping[str, str | int]) -> dict[str, Any]:
    """All parameters of a plug-in as integers (bytes, ns) or words: its defaults, with `given` put in.

    Raises UsageError for an unknown parameter (nearest named) or a value that its unit does not allow.
    """
    declared = registry.literals(kind, name).get("PARAMS", {})
    for key in given:
        if key not in declared:
            raise (
                unknown(f"parameter of {name}", key, declared) if declared else UsageError(f"{name} has no parameters")
            )
    values = {}
    for key, (default, unit, _) in declared.items():
        try:
            values[key] = parse_param(given.get(key, default), unit)
        except UsageError as error:
            raise UsageError(f"{name}.{key}: {error}") from None
    return values


@dataclass
class _Setup:
    """One combination of models, by name."""

    fs: str
    machine: str | dict[str, Any]
    paging: str
    medium: str
    params: Params
    by: str


class _Replay:
    """State of all stages for one run, and the loop over the trace."""

    def __init__(self, setup: _Setup, source: Source, chunk: int) -> None:
        from scmsim.binning import SUMS, assign_bins, first_rows
        from scmsim.medium import model as medium
        from scmsim.mmu import presets
        from scmsim.mmu.replay import replay as mmu_replay
        from scmsim.refusals import LARGEST_FILE, Refusals

        self.setup, self.source, self.chunk = setup, source, chunk
        self.fs_params = model_params("fs", setup.fs, setup.params.get(setup.fs, {}))
        self.paging_params = model_params("paging", setup.paging, setup.params.get(setup.paging, {}))
        self.fs = registry.load("fs", setup.fs)
        self.paging = registry.load("paging", setup.paging)
        self.medium_table = registry.literals("medium", setup.medium)
        self.machine = presets.read(setup.machine) if isinstance(setup.machine, str) else setup.machine
        self.mmu = presets.machine(self.machine).view(np.ndarray)
        self.state = self.fs.start(self.fs_params, source.files)
        self.record = self.state.record.view(np.ndarray)  # plain: attribute access of a recarray takes microseconds
        self.refusals = Refusals(source.files, getattr(self.fs, "LARGEST_FILE", LARGEST_FILE))
        self.pages = self.paging.start(self.paging_params).view(np.ndarray)
        self.sites = list(self.fs.SITES)
        self.medium = medium.start(list(self.fs.SITES.values()), parse_bytes(self.medium_table["buffer"])).view(
            np.ndarray
        )
        self.groups = {"site": 1, "op": len(OPS), "file": max(1, len(source.files))}[setup.by]
        if self.groups * len(self.sites) > MAX_BINS:
            raise UsageError(f"{self.groups} files are too many for --by file; use --by op, or cut the trace")
        self.counters = np.zeros(self.groups * len(self.sites) + 1, COUNTERS)
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
        machine = self.setup.machine
        name = machine if isinstance(machine, str) else str(machine.get("summary", "table"))
        run = Run(self.setup.fs, name, self.setup.paging, self.setup.medium)
        run.params = {**self.fs_params, **self.paging_params}
        cell = self.source.header.get("cell")
        run.cell = cell if isinstance(cell, dict) else {}
        for batches, times in parts(self.source, self.chunk):
            run.repeated += self._part(batches, times, progress)
        sums = self.sums[0]
        run.operations, run.calls = int(sums["operations"]), int(sums["calls"])
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

    def _first_rows(self, batch: np.recarray) -> np.ndarray:
        """Per operation: the first counters row of its group, -1 where it is not to be counted; adds up what is asked for."""
        out = np.empty(len(batch), np.int64)
        self._rows(batch.view(np.ndarray), GROUPS.index(self.setup.by), len(self.sites), self.sums, out)
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
            labels = OPS if self.setup.by == "op" else self.source.files.path
            groups = ((label, _summed(cells[g])) for g, label in enumerate(labels))
            for label, counts in groups:
                if any(counts.values()):
                    run.groups[label if label not in run.groups else f"{label} ({len(run.groups)})"] = counts
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
        if run.space.get("dirty_bytes"):
            run.warnings.append(
                f"{run.space['dirty_bytes']} bytes are still dirty in the page cache at the end: not yet stored, not counted"
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
