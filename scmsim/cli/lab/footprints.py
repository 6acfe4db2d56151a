"""`scmsim lab footprints`: write the pages that the kernel's own code touches in each kind of call."""

import click

SUMMARY = "Compute footprints for scmsim replay --footprints from the pages that a real kernel touches."


@click.command(
    "footprints",
    help=f"""{SUMMARY}

FOLDER is the output of `scmsim lab touches TRACE -o FOLDER`. OUT gets one file per file system; use them with scmsim
replay --footprints OUT. TRACE should have every kind of call (scmsim synth mix).

\b
Example: scmsim synth mix -o mix.parquet
         scmsim lab touches mix.parquet --fs ext4-dax,tmpfs -o touched
         scmsim lab footprints mix.parquet touched --fs ext4-dax,tmpfs -o my-kernel
""",
)
@click.argument("trace", type=click.Path())
@click.argument("folder", type=click.Path())
@click.option("--fs", required=True, help="File systems of the lab that have a model, separated by commas.")
@click.option("-o", "--out", required=True, type=click.Path(), help="Folder for the footprints.")
@click.option(
    "--no-lines",
    is_flag=True,
    help="Leave out which cache lines each call touches. Only replays with --caches on need them; without them, the files are a "
    "tenth as large.",
)
def command(trace: str, folder: str, fs: str, out: str, no_lines: bool) -> None:
    from scmsim.cli._progress import Progress
    from scmsim.core import registry
    from scmsim.lab.job import systems_of
    from scmsim.study.tlb.footprints import make

    names = systems_of(fs)
    for name in names:
        registry.path("fs", name)
    with Progress("file systems") as progress:
        made = make(trace, folder, names, out, progress, not no_lines)
    for path in made:
        click.echo(f"{path}: footprints, {path.stat().st_size:,} bytes", err=True)
