"""Replay a trace in chunks: trace -> file system -> paging -> MMU and medium -> counters.

Only this package knows all stages.
"""

import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from scmsim import cache
from scmsim.core import registry
from scmsim.core.errors import UsageError, expect, shown, unknown
from scmsim.core.records import Source
from scmsim.core.units import is_whole
from scmsim.pipeline import kernels
from scmsim.pipeline.arguments import (
    GROUPS,
    Params,
    Progress,
    check_footprints,
    check_progress,
    checked_params,
    machine_table,
    models_of,
    names_of,
    on_direct_map,
)
from scmsim.pipeline.arguments import model_params as model_params
from scmsim.pipeline.arguments import open_source as open_source
from scmsim.result import Result, Run
from scmsim.system import ALONE

if TYPE_CHECKING:
    from scmsim.fs.engine.model import Model
    from scmsim.pipeline.stages import Loop, Touches

CHUNK = 1 << 16  # operations and events in flight; with 1 << 14, the calls of kernels took a tenth of a replay's time

_MOST = 1 << 24  # largest `chunk` and largest `jobs`

# None: each file system's default
DEFAULTS: dict[str, Any] = {"machine": "i7-8700k", "paging": None, "medium": "nvdimm"}


def replay(
    trace: "str | pathlib.Path | Source",
    fs: str | Iterable[str] = "nova-cow",
    machine: str | dict[str, Any] = DEFAULTS["machine"],
    *,
    paging: str | None = None,
    medium: str | dict[str, Any] = DEFAULTS["medium"],
    params: Params | None = None,
    by: str = "site",
    sync_at_end: bool = False,
    kernel: str | None = None,
    footprints: str | None = None,
    meminfo: str | os.PathLike[str] | None = None,
    system: str = ALONE,
    caches: str = cache.OFF,
    accesses: "str | os.PathLike[str] | None" = None,
    accesses_format: str | None = None,
    progress: Progress | None = None,
    jobs: int = 1,
    chunk: int = CHUNK,
) -> Result:
    """Replay a trace through models and return their counters, one run per file system.

    Parameters
    ----------
    trace : path or Source
        A stored trace, or a workload such as `scmsim.workload.microbench.Workload(...)`.
    fs : str or list of str
        File systems: "ext4,ext4-dax", "nova*", "all" or ["ext4", "ext4-dax"] (`scmsim list fs`).
    machine, medium : str or dict
        Names from `scmsim list`, or the path of a machine's TOML file, or the table of either (named by its `summary`).
    paging : str, optional
        A name from `scmsim list paging`; by default each file system uses its own policy, mostly linux.  `Run.paging` is
        the policy that ran; if it is not the requested one, a warning gives the reason.
    params : mapping
        Parameters by plug-in, e.g. {"nova-cow": {"capacity": "16GiB"}, "linux": {"user_page": "2MiB"}}.
    by : "site", "op" or "file"
        Breakdown besides the totals; the breakdown by mechanism (site) is always included.
    sync_at_end : bool
        Write back dirty and uncommitted data at the end, as sync(2) does.  The work counts, as an operation `sync` that is
        not a call of the program.
    kernel : str, optional
        Version of Linux ("6.1") whose costs and footprints all models use; a model without a table for that version warns
        which one it uses.
    footprints : str, optional
        Version of the kernel (`scmsim.footprint.kernels()`) whose measured touches of its own memory are replayed between the
        events of the model, or "none": then first-level misses are far too few, and a replay takes a little more than half
        the time (docs/validation/tlb.md).  Default: the version `kernel`, or the nearest measured one; without `kernel`, the
        measured version nearest to 5.13.
    meminfo : path, optional
        A copy of a machine's /proc/meminfo, which shows how its kernel maps DRAM: on pages of 4 KiB, 2 MiB and 1 GiB.  By
        default, DRAM is mapped as on the emulated machine.
    system : str
        Which other activity runs on the machine, and how rep-strings are counted: a name from `scmsim list system`, or the path
        of a TOML file.
    caches : "off", "on", "next-line" or "stream"
        Whether to simulate the machine's data caches too, and with which prefetcher ("on": none): further counters, and a
        longer replay (docs/guide/caches.md).
    accesses : path, optional
        Output file for the accesses of the single file system, as a trace for other simulators; its extension is the format:
        .ramulator, .dramsim3, .champsim, .u64 (also .gz, .xz) or .parquet (docs/guide/accesses.md).
    accesses_format : str, optional
        The format of `accesses`, if the extension of the file does not name the format.
    progress : callable(fs, rows done, rows), optional
        With several jobs, their threads call `progress`, one at a time, with the rows that all jobs together have done.
    jobs : int
        Number of threads.  Up to `jobs` models are replayed at once.  While fewer models than `jobs` are left, as many of them
        as `jobs` allows use two threads each.  Results do not depend on `jobs`.
    chunk : int
        Operations and events in flight; results do not depend on `chunk`.

    Returns
    -------
    Result
        `counters` are counts predicted by the models; times are estimates that are computed from the counts at the end.

    Raises
    ------
    UsageError
        For an argument of a wrong type, an unknown name or parameter, or a trace that cannot be read.
    """
    names, params = names_of(fs), checked_params(params)
    given: dict[str, Any] = {
        "fs": names,
        "machine": machine,
        "paging": paging,
        "medium": medium,
        "params": params,
        "by": by,
        "sync_at_end": sync_at_end,
        "kernel": kernel,
        "footprints": footprints,
        "meminfo": meminfo,
        "system": system,
    }
    given |= {"caches": caches} if caches != cache.OFF else {}
    expect("by", by, str, f"one of {', '.join(GROUPS)}")
    if by not in GROUPS:
        raise unknown("breakdown", by, GROUPS)
    check_progress(progress)
    check_footprints(footprints)
    if kernel is not None:
        kernels.check(kernel)
    chosen = kernels.choose(kernel, names, params, footprints)
    expect("sync_at_end", sync_at_end, bool, "True or False")
    for name, value, what in (("chunk", chunk, "operations"), ("jobs", jobs, "threads")):
        if not is_whole(value) or not 1 <= value <= _MOST:
            raise UsageError(f"{name} must be a whole number of {what} from 1 to {_MOST:,}, not {shown(value)}")
    known = models_of(names, machine, paging)
    for target in params:
        if target not in known:
            raise unknown("model in this replay", target, sorted(known))
    params = on_direct_map(chosen.params, meminfo, names, machine, paging)
    expect("caches", caches, str, f"one of {', '.join(cache.SETTINGS)}")
    if caches not in cache.SETTINGS:
        raise unknown("setting of caches", caches, cache.SETTINGS)
    expect("system", system, str, "the name of a system")
    from scmsim.pipeline.at_once import SecondCpu, at_once
    from scmsim.pipeline.run import Replay
    from scmsim.result import provenance

    source, inputs = open_source(trace)
    rows, recording = source.rows, None
    if accesses is not None:
        from scmsim.pipeline.recording import Target

        recording = Target(accesses, accesses_format, names, inputs)
    elif accesses_format is not None:
        raise UsageError("accesses_format needs accesses (--accesses); give the file to write")

    of_trace = [1]

    def one(name: str, progress: Progress, second_cpu: SecondCpu) -> Run:
        progress(name, 0, rows)
        model = Replay(source, name, machine, paging, medium, params, by, chosen.footprints, chunk, system, caches)
        model.result.warnings += chosen.remarks.get(name, [])
        if recording:
            run = recording.run(model, provenance.build(inputs, trace=source.header), sync_at_end, progress)
        else:
            run = model.run(sync_at_end, progress, second_cpu)
        of_trace.append(model.counting.threads)
        return run

    runs = at_once(names, one, jobs, progress)
    written: dict[str, Any] = {"accesses": {"file": os.fspath(recording.path), **recording.counts}} if recording else {}
    written |= {"trace_threads": max(of_trace)} if max(of_trace) > 1 else {}
    replayed = {**({"trace": os.fspath(inputs[0])} if inputs else {"workload": source.header.get("workload")}), **given}
    return Result(provenance.build(inputs, trace=source.header, replays=[replayed], **written), runs)


