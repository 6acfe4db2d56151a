"""Read results that a user names: a file, a folder of results, the folder of a sweep, or of `scmsim lab tlb`."""

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

from scmsim.core.errors import UsageError

if TYPE_CHECKING:
    from scmsim.result import Result


_MAX_HEAD = 1 << 20  # characters to read to recognise perf's output


def read_results(path: str, machines: Iterable[str] = ()) -> "Result":
    """Return the runs under a path as one result.

    For a folder of `scmsim lab tlb`, return the real kernel's runs; only runs on `machines`, if any are given.
    Raises UsageError for anything else.
    """
    from scmsim.result import read_all
    from scmsim.study.tlb import card
    from scmsim.study.tlb.results import measured
    from scmsim.sweep import table

    if card.is_card(path):
        return measured(card.read(path), machines)
    if path and table.is_sweep(path):
        return table.read(path)
    try:
        return read_all(path)
    except UsageError:
        _refuse_perf(path)
        raise


def _refuse_perf(path: str) -> None:
    """Raise UsageError, with the command to import the file, if it is the output of perf stat."""
    from scmsim.perf.parse import stat_kind

    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            kind = stat_kind(file.read(_MAX_HEAD))
    except OSError:
        return
    if kind:
        raise UsageError(
            f"{path!r} is the output of perf stat, not a result; make one with 'scmsim perf import {shlex.quote(path)} -o "
            "measured.json'"
        )
