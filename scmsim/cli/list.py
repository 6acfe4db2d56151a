"""`scmsim list`: list the plug-ins, read from literals in their files (without heavy imports)."""

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from scmsim.core import registry
from scmsim.core.errors import unknown
from scmsim.core.text import words
from scmsim.paging._choice import wanted

if TYPE_CHECKING:
    from scmsim.result.glossary import Term

SUMMARY = "Show file systems, machines, paging, media, workloads, formats, event tables, counters, metrics and more."

_TERMS = {
    "counters": "counter",
    "metrics": "metric",
    "rows": "row",
}  # kinds of the glossary, in addition to those of the registry
_KINDS = (*registry.KINDS, *_TERMS)


def _kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(kind) for kind in _KINDS if kind.startswith(incomplete)]


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    kind = ctx.params.get("kind")
    if kind in _TERMS:
        return [
            CompletionItem(term.name, help=term.meaning)
            for term in _terms(kind, None)
            if term.name.startswith(incomplete)
        ]
    if kind not in registry.KINDS:
        return []
    known = (name for name in registry.names(kind) if name.startswith(incomplete))
    return [CompletionItem(name, help=registry.literals(kind, name).get("SUMMARY", "")) for name in known]


@click.command(
    "list",
    help=f"{SUMMARY}\n\nWithout KIND, list all names of every kind. With NAME, show its parameters or its explanation.",
)
@click.argument("kind", required=False, shell_complete=_kinds, metavar=f"[{'|'.join(_KINDS)}]")
@click.argument("name", required=False, shell_complete=_names)
@click.option("--params", is_flag=True, help="Show the parameters of every plug-in of KIND.")
@click.option(
    "--plot",
    type=click.Path(),
    help="For KIND medium: draw latency over bandwidth into F.svg, F.png, F.pdf or F.html (needs the extra 'report').",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(kind: str | None, name: str | None, params: bool, plot: str | None, as_json: bool) -> None:
    if plot is not None:
        _plot(kind, name, plot)
        return
    if kind is None:
        found = {kind: registry.names(kind) for kind in registry.KINDS}
        rows = [(kind, ", ".join(names) or "(none)") for kind, names in found.items()]
        click.echo(json.dumps(found, indent=2) if as_json else _aligned(rows))
        return
    if kind in _TERMS:
        found_terms = _terms(kind, name)
        if as_json:
            click.echo(json.dumps([dataclasses.asdict(term) for term in found_terms], indent=2))
        elif name:
            click.echo("\n".join(map(str, found_terms)))
        else:
            click.echo(_aligned([(t.name, f"{t.unit:<12}  {t.sentence}") for t in found_terms]))
        return
    if kind not in registry.KINDS:
        raise unknown("kind", kind, _KINDS)
    chosen = [name] if name else registry.names(kind)
    plugins = {each: _describe(kind, each) for each in chosen}
    if as_json:
        click.echo(json.dumps([{"name": each, **about} for each, about in plugins.items()], indent=2))
    elif name or params:
        click.echo("\n\n".join(_details(each, about) for each, about in plugins.items()))
    else:
        click.echo(_aligned([(each, about["summary"]) for each, about in plugins.items()]))


def _plot(kind: str | None, names: str | None, path: str) -> None:
    """Draw the media in `names` (separated by commas); by default those that a CPU caches, as others are far slower."""
    from scmsim import medium
    from scmsim.core.errors import UsageError
    from scmsim.plot.files import check
    from scmsim.plot.media import draw

    if kind != "medium":
        raise UsageError(f"--plot draws media, not {kind or 'every kind'}; give: scmsim list medium --plot {path}")
    check(path)
    media = {name: medium.read(name) for name in (names.split(",") if names else registry.names("medium"))}
    draw({name: each for name, each in media.items() if names or each.get("cached", True)}, path)
    click.echo(f"wrote {path}", err=True)


def _terms(kind: str, name: str | None) -> "list[Term]":
    """Return one term of the glossary, or all terms of a kind."""
    from scmsim.result import glossary

    known = {term.name: term for term in glossary.terms() if term.kind == _TERMS[kind]}
    if name is not None and name not in known:
        raise unknown(_TERMS[kind], name, known, f"scmsim list {kind}")
    return list(known.values()) if name is None else [known[name]]


def _describe(kind: str, name: str) -> dict[str, Any]:
    """Return summary and parameters of one plug-in; for a TOML preset, its tables."""
    literals = dict(registry.literals(kind, name))
    about: dict[str, Any] = {"summary": literals.pop("SUMMARY", "")}
    if registry.KINDS[kind][1] == ".toml":
        literals.pop("summary", None)
        return {**about, "values": literals}
    about["params"] = {
        key: {"default": default, "unit": unit, "meaning": meaning}
        for key, (default, unit, meaning) in literals.get("PARAMS", {}).items()
    }
    if kind == "fs":
        about["paging"] = wanted(name)
    return about


def _details(name: str, about: dict[str, Any]) -> str:
    lines = [f"{name}: {about['summary']}"]
    if "paging" in about:
        lines.append(f"  paging, unless another is given: {about['paging']}")
    if "values" in about:
        rows = _flat(about["values"])
    else:
        rows = [
            (key, f"{param['default']} ({param['unit']}): {param['meaning']}") for key, param in about["params"].items()
        ] or [("(no parameters)", "")]
    return "\n".join([*lines, _aligned(rows, "  ")])


def _flat(table: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return a nested table as rows (dotted key, value); an array of tables is numbered."""
    rows: list[tuple[str, str]] = []
    for key, value in table.items():
        items = {key: value}
        if isinstance(value, list) and value and isinstance(value[0], dict):
            items = {f"{key}.{i}": item for i, item in enumerate(value)}
        for dotted, item in items.items():
            if isinstance(item, dict):
                rows += _flat(item, f"{prefix}{dotted}.")
            else:
                rows.append((f"{prefix}{dotted}", words(item)))
    return rows


def _aligned(rows: list[tuple[str, str]], indent: str = "") -> str:
    width = max((len(left) for left, _ in rows), default=0)
    return "\n".join(f"{indent}{left:<{width}}  {right}".rstrip() for left, right in rows)
