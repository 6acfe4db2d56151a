"""`scmsim lab`: measure real kernels in an emulated machine; its subcommands are the files of this folder."""

import click

from scmsim.cli import LazyGroup

SUMMARY = "Measure a real kernel's file systems in an emulated machine, without a PMU or persistent memory."


@click.group("lab", cls=LazyGroup, parent="lab", help=SUMMARY, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
