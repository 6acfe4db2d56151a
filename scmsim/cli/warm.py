"""`scmsim warm`: compile before the first replay, e.g. for the image of a container."""

import os

import click

SUMMARY = "Compile the file systems and all stages of a replay now, so that no replay waits for compilation."


@click.command(
    "warm",
    help=f"""{SUMMARY}

Compiled code is kept below XDG_CACHE_HOME (~/.cache/scmsim), for this CPU and this installation.  A replay compiles
the code that is missing.""",
)
@click.option("--fs", default="all", show_default=True, help="File systems: ext4,nova-cow or 'nova*' or all.")
@click.option("--jobs", type=click.IntRange(1), help="Processes that compile at once.  [default: as many as CPUs]")
def command(fs: str, jobs: int | None) -> None:
    from scmsim.cli._progress import CompilingAhead
    from scmsim.core import registry
    from scmsim.core.errors import EnvironmentProblem
    from scmsim.core.records import OPS
    from scmsim.jit import cache_folder, keeps
    from scmsim.pipeline import compile_ahead
    from scmsim.pipeline.arguments import names_of

    if not keeps():
        raise EnvironmentProblem(
            f"cannot write {cache_folder()!r}, so nothing would be kept; name a writable folder in XDG_CACHE_HOME"
        )
    names, policies = names_of(fs), registry.names("paging")
    with CompilingAhead() as progress:
        pieces = [compile_ahead.STAGES, *names]
        left = compile_ahead.compile_pieces(pieces, policies, OPS, jobs or len(os.sched_getaffinity(0)), progress)
    if left:
        raise EnvironmentProblem(
            f"a compiling process was killed, so {', '.join(left)} are not compiled; free some memory or try --jobs 1"
        )
    click.echo(f"compiled: {', '.join(names)}")
