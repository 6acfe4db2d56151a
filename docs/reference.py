"""Write the pages of the reference from the code: command line, models with parameters and sources, counters, metrics.

`python docs/reference.py` writes docs/reference; the pages are in the repository, and a test fails when they are outdated.
"""

import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import click

from scmsim import cli
from scmsim.core import registry
from scmsim.core.counters import CACHED, MEASURED, SCHEMA
from scmsim.result import glossary
from scmsim.result.metrics import METRICS

FOLDER = pathlib.Path(__file__).parent / "reference"

# kind of plug-in -> (page, title, introduction)
KINDS = {
    "fs": ("file-systems", "File systems", "Choose with `--fs`; parameters are set with `--set NAME.KEY=VALUE`."),
    "machine": (
        "machines",
        "Machines",
        "Choose with `--machine`. Their TLBs side by side: [machines](../models/machines.md).",
    ),
    "paging": ("paging", "Mapping policies", "How memory is mapped; choose with `--paging`."),
    "policy": ("policies", "Page-size policies", "Choose with `scmsim space --policy` ([space](../guide/space.md))."),
    "medium": ("media", "Media", "The memory technology; choose with `--medium`. CXL: [guide](../guide/cxl.md)."),
    "system": ("systems", "Systems", "Other work on the machine, and how rep-strings count; choose with `--system`."),
    "workload": (
        "workloads",
        "Workloads",
        "Generators of traces: `scmsim synth NAME --KEY VALUE` ([workloads](../guide/workloads.md)).",
    ),
    "format": ("formats", "Trace formats", "What `scmsim trace convert` reads ([traces](../guide/traces.md))."),
    "capture": (
        "capture",
        "Capture back ends",
        "Choose with `scmsim capture --backend` ([capture](../guide/capture.md)).",
    ),
    "backend": (
        "backends",
        "Measurement back ends",
        "Choose with `scmsim perf run --backend` ([harness](../guide/harness.md)).",
    ),
    "events": (
        "events",
        "Event tables",
        "The events of each micro-architecture that supply the counters ([harness](../guide/harness.md)).",
    ),
}

# kind of plug-in -> column -> function that returns a plug-in's cell
MORE: dict[str, dict[str, Callable[[dict[str, Any]], Any]]] = {
    "medium": {
        "bandwidth of": lambda m: f"{m['units']} {m['unit']}" if "units" in m else "",
        "read, GB/s": lambda m: f"{m['read_gb_s']:g}",
        "write, GB/s": lambda m: f"{m['write_gb_s']:g}",
        "latency of a load, ns": lambda m: f"{m['load_ns']:g}",
    }
}


def pages() -> dict[str, str]:
    """Return the text of every page by its name."""
    made = {
        "README": _index(),
        "cli": _command_line(),
        "counters": _counters(),
        "glossary": glossary.markdown().splitlines(),
    }
    made |= {page: _plugins(kind, title, first) for kind, (page, title, first) in KINDS.items()}
    return {name: "\n".join(lines).rstrip("\n") + "\n" for name, lines in made.items()}


def write(folder: pathlib.Path = FOLDER) -> None:
    """Write every page into `folder`, which is emptied first."""
    texts = pages()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


def _index() -> Iterator[str]:
    yield "# Reference\n\nWritten from the code by `python docs/reference.py`; do not edit.\n"
    yield "- [Command line](cli.md): every command and option"
    yield "- [Counters and metrics](counters.md): what each figure of a result means"
    yield "- [Glossary](glossary.md): what every figure and word of the output means, as `scmsim explain` prints it"
    for kind, (page, title, _) in KINDS.items():
        yield f"- [{title}]({page}.md): {', '.join(registry.names(kind))}"


def _command_line() -> Iterator[str]:
    """Yield the help of every command and subcommand."""
    os.environ["COLUMNS"] = "100"
    yield "# Command line\n"
    yield from _command(cli.main, "scmsim", 2)


def _command(command: click.Command, name: str, level: int, parent: click.Context | None = None) -> Iterator[str]:
    width = {"terminal_width": 100, "max_content_width": 100}
    context = click.Context(command, parent, info_name=name.split()[-1], **width, **command.context_settings)
    yield f"{'#' * min(level, 4)} {name}\n"
    yield f"```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            _, child, _ = command.resolve_command(context, [each])  # resolved as in a call, with the common options
            if child is not None:
                yield from _command(child, f"{name} {each}", level + 1, context)


def _plugins(kind: str, title: str, first: str) -> Iterator[str]:
    """Yield the page of a kind: every plug-in's summary, source and parameters."""
    found = {name: registry.literals(kind, name) for name in registry.names(kind)}
    detailed = {name for name, model in found.items() if model.get("PARAMS") or model.get("SITES")}
    yield f"# {title}\n\n{first}\n"
    more = MORE.get(kind, {})
    rows = [
        (
            f"[`{name}`](#{name})" if name in detailed else f"`{name}`",
            _summary(m),
            *(column(m) for column in more.values()),
        )
        for name, m in found.items()
    ]
    yield from _table(("name", "what it is", *more), rows)
    for name in found:
        if name in detailed:
            yield from _plugin(name, found[name])


def _plugin(name: str, model: dict[str, Any]) -> Iterator[str]:
    source = model.get("SOURCE") or model.get("source")
    yield f"## {name}\n\n{_text(_summary(model))}.\n"
    if isinstance(source, str):
        yield f"Source: {_text(source)}.\n"
    if model.get("PARAMS"):
        rows = [(f"`{key}`", default, unit, meaning) for key, (default, unit, meaning) in model["PARAMS"].items()]
        yield from _table(("parameter", "default", "unit", "meaning"), rows)
    if model.get("SITES"):
        sites = ", ".join(f"{site} ({kind})" if kind != "none" else site for site, kind in model["SITES"].items())
        yield f"Sites (and the kind of bytes they store): {sites}.\n"


def _counters() -> Iterator[str]:
    """Yield the page of the counter schema and the metrics."""
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
    yield "## Counters of the data caches\n"
    yield "Only `scmsim replay` and `scmsim mmu` with `--caches` supply these; they also supply `l1d_replacement` and"
    yield "`mem_load_retired_l2_miss`, `_l3_hit`, `_l3_miss` above.\n"
    yield from _table(("field", "unit", "meaning"), [(f"`{n}`", c.unit, c.meaning) for n, c in CACHED.items()])
    yield "## Metrics\n"
    rows = [
        (f"`{name}`", m.unit, m.meaning, ", ".join(f"`{i}`" for i in m.ways[-1].inputs)) for name, m in METRICS.items()
    ]
    yield from _table(("metric", "unit", "meaning", "from"), rows)


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |\n|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(_text(str(cell)) for cell in row) + " |"
    yield ""


def _summary(model: dict[str, Any]) -> str:
    return str(model.get("SUMMARY", ""))


def _text(words: str) -> str:
    return words.strip().rstrip(".").replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    write()
