"""`scmsim artifact`: results that others can check; its subcommands are the files of this folder."""

import click

from scmsim.cli import LazyGroup

SUMMARY = "Pack a result with everything that it needs, and check such a folder by running it again."


@click.group("artifact", cls=LazyGroup, parent="artifact", help=SUMMARY, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
