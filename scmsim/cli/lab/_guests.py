"""What the commands that run guests for a trace have in common: options, checks, the run."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from scmsim.lab.job import Job
    from scmsim.lab.machine import Setting

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
    import os

    from scmsim.core.units import parse_time
    from scmsim.lab import runner, systems
    from scmsim.lab.job import Job
    from scmsim.pipeline.arguments import open_source

    open_source(trace)
    rows = systems.load(given["systems"])
    chosen = {name: systems.get(rows, name) for name in fs}
    timeout_s = parse_time(given["timeout"]) / 1e9 if given["timeout"] else Job.timeout_s
    job = Job(fs, trace, timeout_s=timeout_s)
    setting = setting_of(job, given, any(system.dax for system in chosen.values()), **kept)
    workers = min(given["workers"] or len(os.sched_getaffinity(0)), len(fs))
    with progress() as show:
        runner.run(job, setting, chosen, given["out"], workers=workers, inputs=[trace], progress=show)
    return setting.kernel.version()


def setting_of(job: "Job", given: dict[str, Any], dax: bool, **kept: Any) -> "Setting":
    """Emulator and kernel, checked before anything runs."""
    from scmsim.lab import kernel, machine, qemu

    emulator = qemu.find()
    found = kernel.find(given["package"], given["image"], given["modules"])
    found.check(dax)
    return machine.Setting(emulator, found, job.timeout_s, job.erms, **kept)


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str, int, int, float], None] | None]:
    """Draws one line on stderr, where that is a terminal."""
    from scmsim.cli._progress import on_terminal

    if not on_terminal():
        yield None
        return

    def show(key: str, done: int, total: int, left: float) -> None:
        click.echo(f"\r\x1b[K{done} of {total} guests, about {left:.0f} s left: {key}", nl=False, err=True)

    try:
        yield show
    finally:
        click.echo("\r\x1b[K", nl=False, err=True)
