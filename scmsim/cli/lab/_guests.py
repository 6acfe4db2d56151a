"""Share the options, checks and runs of guests among the `scmsim lab` commands."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from scmsim.cli._progress import Line
    from scmsim.lab.job import Job
    from scmsim.lab.kernel import Kernel
    from scmsim.lab.machine import Setting
    from scmsim.lab.systems import System
    from scmsim.pipeline.kernels import Chosen
    from scmsim.result import Result


def _options(*options: Callable) -> Callable:
    """Return a decorator that adds options to a command."""

    def added(command: Callable) -> Callable:
        for option in reversed(options):
            command = option(command)
        return command

    return added


# options that say how guests run
run_options = _options(
    click.option("--jobs", "workers", type=click.IntRange(1, 256), help="Guests to run at a time.  [default: CPUs]"),
    click.option("--timeout", help="Time limit of one guest, e.g. 10min.  [default: 30min]"),
    click.option("--systems", type=click.Path(), help="More file systems: a TOML table like the lab's systems.toml."),
)
# options that say how guests run, and on which kernel
guest_options = _options(
    run_options,
    click.option(
        "--kernel", "package", help="Kernel instead of lab setup's: a kept one (6.12), FILE.deb or IMAGE[:MODULES]."
    ),
    click.option("--kernel-image", "image", type=click.Path(), help="A bzImage to use instead."),
    click.option("--modules", type=click.Path(), help="Modules of --kernel-image: the folder lib/modules/RELEASE."),
)
cpus_option = click.option(
    "--cpus",
    type=click.IntRange(1, 64),
    help="CPUs of a guest; thread k of a trace runs on CPU k modulo this number.  [default: 1]",
)
# options of the replays that are compared with guests: file systems and parameters
beside_options = _options(
    click.option("--fs", help="File systems of the lab that have a model, separated by commas.  [default: ext4-dax]"),
    click.option(
        "--set",
        "assignments",
        multiple=True,
        metavar="MODEL.KEY=VALUE",
        help="A parameter of the replay; may be repeated.",
    ),
    cpus_option,
)
# options that say what a job's guests run
job_options = _options(
    click.option("--fs", help="File systems, separated by commas.  [default: those of the job, else ext4-dax]"),
    click.option("--units", help="Bytes per call, separated by commas, instead of the job's."),
    click.option("--repeat", "repeats", type=click.IntRange(1, 1000), help="Fresh guests to run per file system."),
    click.option(
        "--machine", help="Also count first-level misses and page walks of this machine's TLB, for 'lab diff'."
    ),
    cpus_option,
    click.option("--no-erms", is_flag=True, help="CPU without fast rep movsb: the kernel copies 8 bytes at a time."),
)


def job_of(text: str, given: dict[str, Any]) -> "tuple[Job, dict[str, System]]":
    """Return (the job with the command line's overrides, its file systems by name)."""
    from scmsim.core.units import parse_time
    from scmsim.lab import job, systems

    fields = {
        "fs": job.systems_of(given["fs"]) if given["fs"] else None,
        "units": job.units_of(given["units"]) if given["units"] else None,
        "repeats": given["repeats"],
        "timeout_s": parse_time(given["timeout"]) / 1e9 if given["timeout"] else None,
        "erms": False if given["no_erms"] else None,
        "cpus": given["cpus"],
    }
    loaded = job.load(text, fields)
    table = systems.load(given["systems"])
    return loaded, {name: systems.get(table, name, loaded.cpus) for name in loaded.fs}


def run_job(
    loaded: "Job", setting: "Setting", chosen: "dict[str, System]", out: str | os.PathLike[str], given: dict[str, Any]
) -> "tuple[Result, int, int]":
    """Run the job's guests whose results are not in `out` yet; return (result, guests run now, guests run before)."""
    from scmsim.lab import runner

    workers = min(given["workers"] or len(os.sched_getaffinity(0)), len(runner.guests(loaded)))
    inputs = [path for path in (loaded.trace,) if path]
    with _progress() as show:
        return runner.run(loaded, setting, chosen, out, workers=workers, inputs=inputs, progress=show)


def run_guests(
    trace: str, fs: tuple[str, ...], given: dict[str, Any], boots: int = 1, layout: bool = False, **kept: Any
) -> str:
    """Run a trace in the guests whose results are not in `given["out"]` yet; return the kernel's version.

    Each of `boots` guests per file system is a separate boot.  With `layout`, guests report where their files and free space
    are at the end.  `kept` are fields of the setting: what the guests must record (`window`, `touches`).
    """
    from scmsim.core.units import parse_time
    from scmsim.lab import runner, systems
    from scmsim.lab.job import Job
    from scmsim.pipeline.arguments import open_source

    open_source(trace)
    rows = systems.load(given["systems"])
    cpus = given["cpus"] or 1
    chosen = {name: systems.get(rows, name, cpus) for name in fs}
    timeout_s = parse_time(given["timeout"]) / 1e9 if given["timeout"] else Job.timeout_s
    job = Job(fs, trace, timeout_s=timeout_s, repeats=boots, layout=layout, cpus=cpus)
    setting = setting_of(job, given, any(system.dax for system in chosen.values()), boots=boots > 1, **kept)
    workers = min(given["workers"] or len(os.sched_getaffinity(0)), len(fs) * boots)
    with _progress() as show:
        runner.run(job, setting, chosen, given["out"], workers=workers, inputs=[trace], progress=show)
    return setting.kernel.version()


def modelled(given: dict[str, Any]) -> tuple[str, ...]:
    """Return the file systems of --fs; raise UsageError for one that the lab cannot run, or that has no model."""
    from scmsim.core import registry
    from scmsim.lab import job, systems

    names = job.systems_of(given["fs"] or "ext4-dax")
    rows = systems.load(given["systems"])
    for name in names:
        systems.get(rows, name, given["cpus"] or 1)
        registry.path("fs", name)
    return names


def checked(given: dict[str, Any]) -> tuple[tuple[str, ...], list[str], dict[str, dict[str, str]]]:
    """Return (file systems, machines, replay parameters); raise UsageError for an unknown name or a missing -o."""
    from scmsim.cli.replay import _params
    from scmsim.core import registry
    from scmsim.core.errors import UsageError, unknown
    from scmsim.pipeline.arguments import models_of

    if not given["out"]:
        raise UsageError("no folder for the results; give one with -o")
    names = modelled(given)
    machines = registry.select("machine", given["machine"] or "i7-8700k")
    params = _params(given["assignments"])
    for machine in machines:
        known = models_of(names, machine, given.get("paging"))
        for target in params:
            if target not in known:
                raise unknown("model in this replay", target, sorted(known))
    return names, machines, params


def warn(chosen: "Chosen") -> None:
    """Print the remarks on a replay's costs and footprints, once each."""
    for told in sorted({remark for each in chosen.remarks.values() for remark in each}):
        click.echo(f"scmsim: warning: {told}", err=True)


def misses_of(machine: str | None) -> dict[str, Any]:
    """Return the fields of a setting that counts guests' misses on a machine; {} without a machine."""
    from scmsim.lab.machine import Window
    from scmsim.mmu import presets

    if not machine:
        return {}
    presets.machine(machine)  # raises UsageError for an unknown machine
    return {"window": Window(1, 1, calls=True), "machine": machine}


def setting_of(job: "Job", given: dict[str, Any], dax: bool, **kept: Any) -> "Setting":
    """Return the guests' setting: the emulator and the kernel, checked before any guest runs."""
    from scmsim.lab import kernel

    return setting_with(kernel.find(given["package"], given["image"], given["modules"]), job, dax, **kept)


def setting_with(found: "Kernel", job: "Job", dax: bool, **kept: Any) -> "Setting":
    """Return the guests' setting with a given kernel, checked before any guest runs."""
    from scmsim.lab import machine, qemu

    emulator = qemu.find()
    found.check(dax)
    return machine.Setting(emulator, found, job.timeout_s, job.erms, job.cpus, **kept)


def make_folder(path: str | os.PathLike[str]) -> None:
    """Create the folder for several kernels' results, if missing."""
    from scmsim.core.atomic import writable_folder

    writable_folder(path).mkdir(exist_ok=True)


def _progress() -> "Line":
    """Return a progress line on stderr; its call takes (guest, done, total, seconds left)."""
    from scmsim.cli._progress import Line

    return Line(lambda key, done, total, left: f"{done} of {total} guests, about {left:.0f} s left: {key}", every=0.0)
