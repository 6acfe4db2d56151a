"""`scmsim check`: check the file of an experiment, a sweep or a matrix; show all mistakes at once, each with its line."""

import json
import pathlib
from collections.abc import Callable
from typing import Any

import click

SUMMARY = "Check the file of an experiment, a sweep or a matrix of measurements; show every mistake with its line."


@click.command(
    "check",
    help=f"""{SUMMARY}

FILE is a path or the name of a shipped experiment, matrix (perf-*) or sweep (sweep-*). A file with [matrix] is for perf
run, and a file with [axes], [fixed] or [[point]] is for sweep. The models of an experiment or sweep are also built, but
not replayed, so that a file that passes can be run. Points of a sweep that cannot run are counted, with the reason.""",
)
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: file, ok, problems (line, key, rule).")
def command(file: str, as_json: bool) -> int:
    from scmsim.config import MATRIX_PREFIX, SWEEP_PREFIX, matrix, meant_as, resolve
    from scmsim.core.toml import ConfigError
    from scmsim.sweep import config as sweeps

    named = pathlib.Path(file).name.startswith(SWEEP_PREFIX)
    path = sweeps.resolve(file) if named else resolve(file, matrix=file.startswith(MATRIX_PREFIX))
    checks: dict[str, Callable[[pathlib.Path], Any]]
    checks = {MATRIX_PREFIX: matrix.load, SWEEP_PREFIX: sweeps.check, "": _check_experiment}
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


def _check_experiment(path: pathlib.Path) -> None:
    """Read an experiment and build its models; raise ConfigError with every mistake."""
    from scmsim.config import load

    load(path)  # mistakes in the file come first; finding them needs no models

    from scmsim.cli.replay import replays_of
    from scmsim.core import toml
    from scmsim.core.errors import ScmsimError
    from scmsim.core.positions import Path
    from scmsim.core.schema import Broken
    from scmsim.pipeline import open_source, replay
    from scmsim.pipeline.arguments import models_of
    from scmsim.sweep.trial import WithoutOperations

    mistakes: dict[tuple[Path, str], None] = {}
    for job in replays_of(str(path)):
        try:
            source = WithoutOperations(open_source(job.pop("trace"))[0])
        except ScmsimError as error:
            mistakes[("trace",), str(error)] = None
            break
        params = job.pop("params")
        for fs in job.pop("fs"):
            known = models_of([fs], job["machine"], job["paging"])
            own = {name: given for name, given in params.items() if name in known}
            try:
                replay(source, fs, params=own, **job)
            except ScmsimError as error:
                mistakes[("set", fs) if fs in params else ("fs",), str(error)] = None
    if mistakes:
        raise toml.mistaken(path, toml.read(path)[0], Broken(list(mistakes)))
