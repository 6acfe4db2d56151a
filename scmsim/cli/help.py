"""`scmsim help COMMAND`: show the help of a command, like `scmsim COMMAND --help`."""

import click

from scmsim.core.errors import UsageError

SUMMARY = "Show the help of a command."


@click.command("help", help=SUMMARY)
@click.argument("names", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...]) -> None:
    context = ctx.find_root()
    for name in names:
        if not isinstance(context.command, click.Group):
            raise UsageError(f"{context.command_path!r} has no commands of its own; leave {name!r} out")
        _, found, _ = context.command.resolve_command(context, [name])
        assert found is not None  # resolve_command raises for an unknown name
        context = click.Context(found, context, name)
    click.echo(context.get_help())
