"""Published rows beside simulated ones: the table, who answers for a row, and the verdict.

Verdicts are by relation: `equals` of an exact row wants the same value; a trend wants the direction; `about` wants a ratio on the
same side of 1 and a value within a factor of 2; `range` wants an overlap; `at_most` a value that is not above.  The factor of 2 is
no claim of accuracy: the table shows every ratio.
"""

import csv
import math
import pathlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import NamedTuple

from scmsim.core.errors import unknown
from scmsim.sweep.executors import processes

DOCUMENTS = ("scmfs", "thesis", "vsm", "scm_manager")  # modules of this room
FACTOR = 2.0  # within which an `about` counts as met

KINDS = {
    "exact": "follows from the structure and must be equal",
    "derived": "a prediction: nothing in the model was set by this row",
    "calibrated": "a constant was set by a part of this table that the note names",
    "not reproduced": "the note says why",
    "full only": "takes minutes: left out by --quick",
}

Number = int | float


class Published(NamedTuple):
    """A row of published.csv as text."""

    id: str
    source: str
    where: str
    system: str
    baseline: str
    workload: str
    condition: str
    metric: str
    relation: str
    value: str
    unit: str
    nature: str
    note: str


@dataclass(frozen=True)
class Answer:
    """What the models say.

    Attributes
    ----------
    simulated : number, tuple of numbers, text or None
        A single value; (least, greatest) for a range; one value a system where the published row lists several.
    kind : str
        One of KINDS.
    note : str
        What was run, and why it differs if it does.
    holds : bool or None
        For a trend: whether the direction is the published one.
    """

    simulated: Number | tuple[Number, ...] | str | None
    kind: str = "derived"
    note: str = ""
    holds: bool | None = None


NONE = Answer(None, "not reproduced", "no model of this package speaks of it")


@dataclass(frozen=True)
class Row:
    """One published row with its answer."""

    published: Published
    answer: Answer
    document: str

    @property
    def published_numbers(self) -> list[float]:
        """The published value as numbers: several for a range or a list of systems, none for words."""
        return _numbers(self.published.value)

    @property
    def simulated_numbers(self) -> list[float]:
        """The answer as numbers, none for words."""
        return _listed(self.answer.simulated)

    @property
    def ratio(self) -> float | None:
        """Simulated over published; the geometric mean where the row lists several values, None where it has no number."""
        sides = [self.published_numbers, self.simulated_numbers]
        if not sides[0] or len(sides[0]) != len(sides[1]) or self.published.relation == "range":
            return None
        pairs = [(ours, theirs) for theirs, ours in zip(*sides, strict=True) if theirs > 0 and ours > 0]
        if len(pairs) < len(sides[0]):
            return None
        return math.exp(sum(math.log(ours / theirs) for ours, theirs in pairs) / len(pairs))

    @property
    def ok(self) -> bool | None:
        """The verdict (see the module's text); None where there is nothing to judge."""
        ours, theirs = self.answer.simulated, self.published_numbers
        if self.answer.holds is not None:
            return self.answer.holds
        if ours is None or self.answer.kind in ("not reproduced", "full only"):
            return None
        if self.answer.kind == "exact":
            return _listed(ours) == theirs if theirs and not isinstance(ours, str) else ours == self.published.value
        if isinstance(ours, str) or not theirs:
            return None
        if self.published.relation == "range":
            return min(_listed(ours)) <= theirs[-1] and max(_listed(ours)) >= theirs[0]
        if self.published.relation == "at_most":
            return max(_listed(ours)) <= theirs[0]
        return all(map(self._near, _listed(ours), theirs))

    def _near(self, ours: Number, theirs: Number) -> bool:
        if ours <= 0 or theirs <= 0:
            return ours == theirs
        sided = self.published.unit == "ratio" and theirs != 1
        same_side = not sided or (ours > 1) == (theirs > 1)
        return same_side and 1 / FACTOR <= ours / theirs <= FACTOR

    def as_dict(self) -> dict[str, object]:
        """For JSON: id, document, kind, published, simulated, ratio, ok, note and what the row is about."""
        p, ours = self.published, self.answer.simulated
        return {
            "id": p.id, "document": self.document, "kind": self.answer.kind, "published": p.value, "relation": p.relation,
            "unit": p.unit, "simulated": list(ours) if isinstance(ours, tuple) else ours, "ratio": self.ratio, "ok": self.ok,
            "system": p.system, "baseline": p.baseline, "workload": p.workload, "condition": p.condition, "metric": p.metric,
            "where": p.where, "note": self.answer.note,
        }  # fmt: skip


def published() -> list[Published]:
    """All rows of published.csv, in its order."""
    with open(pathlib.Path(__file__).with_name("published.csv"), newline="", encoding="utf-8") as file:
        return [Published(*line) for line in list(csv.reader(file))[1:]]


@cache
def _answers(document: str) -> dict[str, Callable[[bool], Answer]]:
    answers: dict[str, Callable[[bool], Answer]] = import_module(f"scmsim.reproduce.{document}").ANSWERS
    return answers


def titles() -> dict[str, str]:
    """Document -> its title."""
    return {document: import_module(f"scmsim.reproduce.{document}").TITLE for document in DOCUMENTS}


def reproduce(
    wanted: Iterable[str] = (), quick: bool = True, jobs: int = 1, start: Callable[[], None] | None = None
) -> Iterator[Row]:
    """Yield the rows of the wanted ids or documents (none: all), in the order of the table.

    Parameters
    ----------
    wanted : ids such as "VSM-1", or documents: scmfs, thesis, vsm, scm_manager
    quick : bool
        Small workloads; rows that need gigabytes say "full only".
    jobs : int
        Processes, each with a document at a time; 1: this process.
    start : callable, optional
        What each of these processes calls first.

    Raises
    ------
    UsageError
        For an id or a document that is not there (the nearest is named).
    """
    table = [(row, document) for row in published() for document in DOCUMENTS if _belongs(row, document)]
    names = set(wanted)
    for name in names:
        if name not in DOCUMENTS and name not in {row.id for row, _ in table}:
            raise unknown("published row or document", name, [*DOCUMENTS, *(row.id for row, _ in table)])
    chosen: dict[str, list[Published]] = {}
    for row, document in table:
        if not names or row.id in names or document in names:
            chosen.setdefault(document, []).append(row)
    if jobs == 1 or len(chosen) == 1:
        for document, rows in chosen.items():
            yield from (answered(row, document, quick) for row in rows)
        return
    with processes(min(jobs, len(chosen)), start) as pool:
        for found in [pool.submit(_document, rows, document, quick) for document, rows in chosen.items()]:
            yield from found.result()


def answered(row: Published, document: str, quick: bool) -> Row:
    """A row with its document's answer."""
    return Row(row, _answers(document).get(row.id, lambda quick: NONE)(quick), document)


def _document(rows: list[Published], document: str, quick: bool) -> list[Row]:
    return [answered(row, document, quick) for row in rows]


def _belongs(row: Published, document: str) -> bool:
    return row.source in import_module(f"scmsim.reproduce.{document}").SOURCES


def _numbers(text: str) -> list[float]:
    """The numbers of a published value: one, "1..3", or "1 | 2 | 3"; none where it is words."""
    parts = text.split("..") if ".." in text else text.split("|")
    try:
        return [float(part) for part in parts]
    except ValueError:
        return []


def _listed(value: Number | tuple[Number, ...] | str | None) -> list[float]:
    if value is None or isinstance(value, str):
        return []
    return [float(each) for each in value] if isinstance(value, tuple) else [float(value)]