def touches(
    trace: "str | pathlib.Path | Source",
    fs: str = "nova-cow",
    *,
    paging: str | None = None,
    params: Params | None = None,
    progress: Progress | None = None,
) -> Iterator[np.ndarray]:
    """Yield int64 arrays of the data addresses that a replay touches: one address per 4 KiB page of each event.

    Parameters and errors are those of `replay`, with one file system; SETUP operations are left out.
    """
    expect("fs", fs, str, "the name of one file system")
    check_progress(progress)
    registry.path("fs", fs)
    models_of([fs], DEFAULTS["machine"], paging)
    from scmsim.fs.engine.model import Model
    from scmsim.pipeline.run import Paging
    from scmsim.pipeline.stages import CounterIndex, Loop, Touches

    params = checked_params(params)
    source, _ = open_source(trace)
    model = Model(fs, model_params("fs", fs, params.get(fs, {})), source.files)
    counting = CounterIndex(source.files, model.sites, "site")
    touched = Touches(counting)
    placement = Paging(fs, machine_table(DEFAULTS["machine"]), paging, params).stage
    return _touched(Loop(model, [counting, placement, touched], source.files), touched, source, progress)


def _touched(loop: "Loop", touched: "Touches", source: Source, progress: Progress | None) -> Iterator[np.ndarray]:
    for batch in reported(source, loop.model.fs, progress):
        loop.take(batch)
        yield from touched.addresses
        touched.addresses = []


def place(
    trace: "str | pathlib.Path | Source", fs: str, params: Mapping[str, str | int], progress: Progress | None = None
) -> "tuple[dict[str, int], Model]":
    """Replay a trace on a file system, without MMU or medium; return (space report, model in its final state).

    Errors are those of `replay`.
    """
    from scmsim.fs.engine.model import Model
    from scmsim.pipeline.stages import Loop

    source, _ = open_source(trace)
    registry.path("fs", fs)
    model = Model(fs, model_params("fs", fs, params), source.files)
    loop = Loop(model, [], source.files)
    for batch in reported(source, fs, progress):
        loop.take(batch)
    failed = int(model.status[0]["failed"]) + sum(loop.failing.counts.values())
    return {**model.space(), "failed_operations": failed}, model


def reported(source: Source, what: str, progress: Progress | None) -> Iterator[np.recarray]:
    """Yield the batches of a trace and report progress after each."""
    if progress:
        progress(what, 0, source.rows)
    done = 0
    for batch in source.batches(CHUNK):
        yield batch
        done += len(batch)
        if progress:
            progress(what, done, source.rows)
