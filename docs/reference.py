"""Pages of the reference, from the code itself: command line, models with their parameters and sources, counters, metrics.

Run by Sphinx (conf.py); `python docs/reference.py` writes them without it.
"""

import os
import pathlib
import shutil
from collections.abc import Iterator

import click

from scmsim import cli, registry
from scmsim.counters import MEASURED, SCHEMA
from scmsim.metrics import METRICS

KINDS = {
    "fs": "File systems",
    "machine": "Machines",
    "paging": "Mapping policies",
    "policy": "Page-size policies",
    "medium": "Media",
    "workload": "Workloads",
    "format": "Trace formats",
    "capture": "Capture back ends",
    "events": "Event tables of micro-architectures",
}


def write(folder: pathlib.Path) -> None:
    """Write every page into `folder`, which is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pages = {"cli": command_line(), "models": models(), "counters": counters()}
    for name, lines in pages.items():
        (folder / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def link_notebooks(folder: pathlib.Path, source: pathlib.Path) -> None:
    """The notebooks as pages: Sphinx takes only what lies below its own folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in sorted(source.glob("*.ipynb")):
        shutil.copyfile(file, folder / file.name)


def command_line() -> Iterator[str]:
    """Help of every command and subcommand."""
    os.environ["COLUMNS"] = "100"
    yield "# Command line\n"
    yield from _command(cli.main, "scmsim", 2)


def _command(command: click.Command, name: str, level: int) -> Iterator[str]:
    context = click.Context(command, info_name=name, terminal_width=100, max_content_width=100)
    yield f"{'#' * min(level, 4)} {name}\n"
    yield f"```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            child = command.get_command(context, each)
            if child is not None:
                yield from _command(child, f"{name} {each}", level + 1)


def models() -> Iterator[str]:
    """Every plug-in: what it is, where it comes from, its parameters."""
    yield "# Models\n"
    for kind, title in KINDS.items():
        yield f"## {title}\n"
        for name in registry.names(kind):
            found = registry.literals(kind, name)
            yield f"### {name}\n"
            yield f"{_text(str(found.get('SUMMARY', '')))}.\n"
            source = found.get("SOURCE") or found.get("source")
            if isinstance(source, str):
                yield f"Source: {_text(source)}.\n"
            if found.get("PARAMS"):
                yield from _table(
                    ("parameter", "default", "unit", "meaning"),
                    [(f"`{key}`", default, unit, meaning) for key, (default, unit, meaning) in found["PARAMS"].items()],
                )
            if found.get("SITES"):
                sites = ", ".join(
                    f"{site} ({stored})" if stored != "none" else site for site, stored in found["SITES"].items()
                )
                yield f"Sites (and the kind of bytes they store): {sites}.\n"


def counters() -> Iterator[str]:
    """The counter schema and the metrics."""
    yield "# Counters and metrics\n\n## Counters that models and measurements share\n"
    yield from _table(
        ("field", "perf event", "unit", "meaning"),
        [(f"`{n}`", c.event or "", c.unit, c.meaning) for n, c in SCHEMA.items()],
    )
    yield "## Counters that only measurements have\n"
    yield from _table(
        ("field", "perf event", "unit", "meaning"),
        [(f"`{n}`", c.event or "", c.unit, c.meaning) for n, c in MEASURED.items() if n not in SCHEMA],
    )
    yield "## Metrics\n"
    rows = [
        (f"`{name}`", m.unit, m.meaning, ", ".join(f"`{i}`" for i in m.ways[-1].inputs)) for name, m in METRICS.items()
    ]
    yield from _table(("metric", "unit", "meaning", "from"), rows)


def _table(head: tuple[str, ...], rows: list[tuple]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |\n|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(_text(str(cell)) for cell in row) + " |"
    yield ""


def _text(words: str) -> str:
    return words.strip().rstrip(".").replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    write(pathlib.Path(__file__).parent / "reference")
