"""The chunk loop: trace -> file system -> paging -> MMU and medium -> counters.  The only place that knows all stages."""

import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

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

CHUNK = 1 << 16  # operations and events in flight; with 1 << 14 the calls of kernels took a tenth of the time

_MOST = 1 << 24  # operations in flight, or models at once

DEFAULTS: dict[str, Any] = {"machine": "i7-8700k", "paging": None, "medium": "nvdimm"}  # None: each file system's own


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
    kernel: str | None = None,
    footprints: str | None = None,
    meminfo: str | os.PathLike[str] | None = None,
    system: str = ALONE,
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
    machine, medium : str
        Names from `scmsim list`, or the path of a machine's own TOML file, or its table (whose summary is its name).
    paging : str, optional
        A name from `scmsim list paging`; by default each file system has the one that it wants, mostly linux.  A run's
        `paging` is what ran, and a warning says why if that is not what was asked for.
    params : mapping
        Parameters by plug-in, e.g. {"nova-cow": {"capacity": "16GiB"}, "linux": {"user_page": "2MiB"}}.
    by : "site", "op" or "file"
        Breakdown besides the totals; mechanisms (sites) are always given.
    sync_at_end : bool
        Write back at the end what is dirty or uncommitted, as sync(2) does.  It counts, as an operation `sync` that is no call.
    kernel : str, optional
        Version of Linux ("6.1") whose costs and footprints all models take; one without a table for it says which it has.
    footprints : str, optional
        Version of the kernel (`scmsim.footprint.kernels()`) whose measured touches of its own memory enter the TLB between the
        events of the model, or "none": first-level misses are far too few then, and a replay half as long or a little more
        (docs/validation-tlb.md).  By default those of `kernel`, or of the nearest one that was measured; without `kernel` those
        that stand for 5.13.
    meminfo : path, optional
        A copy of /proc/meminfo: how the kernel of that machine maps its DRAM, on pages of 4 KiB, 2 MiB and 1 GiB.  By default as
        the emulated machine's does.
    system : str
        What else runs, and how rep-strings count: a name from `scmsim list system`, or the path of a TOML file.
    progress : callable(fs, rows done, rows), optional
        With several jobs it is called on their threads, one call at a time, with the sum of what they have done.
    jobs : int
        Models to replay at once, each on a thread of its own; results do not depend on it.
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
    check_footprints(footprints)
    if kernel is not None:
        kernels.check(kernel)
    chosen = kernels.choose(kernel, names, params, footprints)
    expect("sync_at_end", sync_at_end, bool, "True or False")
    for name, value, what in (("chunk", chunk, "operations"), ("jobs", jobs, "models")):
        if not is_whole(value) or not 1 <= value <= _MOST:
            raise UsageError(f"{name} must be a whole number of {what} from 1 to {_MOST:,}, not {shown(value)}")
    known = models_of(names, machine, paging)
    for target in params:
        if target not in known:
            raise unknown("model in this replay", target, sorted(known))
    params = on_direct_map(chosen.params, meminfo, names, machine, paging)
    expect("system", system, str, "the name of a system")
    from scmsim.pipeline.at_once import at_once
    from scmsim.pipeline.run import Replay
    from scmsim.result import provenance

    source, inputs = open_source(trace)
    rows = source.rows

    def one(name: str, progress: Progress) -> Run:
        progress(name, 0, rows)
        model = Replay(source, name, machine, paging, medium, params, by, chosen.footprints, chunk, system)
        model.result.warnings += chosen.remarks.get(name, [])
        return model.run(sync_at_end, progress)

    runs = at_once(names, one, jobs, progress)
    return Result(provenance.build(inputs, trace=source.header), runs)


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
    from scmsim.fs.engine.model import Model
    from scmsim.pipeline.run import Paging
    from scmsim.pipeline.stages import Counting, Loop, Touches

    params = checked_params(params)
    source, _ = open_source(trace)
    model = Model(fs, model_params("fs", fs, params.get(fs, {})), source.files)
    counting = Counting(source.files, model.sites, "site")
    touched = Touches(counting)
    placement = Paging(fs, machine_table(DEFAULTS["machine"]), paging, params).stage
    return _touched(Loop(model, [counting, placement, touched], source.files), touched, source, progress)


def _touched(loop: "Loop", touched: "Touches", source: Source, progress: Progress | None) -> Iterator[np.ndarray]:
    for batch in _told(source, loop.model.fs, progress):
        loop.take(batch)
        yield from touched.addresses
        touched.addresses = []


def place(
    trace: "str | pathlib.Path | Source", fs: str, params: Mapping[str, str | int], progress: Progress | None = None
) -> "tuple[dict[str, int], Model]":
    """Replay a trace on a file system alone: (its space report, the model at the trace's end); errors as for `replay`."""
    from scmsim.fs.engine.model import Model
    from scmsim.pipeline.stages import Loop

    source, _ = open_source(trace)
    registry.path("fs", fs)
    model = Model(fs, model_params("fs", fs, params), source.files)
    loop = Loop(model, [], source.files)
    for batch in _told(source, fs, progress):
        loop.take(batch)
    failed = int(model.status[0]["failed"]) + sum(loop.failing.counts.values())
    return {**model.space(), "failed_operations": failed}, model


def _told(source: Source, fs: str, progress: Progress | None) -> Iterator[np.recarray]:
    """The batches of a trace; after each one, how far it is."""
    if progress:
        progress(fs, 0, source.rows)
    done = 0
    for batch in source.batches(CHUNK):
        yield batch
        done += len(batch)
        if progress:
            progress(fs, done, source.rows)
