"""Share options and reports between the crash checks of models and of real kernels."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import click

seed_option = click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(0, (1 << 62) - 1), help="Seed of the random samples."
)


def lines_option(default: int, most: int) -> Callable:
    """Return the option --lines: maximum number of losable cache lines with which every state of a crash point is checked."""
    meaning = "Check all states of a crash point where up to this many lines may be lost."
    return click.option("--lines", default=default, show_default=True, type=click.IntRange(0, most), help=meaning)


def samples_option(default: int, most: int) -> Callable:
    """Return the option --samples: the number of sampled states of a crash point that has more losable lines."""
    meaning = "States to sample at a crash point where more lines may be lost."
    return click.option("--samples", default=default, show_default=True, type=click.IntRange(2, most), help=meaning)


def conclude(reports: Sequence[Any], as_json: bool, show: Callable[[Any], None]) -> int:
    """Print the report of each file system by `show`, or all as JSON; return 1 if a promise is broken, else 0."""
    if as_json:
        found = [report.to_dict() for report in reports]
        click.echo(json.dumps(found if len(found) > 1 else found[0]))
    for i, report in enumerate([] if as_json else reports):
        if i:
            click.echo()
        show(report)
    return 1 if any(report.failing_states and report.promised for report in reports) else 0
