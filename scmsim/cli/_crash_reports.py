"""Print the reports of crash checks, of models and of real kernels, and choose the exit code."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import click


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
