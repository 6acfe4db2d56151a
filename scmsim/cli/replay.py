"""`scmsim replay`: replay a trace on models, and show the counters side by side."""

import contextlib
import os
import sys
from typing import Any

import click

from scmsim.cache import SETTINGS
from scmsim.core.errors import UnknownName, UsageError

_DEFAULT_FS = ["ext4", "ext4-dax", "nova-cow"]
SUMMARY = "Replay a trace through file systems, page table and MMU; show the counters side by side."


@click.command(
    "replay",
    help=f"""{SUMMARY}

TRACE is a stored trace (scmsim capture, synth, trace convert), an experiment file (.toml) or the name of a shipped
experiment such as quickstart.""",
)
@click.argument("trace")
@click.option(
    "--fs", help="File systems, e.g. ext4,nova-cow, 'nova*' or all (scmsim list fs).  [default: ext4,ext4-dax,nova-cow]"
)
@click.option("--machine", help="Machines to simulate: names, host (this machine) or .toml files.  [default: i7-8700k]")
@click.option("--paging", help="How memory is mapped (scmsim list paging).  [default: each file system's choice]")
@click.option(
    "--meminfo",
    metavar="FILE",
    type=click.Path(),
    help="Copy of a /proc/meminfo, for the page sizes that map the kernel's DRAM.  [default: the lab's]",
)
@click.option("--medium", help="Memory technologies (scmsim list medium).  [default: nvdimm]")
@click.option("--set", "assignments", multiple=True, metavar="MODEL.KEY=VALUE", help="A parameter; may be repeated.")
@click.option(
    "--costs",
    multiple=True,
    type=click.Path(),
    help="File with the costs of another kernel (lab calibrate); may be repeated.",
)
@click.option("--by", type=click.Choice(["site", "op", "file"]), help="Also show counts by site, operation or file.")
@click.option(
    "--kernel",
    metavar="VERSION",
    help="Linux whose costs and footprints all models use: 5.10, 5.13, 6.1, 6.12, 6.18 or 7.3.  [default: each model's own]",
)
@click.option(
    "--footprints",
    metavar="KERNEL",
    help="Simulate the accesses to the kernel's own memory, as measured on this kernel: 5.10, 5.13, 6.1, 6.12, 6.18 or 7.3; none "
    "is faster, but counts far too few TLB misses.  [default: those of --kernel, else 5.10]",
)
@click.option(
    "--system",
    metavar="NAME",
    help="Other activity on the machine (scmsim list system, or a .toml file).  [default: alone]",
)
@click.option(
    "--caches",
    type=click.Choice(SETTINGS),
    help="Simulate the machine's data caches too, without a prefetcher (on) or with one.  [default: off]",
)
@click.option(
    "--threads",
    metavar="N",
    help="Also estimate the throughput of this many threads, each on its own core: 8, 1..16 or 1,2,4.",
)
@click.option(
    "--shared",
    metavar="NAMES",
    help="Objects that the threads of --threads share: file, directory, process.  [default: none]",
)
@click.option("--chart", type=click.Path(), help="Draw the throughput by threads into F.svg, F.png, F.pdf or F.html.")
@click.option(
    "--sensitivity",
    is_flag=True,
    help="Also show the times with other latency, bandwidth, TLBs or page sizes (up to 4 more replays).",
)
@click.option(
    "--accesses",
    metavar="FILE",
    type=click.Path(),
    help="Write a file system's accesses for simulators: F.ramulator, .dramsim3, .champsim, .u64 (also .gz, .xz) or "
    ".parquet.",
)
@click.option("--accesses-format", metavar="NAME", help="Format of --accesses.  [default: by the file's name]")
@click.option(
    "--jobs",
    type=click.IntRange(1),
    help="CPUs to use; file systems run in parallel, and on two CPUs each while some are free.  [default: all]",
)
@click.option("--sync-at-end", is_flag=True, help="Write back and count all dirty data at the end, like sync(2).")
@click.option(
    "--top", default=20, show_default=True, type=click.IntRange(1, 1_000_000), help="Files to show with --by file."
)
@click.option(
    "--rows",
    default="",
    metavar="NAMES",
    help="Rows to show, by parts of names, patterns or sections: 'stored,walk*,totals'.",
)
@click.option("--sort", default="", metavar="ROW", help="Sort the columns by this row, the smallest value first.")
@click.option("--ratios", is_flag=True, help="Also show each figure's ratio to the first column.")
@click.option(
    "--intervals",
    is_flag=True,
    help="Also show each figure's 90 % interval, from measured errors of the models.",
)
@click.option("--explain", is_flag=True, help="Explain each row below the table (scmsim explain).")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "markdown", "csv", "json"]),
    default="table",
    help="Format of the output.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object: schema, manifest, results (as --format json)."
)
@click.option(
    "-o",
    "--out",
    type=click.Path(),
    help="Write the result (F.json), or a table with the rows of --by (F.csv, F.parquet).",
)
def command(
    trace: str,
    fs: str | None,
    machine: str | None,
    paging: str | None,
    medium: str | None,
    assignments: tuple[str, ...],
    costs: tuple[str, ...],
    by: str | None,
    top: int,
    form: str,
    threads: str | None,
    shared: str | None,
    chart: str | None,
    sensitivity: bool,
    jobs: int | None,
    sync_at_end: bool,
    as_json: bool,
    out: str | None,
    accesses: str | None,
    accesses_format: str | None,
    **given: Any,
) -> None:
    from scmsim.cli._notes import print_notes
    from scmsim.result import check_writable
    from scmsim.result.provenance import digest
    from scmsim.result.run import SURROUNDINGS
    from scmsim.result.table import check
    from scmsim.result.tables.layout import terminal_width

    counts, common = _threads(threads, shared, form == "csv" and not as_json)
    if chart is not None:
        from scmsim.plot.files import check as check_chart

        if not counts:
            raise UsageError("--chart needs --threads; give the numbers of threads to draw, e.g. --threads 1..16")
        check_chart(chart)
    if sensitivity and form == "csv":
        raise UsageError("--sensitivity cannot be written as CSV; give --format table, markdown or json")
    if out is not None:
        check_writable(out)
    around = {key: value for key in SURROUNDINGS if (value := given.pop(key)) is not None}
    check(**given)
    replays, by, out = _replays(trace, fs, (machine, paging, medium), by, out)
    if out is not None:
        check_writable(out)  # again: now the experiment's inputs are known, too
    if accesses is not None and len(replays) > 1:
        raise UsageError(
            f"--accesses works with one replay, not {len(replays)}; give one --machine, one --paging and one --medium"
        )
    for job in replays:
        job |= {"accesses": accesses, "accesses_format": accesses_format}
        job.setdefault("sync_at_end", False)
        job["sync_at_end"] |= sync_at_end
        job |= around
    level = None if by is None else "site" if by == "site" else "group"
    changes: list[Any] = []
    with _costs(costs):
        by_call = (
            "op" if counts and by == "site" else by or ("op" if counts else None)
        )  # the estimate of --threads needs counts by kind of call
        result = run_all(replays, _params(assignments), by_call, jobs, changes if sensitivity else None)
    if counts:
        from scmsim.pipeline.load import rows

        result.manifest["threads"] = rows(result.runs, counts, common)
        if chart is not None:
            from scmsim.plot.threads import draw

            draw(result.manifest["threads"], chart)
    result.manifest["costs"] = {path: digest(path) for path in costs}
    if accesses is not None:
        click.echo(_written(result.manifest["accesses"]), err=True)
    if out:
        result.write(out, level or "run")
        click.echo(f"wrote {out}", err=True)
    noted = False  # whether the output has the notes: a table ends with them
    if as_json or form == "json":
        click.echo(result.to_json())
    elif not out or form != "table" or sys.stdout.isatty():
        click.echo(result.table(by, form=form, top=top, width=terminal_width(), **given))
        noted = form != "csv"
    if counts and form in ("table", "markdown") and not as_json:
        from scmsim.pipeline.load import table

        click.echo(f"\n{table(result.runs, counts, common, form == 'markdown')}")
    for change in changes if form in ("table", "markdown") and not as_json else ():
        from scmsim.study.sensitivity import text

        click.echo(f"\n{text(change, form == 'markdown', terminal_width())}")
    if not noted:
        print_notes(result)
    if not counts and (several := result.manifest.get("trace_threads", 1)) > 1:
        click.echo(
            f"scmsim: the calls of the trace's {several:,} threads were replayed as one core's work; "
            "--threads N estimates what N cores get at once",
            err=True,
        )


