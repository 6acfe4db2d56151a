"""`scmsim export`: write a result's cost by mechanism, in formats that profilers read."""

import click

from scmsim.core.errors import UsageError

SUMMARY = "Write a result's cost by mechanism as collapsed stacks (.folded) or for speedscope (.speedscope.json)."


@click.command(
    "export",
    help=f"""{SUMMARY}

RESULT is a result (.json, .parquet) or a folder of results.""",
)
@click.argument("result", type=click.Path())
@click.option("-o", "--out", required=True, type=click.Path(), help="File to write: F.folded or F.speedscope.json.")
@click.option(
    "--counter", "counters", multiple=True, help="Cost counter; may be repeated.  [default: instructions and others]"
)
def command(result: str, out: str, counters: tuple[str, ...]) -> None:
    from scmsim.cli._results import read_results
    from scmsim.core import atomic
    from scmsim.export import stacks

    is_folded = out.endswith(".folded")
    if not is_folded and not out.endswith(".speedscope.json"):
        raise UsageError(f"{out!r} does not end in .folded or .speedscope.json; choose the format by the file's name")
    if is_folded and len(counters) > 1:
        raise UsageError("collapsed stacks hold one counter; give --counter once, or write F.speedscope.json")
    atomic.writable(out)
    runs = read_results(result).runs
    names = stacks.chosen(runs, counters)
    text = stacks.folded(runs, names[0]) if is_folded else stacks.speedscope(runs, names, f"scmsim {result}")
    with atomic.whole(out) as draft:
        draft.write_text(text, encoding="utf-8")
    click.echo(f"{out}: {', '.join(names[:1] if is_folded else names)} of {len(runs)} runs by mechanism")
