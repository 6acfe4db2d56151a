"""Meaning of every figure and term in the output, the source of `scmsim explain`, the tables and docs/reference/glossary.md.

Counters and metrics are explained where they are defined (`counters`, `metrics`); the rows of the comparison table, the
figures of a space report, the sites and the words are in the TOML files beside this module.
"""

import difflib
import functools
import pathlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scmsim.core import toml
from scmsim.core.counters import EVERY
from scmsim.core.errors import UnknownName
from scmsim.result.metrics import METRICS

_FOLDER = pathlib.Path(__file__).parent
KINDS = {
    "word": "Words",
    "row": "Rows of the comparison table",
    "space": "Figures of a space report",
    "site": "Sites: mechanisms inside file systems",
    "metric": "Metrics",
    "counter": "Counters",
}
_MOST = 12


@dataclass(frozen=True)
class Term:
    """A name that the output shows, and its meaning."""

    name: str  # as printed
    kind: str
    meaning: str  # one sentence, without capital and full stop
    unit: str = ""
    more: str = ""  # further sentences: the origin of the figure, and figures that are easily confused with it
    field: str = ""  # name of the term in results (JSON, Parquet), if different
    aliases: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Return the meaning as a sentence."""
        return f"{self.meaning[:1].upper()}{self.meaning[1:]}."

    def __str__(self) -> str:
        about = ", ".join(part for part in (self.kind, f"in {self.unit}" if self.unit else "", self.field) if part)
        return f"{self.name} ({about})\n  " + "\n  ".join(filter(None, [self.sentence, self.more]))


@functools.cache
def terms() -> tuple[Term, ...]:
    """Return every term, in the order of KINDS."""
    own = [
        Term(name, kind, about["meaning"], **_rest(about))
        for kind, file in (("word", "words"), ("space", "space"))
        for name, about in ((about.get("label", key), {"field": key, **about}) for key, about in _table(file).items())
    ]
    found = [
        *own,
        *(row(name) for name in _table("rows")),
        *(Term(name, "site", meaning) for name, meaning in _table("sites").items()),
        *(Term(name, "metric", metric.meaning, metric.unit) for name, metric in METRICS.items()),
        *(Term(name, "counter", c.meaning, c.unit, _event(c.event)) for name, c in EVERY.items()),
    ]
    return tuple(sorted(found, key=lambda term: list(KINDS).index(term.kind)))


def row(label: str) -> Term:
    """Return the term of a row of the comparison table; the row's counter or metric supplies a missing unit or meaning."""
    about = _table("rows").get(label)
    if about is None:
        return next(term for term in terms() if (term.name, term.kind) == (label, "space"))
    counter = _field(about["of"]) if "of" in about else None
    meaning = about.get("meaning") or (counter.meaning if counter else "")
    unit = about.get("unit") or (counter.unit if counter else "")
    return Term(label, "row", meaning, **_rest({**about, "unit": unit, "field": about.get("of", "")}))


def label(field: str) -> str:
    """Return the text that labels a figure of a result: the name of its row, its label, or else its meaning."""
    if field in _table("space"):
        return str(_table("space")[field]["label"])
    row_of = next((name for name, about in _table("rows").items() if about.get("of") == field), None)
    return row_of or (_field(field).meaning if field in METRICS or field in EVERY else field)


def unit(field: str) -> str:
    """Return the unit of a figure of a result, "" if it has none."""
    if field in _table("space"):
        return str(_table("space")[field]["unit"])
    return _field(field).unit if field in METRICS or field in EVERY else ""


def meaning(field: str) -> str:
    """Return the meaning of a counter or metric; "" for any other name."""
    return _field(field).meaning if field in METRICS or field in EVERY else ""


def find(text: str) -> list[Term]:
    """Return the terms whose name is `text`, or else the terms whose names contain `text` as whole words.

    Raises UnknownName if no term matches; the message names the nearest terms.
    """
    wanted = _plain(text)
    names = {term: {_plain(name) for name in (term.name, term.field, *term.aliases)} - {""} for term in terms()}
    exact = [term for term, own in names.items() if wanted in own]
    if exact or not wanted:
        shown = [term for term in exact if not any(term.name == one.field and one is not term for one in exact)]
        return shown or exact or list(terms())  # a row repeats the meaning of its metric, so the metric is left out
    holding = [term for term, own in names.items() if any(f" {wanted} " in f" {name} " for name in own)]
    if holding:
        return holding[:_MOST]
    # reversed, so that a row wins over its metric
    known = {name: term.name for term, own in reversed(names.items()) for name in own}
    near = dict.fromkeys(repr(known[name]) for name in difflib.get_close_matches(wanted, known, 3))
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise UnknownName(f"no term {text!r}; {hint}'scmsim explain' lists all {len(terms())}")


def markdown() -> str:
    """Return the page docs/reference/glossary.md."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield "# Glossary\n"
    yield "This page explains every figure and word of the output. `scmsim explain WORD`, `scmsim replay ... --explain`,"
    yield "`scmsim list counters` and `scmsim list metrics` print the same texts. `scmsim explain --markdown` makes this page."
    for kind, title in KINDS.items():
        yield f"\n## {title}\n\n| name | unit | meaning |\n|---|---|---|"
        for term in terms():
            if term.kind == kind:
                name = f"`{term.name}`" if kind in ("counter", "metric", "site") else term.name
                field = f" (`{term.field}`)" if term.field else ""
                text = " ".join(filter(None, [term.sentence, term.more]))
                yield "| " + " | ".join(cell.replace("|", "\\|") for cell in (name + field, term.unit, text)) + " |"


@functools.cache
def _table(name: str) -> dict[str, Any]:
    return toml.read(_FOLDER / f"{name}.toml")[1]


def _field(name: str) -> Any:
    return METRICS[name] if name in METRICS else EVERY[name]


def _rest(about: dict[str, Any]) -> dict[str, Any]:
    """Return the optional parts of a term; `field` is empty if it equals the name."""
    field = about.get("field", "") if "label" in about or "of" in about else ""
    return {
        "unit": about.get("unit", ""),
        "more": about.get("more", ""),
        "field": field,
        "aliases": tuple(about.get("aliases", ())),
    }


def _event(name: str | None) -> str:
    return f"perf: {name}." if name else ""


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9%]+", text.lower()))