def _threads(threads: str | None, shared: str | None, is_csv: bool) -> tuple[list[int], list[str]]:
    """Return the numbers of threads to show, and the objects that the threads share (file, directory, process)."""
    from scmsim.pipeline.load import parse, parse_shared

    if threads is None:
        if shared is not None:
            raise UsageError("--shared needs --threads; give the numbers of threads, e.g. --threads 1,2,4")
        return [], []
    if is_csv:
        raise UsageError("--threads cannot be written as CSV; give --format table, markdown or json")
    return parse(threads), [] if shared is None else parse_shared(shared)


def _written(accesses: dict[str, Any]) -> str:
    """Return a line with the name of the written accesses file and its counts."""
    counts = ", ".join(f"{count:,} {name}" for name, count in accesses.items() if name != "file")
    return f"wrote {accesses['file']}: {counts}"


def _costs(paths: tuple[str, ...]) -> contextlib.AbstractContextManager[None]:
    """Return a context with the costs of the files, or with the models' own costs if there are no files."""
    if not paths:
        return contextlib.nullcontext()
    from scmsim.study.calibrate import using

    return using(paths)


def _replays(trace: str, fs: str | None, models: tuple, by: str | None, out: Any) -> tuple[list[dict], str | None, Any]:
    """Return (keyword arguments of `pipeline.replay` for each combination of machine, paging and medium; by; out)."""
    from scmsim.core import registry
    from scmsim.pipeline import DEFAULTS

    kinds = ("machine", "paging", "medium")
    given = {kind: registry.select(kind, text) for kind, text in zip(kinds, models, strict=True) if text is not None}
    experiment = _experiment(trace)
    combinations: list[dict] = [{}]
    for kind in kinds:
        names = given.get(kind) or getattr(experiment, kind, None) or (DEFAULTS[kind],)
        combinations = [{**c, kind: name} for c in combinations for name in names]
    chosen = None if fs is None else registry.select("fs", fs)
    if experiment is None:
        common = {"trace": trace, "fs": chosen or _DEFAULT_FS, "params": {}}
        return [{**common, **c} for c in combinations], by, out
    common = {
        "trace": _source(experiment),
        "fs": chosen or list(experiment.fs),
        "params": experiment.params,
        "sync_at_end": experiment.sync_at_end,
        **experiment.surroundings(),
    }
    return [{**common, **c} for c in combinations], by or experiment.by, out or experiment.out


