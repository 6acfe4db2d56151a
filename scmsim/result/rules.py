"""Check that a run of a result has only allowed values; every reader of results uses this check, as a file may hold anything."""

import numbers
from collections.abc import Callable
from typing import Any, NamedTuple

from scmsim.core.text import printable
from scmsim.result.run import Run

MOST = 10**30  # largest figure; with larger figures, or figures below 1 / MOST, ratios could leave the range of floats
MOST_NAME = 1000  # maximum characters of a name in legends and heads of tables
MOST_TEXT = 1 << 16  # maximum characters of any other text; the longest file paths, fully escaped, are shorter


class Rule(NamedTuple):
    """Requirement on a value: a test and its wording."""

    holds: Callable[[Any], bool]
    words: str


def check(run: Run) -> None:
    """Raise ValueError, which names the value, for the first value of the run that its field does not allow."""
    for name, (shape, rule) in _FIELDS.items():
        _walk(getattr(run, name), shape, rule, name)
    for name in ("file_bytes", "unit_bytes"):
        _walk(run.cell.get(name), "", _SIZE, f"cell.{name}")
    _walk(run.cell.get("operation"), "", _LABEL, "cell.operation")
    for name, found in run.intervals.items():
        for part, rule in (("low", _METRIC), ("high", _METRIC), ("basis", _TEXT)):
            _walk(found.get(part), "", rule, f"intervals.{name}.{part}")


def _walk(value: Any, shape: str, rule: Rule, where: str) -> None:
    """Check a value, or all values of a table ("t"), list ("l") or table of tables ("tt")."""
    if not shape:
        if not rule.holds(value):
            raise ValueError(f"{printable(where)[:200]} is {repr(value)[:40]}; it must be {rule.words}")
    elif shape[0] == "l":
        if not isinstance(value, list):
            raise ValueError(f"{where} is {repr(value)[:40]}; it must be a list")
        for number, one in enumerate(value):
            _walk(one, shape[1:], rule, f"{where}[{number}]")
    else:
        if not isinstance(value, dict):
            raise ValueError(f"{printable(where)[:200]} is {repr(value)[:40]}; it must be a JSON object")
        for name, one in value.items():
            if not _is_text(name):
                raise ValueError(f"{where} has a name that is not {_TEXT.words}")
            _walk(one, shape[1:], rule, f"{where}.{name}")


def _is_count(value: Any) -> bool:
    whole = type(value) is int or isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return whole and 0 <= value <= MOST


def _is_figure(value: Any) -> bool:
    real = type(value) in (int, float) or isinstance(value, numbers.Real) and not isinstance(value, bool)
    return real and (value == 0 or 1 / MOST <= abs(value) <= MOST)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MOST_TEXT


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MOST_NAME


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool) or _is_text(value) or _is_figure(value)


_COUNT = Rule(_is_count, "a whole number from 0 to 10^30")
_FIGURE = Rule(_is_figure, "a number from 10^-30 to 10^30 (or 0, or negative)")
_METRIC = Rule(lambda value: value is None or _is_figure(value), f"{_FIGURE.words} or null")
_TEXT = Rule(_is_text, f"text of at most {MOST_TEXT:,} characters")
_NAME = Rule(_is_name, f"text of at most {MOST_NAME:,} characters")
_LABEL = Rule(lambda value: value is None or _is_name(value), f"{_NAME.words} or null")
_SIZE = Rule(lambda value: value is None or _is_count(value), f"{_COUNT.words} or null")
_PLAIN = Rule(_is_plain, "text, a number, true, false or null")
_FIELDS = {
    "fs": ("", _NAME), "machine": ("", _LABEL), "paging": ("", _LABEL), "medium": ("", _LABEL),
    "calls": ("", _COUNT), "operations": ("", _COUNT), "touches": ("", _COUNT), "repeated": ("", _COUNT),
    "counters": ("t", _COUNT), "metrics": ("t", _METRIC), "why_absent": ("t", _TEXT), "estimated": ("l", _TEXT),
    "sites": ("tt", _COUNT), "groups": ("tt", _COUNT), "group_operations": ("t", _COUNT),
    "payload": ("t", _COUNT), "stored_bytes": ("t", _COUNT),
    "space": ("t", _COUNT), "time_ns": ("t", _FIGURE), "errors": ("t", _COUNT), "warnings": ("l", _TEXT),
    "params": ("t", _PLAIN), "cell": ("t", _PLAIN), "events": ("t", _TEXT), "intervals": ("tt", _PLAIN),
}  # fmt: skip
