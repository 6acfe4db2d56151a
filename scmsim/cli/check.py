"""`scmsim check`: is an experiment file right?  All mistakes at once, each with its line."""

import json

import click
from click.shell_completion import CompletionItem

SUMMARY = "Check an experiment file and show every mistake with its line."


def _files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


@click.command("check", help=f"{SUMMARY}\n\nFILE is a path or the name of a shipped experiment.")
@click.argument("file", shell_complete=_files)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: file, ok, problems (line, key, rule).")
def command(file: str, as_json: bool) -> int:
    from scmsim.config import ConfigError, load, resolve

    path = resolve(file)
    problems = []
    try:
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
