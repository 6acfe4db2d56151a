"""`scmsim perf check`: what can be measured here, and what stands in the way."""

import click

SUMMARY = "Show what perf can measure on this machine, and the command that removes each obstacle."


@click.command("check", help=SUMMARY)
def command() -> None:
    raise NotImplementedError
