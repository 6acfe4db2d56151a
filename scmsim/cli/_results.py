"""Reading what a user names as results: a file, a folder of results, the folder of a sweep, or the judge's."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scmsim.result import Result


def read_results(path: str, machines: Iterable[str] = ()) -> "Result":
    """The runs under a path as one result; of a judge's folder the real kernel's side, on one of `machines` if any are given.

    Raises UsageError for anything else.
    """
    from scmsim.result import read_all
    from scmsim.study.tlb import card
    from scmsim.study.tlb.results import measured
    from scmsim.sweep import table

    if card.is_card(path):
        return measured(card.read(path), machines)
    return table.read(path) if path and table.is_sweep(path) else read_all(path)
