"""`scmsim check`: is the file of an experiment, a sweep or a matrix right?  All mistakes at once, each with its line."""

import json
import pathlib
from collections.abc import Callable
from typing import Any

import click

SUMMARY = "Check the file of an experiment, a sweep or a matrix of measurements; show every mistake with its line."


@click.command(
    "check",
    help=f"""{SUMMARY}

FILE is a path or the name of a shipped experiment, matrix (perf-*) or sweep (sweep-*). A file with a [matrix] is one for
perf run, one with [axes], [fixed] or [[point]] one for sweep, whose models are built too, without a replay: points that cannot be
run are counted, with the reason.""",
)
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: file, ok, problems (line, key, rule).")
def command(file: str, as_json: bool) -> int:
    from scmsim.config import MATRIX_PREFIX, SWEEP_PREFIX, load, matrix, meant_as, resolve
    from scmsim.core.toml import ConfigError
    from scmsim.sweep import config as sweeps

    named = pathlib.Path(file).name.startswith(SWEEP_PREFIX)
    path = sweeps.resolve(file) if named else resolve(file, matrix=file.startswith(MATRIX_PREFIX))
    checks: dict[str, Callable[[pathlib.Path], Any]]
    checks = {MATRIX_PREFIX: matrix.load, SWEEP_PREFIX: sweeps.check, "": load}
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
