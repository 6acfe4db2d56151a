"""`scmsim version`: show the version, like `scmsim --version`."""

import click

from scmsim import __version__

SUMMARY = "Show the version."


@click.command("version", help=SUMMARY)
def command() -> None:
    click.echo(f"scmsim {__version__}")
