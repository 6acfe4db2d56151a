"""`scmsim perf`: measure with perf what the models predict; its subcommands are the files of this folder."""

import click

from scmsim.cli import LazyGroup

SUMMARY = "Measure with perf: check the machine, set it up, run, profile, import."


@click.group("perf", cls=LazyGroup, parent="perf", help=SUMMARY, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
