"""Cost tables: instructions, loads and stores of code whose data structures are not modelled, from a TOML file with sources.

Each table of a family's `costs/NAME.toml` is one cost: `site`, `instructions`, `loads`, `stores` (per unit, without rep-strings),
`per` (the unit), `kind` (one of `KINDS`) and `source`.
"""

import contextlib
import functools
import logging
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from scmsim.core import toml
from scmsim.core.records import MILLI
from scmsim.core.schema import named, number, one_of, table, text

_LOG = logging.getLogger("scmsim")
_FOLDER = pathlib.Path(__file__).parents[1]  # parent of the families' folders
KINDS = ("measured", "fitted", "derived", "estimate")
COLUMNS = ("instructions", "loads", "stores")
COST = table(
    {
        **dict.fromkeys(COLUMNS, number(0, 1e9)),
        "site": text,
        "per": text,
        "kind": one_of("kind", KINDS),
        "source": text,
    },
    COLUMNS,
)
TABLE = named(COST)

Change = Callable[[str, dict[str, Any]], dict[str, Any]]  # (name of a cost table, the table) -> the table to use
_changes: list[Change] = []


@contextlib.contextmanager
def changed(change: Change) -> Iterator[None]:
    """Make models use `change(name, table)` in place of each cost table: the costs of another kernel or a calibration."""
    _changes.append(change)
    try:
        yield
    finally:
        _changes.remove(change)


@functools.cache
def _file(name: str) -> pathlib.Path:
    """Return the file of a cost table; cached because a search of the families' folders takes 1 ms."""
    (file,) = _FOLDER.rglob(f"{name}.toml")
    return file


def load(name: str, costs: Sequence[str], sites: Sequence[str]) -> np.ndarray:
    """Return int64 rows (instructions, loads, stores in thousandths, site index) of the named costs, in the given order."""
    file = _file(name)
    _LOG.debug("costs: %s", file)
    _, found = toml.read(file)
    for change in _changes:
        found = change(name, found)
    rows = np.zeros((len(costs), 4), np.int64)
    for i, cost in enumerate(costs):
        entry = found[cost]
        rows[i, :3] = [round(entry[field] * MILLI) for field in COLUMNS]
        rows[i, 3] = list(sites).index(entry["site"])
    return rows
