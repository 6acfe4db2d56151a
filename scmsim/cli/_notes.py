"""Print a result's failures and warnings on stderr, for commands whose table lacks them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from scmsim.result import Result

MOST = 20  # most notes to print


def print_notes(result: "Result") -> None:
    """Print each distinct failure and warning of a result once."""
    print_distinct(result.notes(), "the result has all")


def print_distinct(notes: Iterable[str], rest: str) -> None:
    """Print distinct notes on stderr, at most MOST; `rest` is printed if there are more, and names where to find them."""
    distinct = list(dict.fromkeys(notes))
    for note in distinct[:MOST]:
        click.echo(f"scmsim: {note}", err=True)
    if len(distinct) > MOST:
        click.echo(f"scmsim: {len(distinct) - MOST:,} more warnings; {rest}", err=True)
