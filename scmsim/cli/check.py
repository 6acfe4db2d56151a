"""`scmsim check`: is the file of an experiment, a sweep or a matrix right?  All mistakes at once, each with its line."""

import json
import pathlib
from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

SUMMARY = "Check the file of an experiment, a sweep or a matrix of measurements; show every mistake with its line."


def _files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


@click.command(
    "check",
    help=f"""{SUMMARY}

FILE is a path or the name of a shipped experiment, matrix (perf-*) or sweep (sweep-*). A file with a [matrix] is one for
perf run, one with [axes], [fixed] or [[point]] one for sweep.""",
)
@click.argument("file", shell_complete=_files)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: file, ok, problems (line, key, rule).")
def command(file: str, as_json: bool) -> int:
    from scmsim import config_matrix
    from scmsim.config import MATRIX_PREFIX, SWEEP_PREFIX, ConfigError, load, meant_as, resolve
    from scmsim.sweep import config as sweeps

    named = pathlib.Path(file).name.startswith(SWEEP_PREFIX)
    path = sweeps.resolve(file) if named else resolve(file, matrix=file.startswith(MATRIX_PREFIX))
    checks: dict[str, Callable[[pathlib.Path], Any]]
    checks = {MATRIX_PREFIX: config_matrix.load, SWEEP_PREFIX: sweeps.load, "": load}
    problems = []
    try:
        checks[meant_as(path)](path)
    except ConfigError as error:
        problems = error.problems
        text = str(error)
    else:
        text = f"{path}: ok"
    if as_json:
        found = {"file": str(path), "ok": not problems, "problems": [problem._asdict() for problem in problems]}
        text = json.dumps(found, indent=2)
    click.echo(text)
    return 2 if problems else 0
