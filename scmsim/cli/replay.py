"""`scmsim replay`: a trace through models, side by side."""

import contextlib
import sys
from typing import Any

import click

SUMMARY = "Replay a trace through file systems, page table and MMU; show the counters side by side."


@click.command(
    "replay",
    help=f"""{SUMMARY}

TRACE is a stored trace (scmsim capture, synth, trace convert), an experiment file (.toml) or the name of a shipped
experiment such as quickstart.""",
)
@click.argument("trace")
@click.option("--fs", help="File systems, separated by commas (scmsim list fs).  [default: ext4,ext4-dax,nova-cow]")
@click.option("--machine", help="Whose TLB and page walker; a name or a .toml file.  [default: i7-8700k]")
@click.option("--paging", help="How memory is mapped (scmsim list paging).  [default: directmap-1g]")
@click.option("--medium", help="Memory technology (scmsim list medium).  [default: nvdimm]")
@click.option("--set", "assignments", multiple=True, metavar="MODEL.KEY=VALUE", help="A parameter; may be repeated.")
@click.option(
    "--costs", multiple=True, type=click.Path(), help="Costs of another kernel (lab calibrate); may be repeated."
)
@click.option("--by", type=click.Choice(["site", "op", "file"]), help="Show a breakdown too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: schema, manifest, results.")
@click.option("-o", "--out", type=click.Path(), help="Write the result to F.json, F.csv or F.parquet.")
def command(
    trace: str,
    fs: str | None,
    machine: str | None,
    paging: str | None,
    medium: str | None,
    assignments: tuple[str, ...],
    costs: tuple[str, ...],
    by: str | None,
    as_json: bool,
    out: str | None,
) -> None:
    from scmsim.result import check_writable

    if out is not None:
        check_writable(out)
    jobs, by, out = _jobs(trace, fs, (machine, paging, medium), by, out)
    with _costs(costs):
        result = run_jobs(jobs, _params(assignments), by)
    if out:
        result.write(out)
        click.echo(f"wrote {out}", err=True)
    if as_json:
        click.echo(result.to_json())
    elif not out or sys.stdout.isatty():
        click.echo(result.table(None if by is None else "site" if by == "site" else "group"))


def _costs(paths: tuple[str, ...]) -> contextlib.AbstractContextManager[None]:
    """The models' own costs, or those of the files."""
    if not paths:
        return contextlib.nullcontext()
    from scmsim.calibrate import using

    return using(paths)


def _jobs(trace: str, fs: str | None, models: tuple, by: str | None, out: Any) -> tuple[list[dict], str | None, Any]:
    """Keyword sets for `pipeline.replay`, one per combination of machine, paging and medium."""
    from scmsim.pipeline import DEFAULTS

    kinds = ("machine", "paging", "medium")
    given = {kind: name for kind, name in zip(kinds, models, strict=True) if name is not None}
    experiment = _experiment(trace)
    if experiment is None:
        job = {
            "trace": trace,
            "fs": "ext4,ext4-dax,nova-cow" if fs is None else fs,
            "params": {},
            **{**DEFAULTS, **given},
        }
        return [job], by, out
    combinations: list[dict] = [{}]
    for kind in kinds:
        names = (given[kind],) if kind in given else getattr(experiment, kind) or (DEFAULTS[kind],)
        combinations = [{**c, kind: name} for c in combinations for name in names]
    common = {
        "trace": _source(experiment),
        "fs": list(experiment.fs) if fs is None else fs,
        "params": experiment.params,
    }
    return [{**common, **c} for c in combinations], by or experiment.by, out or experiment.out


def _experiment(trace: str) -> Any:
    import pathlib

    from scmsim.config import load, resolve
    from scmsim.errors import UnknownName

    if pathlib.Path(trace).exists() and not trace.endswith(".toml"):
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
    from scmsim import registry

    return registry.load("workload", experiment.workload).source(**experiment.workload_params)


def source_of(trace: str) -> Any:
    """What a command's TRACE stands for: the path of a stored trace, or what an experiment replays."""
    experiment = _experiment(trace)
    return trace if experiment is None else _source(experiment)


def _params(assignments: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """{"nova-cow": {"capacity": "1GiB"}} from ("nova-cow.capacity=1GiB", ...)."""
    from scmsim.errors import UsageError

    params: dict[str, dict[str, str]] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        model, dot, key = name.rpartition(".")
        if not (equals and dot and model and key):
            raise UsageError(f"{text!r} is not MODEL.KEY=VALUE; write it like nova-cow.capacity=16GiB")
        params.setdefault(model, {})[key] = value
    return params


def run_jobs(jobs: list[dict], params: dict[str, dict[str, str]], by: str | None) -> Any:
    """Replay every job with progress on stderr; one Result with the runs of all."""
    from scmsim._jit import is_cold
    from scmsim.cli._progress import Progress
    from scmsim.pipeline import replay

    if is_cold():
        click.echo("scmsim: compiling the models, once after an installation: 10 to 20 s each ...", err=True)
    result = None
    with Progress() as progress:
        for job in jobs:
            merged = {k: {**job["params"].get(k, {}), **params.get(k, {})} for k in {*job["params"], *params}}
            names = job["fs"].split(",") if isinstance(job["fs"], str) else job["fs"]
            known = {*(name.strip() for name in names), job["paging"]}
            if job["params"]:  # an experiment may hold parameters of models that this run leaves out
                merged = {k: v for k, v in merged.items() if k in known or k in params}
            one = replay(**{**job, "params": merged}, by=by or "site", progress=progress)
            if result is None:
                result = one
            else:
                result.runs += one.runs
    return result
