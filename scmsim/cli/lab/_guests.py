"""What the commands that run guests for a trace have in common: options, checks, the run."""

from collections.abc import Callable
from typing import Any

import click

_OPTIONS = (
    click.option("--jobs", "workers", type=click.IntRange(1, 256), help="Guests at a time.  [default: CPUs]"),
    click.option("--timeout", help="Of one guest, e.g. 10min.  [default: 30min]"),
    click.option("--kernel", "package", type=click.Path(), help="Debian kernel package instead of the chosen one."),
    click.option("--kernel-image", "image", type=click.Path(), help="Any bzImage instead."),
    click.option("--modules", type=click.Path(), help="Modules of that image: lib/modules/RELEASE."),
    click.option("--systems", type=click.Path(), help="More file systems: a TOML table like the lab's systems.toml."),
)


def guest_options(command: Callable) -> Callable:
    """Add the options that say which guests run, and how."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def run_guests(trace: str, fs: tuple[str, ...], given: dict[str, Any], **kept: Any) -> str:
    """Run a trace on file systems where the folder `given["out"]` lacks them; the kernel's version.

    Parameters
    ----------
    kept
        Fields of the setting: what the guests are to leave (`window`, `touches`).
    """
    import dataclasses
    import os

    from scmsim.cli.lab.run import _progress, _setting
    from scmsim.core.units import parse_time
    from scmsim.lab import runner, systems
    from scmsim.lab.job import Job
    from scmsim.pipeline.arguments import opened

    opened(trace)
    rows = systems.load(given["systems"])
    chosen = {name: systems.get(rows, name) for name in fs}
    timeout_s = parse_time(given["timeout"]) / 1e9 if given["timeout"] else Job.timeout_s
    job = Job(fs, trace, timeout_s=timeout_s)
    setting = _setting(job, {**given, "stream": None}, any(system.dax for system in chosen.values()))
    setting = dataclasses.replace(setting, **kept)
    workers = min(given["workers"] or len(os.sched_getaffinity(0)), len(fs))
    with _progress() as show:
        runner.run(job, setting, chosen, given["out"], workers=workers, inputs=[trace], progress=show)
    return setting.kernel.version()
