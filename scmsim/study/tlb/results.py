"""Convert the real kernel's side of a card to a measured result, for `scmsim compare` and reports."""

from collections.abc import Iterable, Mapping
from typing import Any

from scmsim.core.errors import UsageError
from scmsim.result import Result, Run
from scmsim.result.names import REPEAT
from scmsim.study.tlb import card

_EVENT = "address stream"  # name of the source of all counters


def measured(made: Mapping[str, Any], machines: Iterable[str] = ()) -> Result:
    """Return a result with a run for each file system and boot of a card, on the `machines` (default: all of the card).

    Raises UsageError if the card has none of the machines.
    """
    known = list(dict.fromkeys(cell["machine"] for cell in made["cells"]))
    chosen = [name for name in known if name in set(machines)] if machines else known
    if not chosen:
        raise UsageError(
            f"the card has {', '.join(known)}, not {', '.join(machines)}; add it with scmsim lab tlb --machine"
        )
    manifest = {**made["manifest"], "kernel": f"Linux {made['kernel']}"}
    cells = [cell for cell in made["cells"] if cell["machine"] in chosen]
    trace = made["manifest"].get("trace", {})
    return Result(
        manifest,
        [
            _run(cell, rows, trace, {REPEAT: boot} if cell.get("more_boots") else {})
            for cell in cells
            for boot, rows in enumerate((cell["real"], *cell.get("more_boots", ())), 1)
        ],
    )


def _run(cell: card.Cell, rows: list[dict[str, Any]], trace: Mapping[str, Any], repeat: Mapping[str, int]) -> Run:
    """Return the run of one stream: counts of loads and stores together, and the program's part of these counts."""
    both = {column: sum(row[column] for row in rows) for column in ("l1_misses", "walks")}
    program = {column: card.side(rows, "program", column) for column in ("stlb_hits", "walks")}
    counters = {
        "dtlb_l1_miss": both["l1_misses"],
        "dtlb_misses_walk_completed": both["walks"],
        "dtlb_user_misses_stlb_hit": program["stlb_hits"],
        "dtlb_user_misses_walk_completed": program["walks"],
    }
    matrix = trace.get("cell")
    about = {**(matrix if isinstance(matrix, dict) else {}), **repeat}
    events = dict.fromkeys(counters, _EVENT)
    return Run(cell["fs"], cell["machine"], calls=cell["calls"], counters=counters, cell=about, events=events).derive()
