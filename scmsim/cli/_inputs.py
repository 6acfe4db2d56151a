"""Protect a command's inputs: its output never overwrites a file named by its arguments.

Parameters are recognised by their names, so a new command is protected without code of its own.  A parameter that is not in OUTPUTS
counts as an input: an output parameter with a new name is refused when its file exists, instead of silently being unprotected.
"""

import functools
from collections.abc import Iterator
from typing import Any

import click

OUTPUTS = frozenset({"out", "accesses", "named", "plot", "chart", "figures", "junit", "keep", "keep_raw"})


def protect(command: click.Command) -> None:
    """Make the command refuse to overwrite a file named by one of its arguments."""
    run = command.callback
    if run is None or isinstance(command, click.Group):
        return

    @functools.wraps(run)
    def protected(*args: Any, **given: Any) -> Any:
        from scmsim.core import atomic

        with atomic.protected(_inputs(click.get_current_context())):
            return run(*args, **given)

    command.callback = protected


def _inputs(context: click.Context) -> Iterator[str]:
    for name, value in context.params.items():
        if name not in OUTPUTS:
            yield from (text for text in (value if isinstance(value, tuple) else (value,)) if isinstance(text, str))