def replays_of(experiment: str) -> list[dict]:
    """Return the keyword arguments of `pipeline.replay` for each combination of an experiment."""
    return _replays(experiment, None, (None, None, None), None, None)[0]


def _experiment(trace: str) -> Any:
    import pathlib

    from scmsim.config import load, resolve

    if pathlib.Path(trace).is_file() and not trace.endswith(".toml"):
        return None
    if trace.endswith(".toml") or "/" not in trace and "." not in trace:
        try:
            return load(resolve(trace))
        except UnknownName as error:
            raise UnknownName(f"no trace file {trace!r}, and {error}") from None
    return None


def _source(experiment: Any) -> Any:
    if experiment.workload is None:
        return experiment.trace
    from scmsim.core import registry

    return registry.load("workload", experiment.workload).Workload(**experiment.workload_params)


def source_of(trace: str) -> Any:
    """Return the source for a command's TRACE: the path of a stored trace, or an experiment's trace or workload."""
    experiment = _experiment(trace)
    return trace if experiment is None else _source(experiment)


def _params(assignments: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Parse ("nova-cow.capacity=1GiB", ...) to {"nova-cow": {"capacity": "1GiB"}}."""
    params: dict[str, dict[str, str]] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        model, dot, key = name.rpartition(".")
        if not (equals and dot and model and key):
            raise UsageError(f"{text!r} is not MODEL.KEY=VALUE; write it like nova-cow.capacity=16GiB")
        params.setdefault(model, {})[key] = value
    return params


def _compile_ahead(replays: list[dict], jobs: int) -> None:
    """Compile the kernels that the replays lack, several at a time in worker processes."""
    from scmsim.cli._progress import CompilingAhead
    from scmsim.pipeline import compile_ahead
    from scmsim.pipeline.arguments import models_of, names_of, open_source

    names = {name for job in replays for name in names_of(job["fs"])}
    known = {one for job in replays for one in models_of(names_of(job["fs"]), job["machine"], job["paging"])}
    with CompilingAhead() as progress:
        compile_ahead.compile_missing(
            names,
            known - names,
            lambda: {name for job in replays for name in compile_ahead.first_operations(open_source(job["trace"])[0])},
            jobs,
            progress,
        )


def run_all(
    replays: list[dict],
    params: dict[str, dict[str, str]],
    by: str | None,
    jobs: int | None = None,
    changes: list[Any] | None = None,
) -> Any:
    """Run all replays with progress on stderr, `jobs` file systems at once (None: one per CPU); return one Result.

    If `changes` is a list, the sensitivity of each replay is appended to it, and is in the manifest.
    """
    from scmsim.cli._progress import Progress
    from scmsim.pipeline import replay
    from scmsim.pipeline.arguments import models_of, names_of

    jobs, result = jobs or len(os.sched_getaffinity(0)), None
    _compile_ahead(replays, jobs)
    elsewhere = {job["paging"] for job in replays}  # a replay ignores parameters of the other replays' paging
    with Progress() as progress:
        for job in replays:
            merged = {k: {**job["params"].get(k, {}), **params.get(k, {})} for k in {*job["params"], *params}}
            known = models_of(names_of(job["fs"]), job["machine"], job["paging"])
            if job["params"]:  # an experiment may hold parameters of models that this run leaves out
                merged = {k: v for k, v in merged.items() if k in known or k in params}
            merged = {k: v for k, v in merged.items() if k in known or k not in elsewhere}
            given = {**job, "params": merged, "jobs": jobs, "progress": progress}
            one = replay(**given, by=by or "site")
            if changes is not None:
                from scmsim.study import sensitivity

                changes.append(sensitivity.sensitivity(one.runs, given))
                one.manifest["sensitivity"] = [sensitivity.table(changes[-1])]
            if result is None:
                result = one
            else:
                result.runs += one.runs
                for key in ("replays", *(["sensitivity"] if changes else [])):
                    result.manifest[key] += one.manifest[key]
    return result
