"""Compare the zoo's file systems with the file system BESIDE by median ratios over the entries that both replayed whole."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scmsim.zoo import Row

BESIDE = "ext4-dax"
SORTED_BY = "loads + stores a call"
COLUMNS = (SORTED_BY, "stored / written", "ns a call")


@dataclass(frozen=True)
class Ratios:
    """A file system's median ratios to BESIDE, in the order of COLUMNS; None if there is no ratio."""

    fs: str
    medians: Sequence[float | None]
    time_class: str


def compared(rows: Sequence[Row]) -> list[Ratios]:
    """Return the file systems' median ratios to BESIDE, those with the fewest loads and stores first.

    The list is empty if BESIDE has no rows.  A file system that runs only some of the entries is left out, because its medians
    would be over fewer entries.
    """
    entries = {row.entry for row in rows}
    base = {row.entry: row.figures for row in rows if row.fs == BESIDE and row.whole}
    found = []
    for fs in dict.fromkeys(row.fs for row in rows):
        own = [row for row in rows if row.fs == fs and row.entry in base and row.whole]
        medians = []
        for column in COLUMNS:
            pairs = [(row.figures[column], base[row.entry][column]) for row in own]
            ratios = [mine / other for mine, other in pairs if mine is not None and other]
            medians.append(statistics.median(ratios) if ratios else None)
        if own and {row.entry for row in rows if row.fs == fs} == entries:
            found.append(Ratios(fs, medians, own[0].time_class))
    return sorted(found, key=lambda each: (each.medians[0] is None, each.medians[0] or 0, each.fs))


def ranked(rows: Sequence[Row]) -> list[Row]:
    """Return rows by loads and stores, fewest first; rows of incomplete replays come last."""

    def place(row: Row) -> tuple[bool, bool, float, str]:
        value = row.figures[SORTED_BY]
        return not row.whole, value is None, value or 0, row.fs

    return sorted(rows, key=place)
