"""Cost tables: instructions, loads and stores of code that has no data structure of its own, from a TOML file with sources.

Each table of `fs/costs/NAME.toml` is one cost: `site`, `instructions`, `loads`, `stores` (per unit, rep-strings left out),
`per` (what the unit is), `kind` ("measured" or "fitted") and `source`.
"""

import pathlib
import tomllib
from collections.abc import Sequence

import numpy as np

from scmsim.records import MILLI

_FOLDER = pathlib.Path(__file__).parent.parent / "costs"


def load(name: str, costs: Sequence[str], sites: Sequence[str]) -> np.ndarray:
    """Rows (instructions, loads, stores in thousandths, site index) int64 of the named costs, in the order given."""
    table = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    rows = np.zeros((len(costs), 4), np.int64)
    for i, cost in enumerate(costs):
        entry = table[cost]
        rows[i, :3] = [round(entry[field] * MILLI) for field in ("instructions", "loads", "stores")]
        rows[i, 3] = list(sites).index(entry["site"])
    return rows
