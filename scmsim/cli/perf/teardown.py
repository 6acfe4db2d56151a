"""`scmsim perf teardown`: undo `scmsim perf setup --apply`."""

import click

SUMMARY = "Undo 'scmsim perf setup --apply': unmount, remove the file system it made, restore settings."


@click.command("teardown", help=SUMMARY)
@click.option("--folder", default="/mnt/scmsim", show_default=True, help="The folder that was set up.")
def command(folder: str) -> None:
    from scmsim.perf import setup
    from scmsim.perf.machine import Machine

    done = setup.teardown(Machine(), folder, lambda text: click.echo(f"+ {text}", err=True))
    click.echo(f"{folder}: {done} steps undone")
