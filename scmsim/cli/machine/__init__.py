"""`scmsim machine`: machines whose TLBs and page walks can be simulated; its subcommands are the files of this folder."""

import click

from scmsim.cli import LazyGroup

SUMMARY = "Describe this machine, for the simulation of its TLBs."


@click.group("machine", cls=LazyGroup, parent="machine", help=SUMMARY, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
