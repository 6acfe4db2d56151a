"""`scmsim check`: is the file of an experiment or a matrix right?  All mistakes at once, each with its line."""

import json
import pathlib

import click
from click.shell_completion import CompletionItem

SUMMARY = "Check the file of an experiment or of a measurement's matrix and show every mistake with its line."


def _files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


@click.command(
    "check",
    help=f"""{SUMMARY}

FILE is a path or the name of a shipped experiment, matrix (perf-*) or sweep (sweep-*). A file with a [matrix] is one for
perf run, one whose name begins with sweep- one for sweep.""",
)
@click.argument("file", shell_complete=_files)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: file, ok, problems (line, key, rule).")
def command(file: str, as_json: bool) -> int:
    from scmsim import config_matrix
    from scmsim.config import MATRIX_PREFIX, SWEEP_PREFIX, ConfigError, load, resolve
    from scmsim.sweep import config as sweeps

    sweep = pathlib.Path(file).name.startswith(SWEEP_PREFIX)
    path = sweeps.resolve(file) if sweep else resolve(file, matrix=file.startswith(MATRIX_PREFIX))
    problems = []
    try:
        if sweep:
            sweeps.load(path)
        elif config_matrix.is_matrix(path):
            config_matrix.load(path)
        else:
            load(path)
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
