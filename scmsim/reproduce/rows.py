"""Compare published rows with simulated rows: the table, the document of each row, and the verdicts.

Only rows with a falsifiable result get a verdict: rows of the kinds exact and derived, and of these only the columns that did
not set a cost of the model.  An exact row is met if the values are equal.  A derived row with the relation `about` or `equals` is
met within a factor of 1.25 and near within 2; to be met, a ratio's distance from 1 (its logarithm) must also be within a factor
of 2 of the published distance.  For `range`, the greatest value counts; `at_most`, which has no lower bound, gets no verdict.  A
value with the opposite sign, or a ratio on the other side of 1, is contradicted.  Of several columns, the worst one decides.

No verdict uses the 90 % intervals of `scmsim.result.intervals`, because a row is a ratio, a share, or a figure of a model and
kernel that were not measured, and because the intervals of time are derived from these documents.
"""

import csv
import functools
import itertools
import math
import pathlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from scmsim.core.errors import unknown
from scmsim.core.processes import processes
from scmsim.pipeline.arguments import Progress
from scmsim.pipeline.compile_ahead import compile_missing

DOCUMENTS = ("scmfs", "thesis", "vsm", "scm_manager")  # modules of this package
MET, NEAR = 1.25, 2.0  # factors of the verdicts; they claim no accuracy, since the table shows every ratio
FACTOR = f"a factor of {MET} (not checked)"

KINDS = {
    "exact": "the model computes it and it must be equal",
    "derived": "a prediction: nothing in the model was set by a row of this table",
    "calibrated": "a number was chosen after seeing a figure of this table; the note says which",
    "not comparable": "a formula or preset read back, a bound that no value can miss, or no model has it; the note says which",
}
VERDICTS = ("met", "near", "off", "contradicted")  # best first
INFORMATIVE = ("exact", "derived")  # kinds that the summary counts
CALLS = ("mkdir", "create", "open", "write", "read", "fsync", "stat", "readdir", "close", "unlink")  # compiled ahead
RATIOS = ("ratio",)  # units in which 1 means no difference

Number = int | float


class Published(NamedTuple):
    """A row of published.csv, whose fields are text."""

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
    """The simulated answer to a published row."""

    # a value; (least, greatest) for a range; or a value for each system if the published row lists several
    simulated: Number | tuple[Number, ...] | str | None
    kind: str = "derived"  # one of KINDS
    note: str = ""  # what was run, and why the value differs from the published one
    holds: bool | None = None  # for a trend: whether its direction is the published one
    set_by_row: tuple[int, ...] = ()  # columns that set a cost of the model, and therefore have no verdict
    # the simulated value including a cost that the document left out, which the note names
    with_cost: Number | None = None


def full_only(note: str, kind: str = "derived") -> Answer:
    """Return the answer to a row that --quick leaves out."""
    return Answer(None, kind, f"takes minutes: leave --quick out ({note})")


@dataclass(frozen=True)
class Row:
    """One published row with its answer."""

    published: Published
    answer: Answer
    document: str

    @property
    def reason(self) -> str:
        """Return one line on why the row is not met; "" if it is met or has no verdict."""
        return _module(self.document).REASONS.get(self.published.id, "") if self.verdict in VERDICTS[1:] else ""

    @property
    def published_numbers(self) -> list[float]:
        """Return the published value as numbers: several for a range or a list of systems, none for text."""
        return _numbers(self.published.value)

    @property
    def simulated_numbers(self) -> list[float]:
        """Return the answer as numbers; none for text."""
        return _listed(self.answer.simulated)

    @property
    def judged(self) -> list[tuple[float, float]]:
        """Return (simulated, published) for each column that did not set a cost; empty if the values cannot be paired."""
        ours, theirs = self.simulated_numbers, self.published_numbers
        if len(ours) != len(theirs) or self.published.relation == "range":
            return []
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [pair for i, pair in pairs if i not in self.answer.set_by_row]

    @property
    def ratio(self) -> float | None:
        """Return simulated / published, the geometric mean of several values; None without positive numbers."""
        pairs = self.judged
        if not pairs or any(ours <= 0 or theirs <= 0 for ours, theirs in pairs):
            return None
        return math.exp(sum(math.log(ours / theirs) for ours, theirs in pairs) / len(pairs))

    @property
    def verdict(self) -> str | None:
        """Return one of VERDICTS (see the module's docstring); None if the row has no verdict or was not run."""
        if self.answer.simulated is None or self.answer.kind not in INFORMATIVE:
            return None
        if self.answer.holds is not None:
            return "met" if self.answer.holds else "contradicted"
        if self.answer.kind == "exact":
            return "met" if self._equal() else "off"
        if self.published.relation == "range":
            low, high = self.published_numbers
            return self._within(low, high, max(self.simulated_numbers))
        if self.published.relation == "at_most":
            return None
        return max((self._about(*pair) for pair in self.judged), key=VERDICTS.index, default=None)

    @property
    def tolerance(self) -> str:
        """Return text on how far a row may be off and still be met; "" if the row has no verdict."""
        if not self.verdict:
            return ""
        if self.published.relation == "range":
            return "the published range"
        return "equal" if self.answer.kind == "exact" or self.answer.holds is not None else FACTOR

    @property
    def informative(self) -> bool:
        """Return whether the row has a verdict or would have one without --quick."""
        not_run = self.answer.simulated is None and self.answer.kind in INFORMATIVE
        return not_run or self.verdict is not None

    def _equal(self) -> bool:
        ours = self.answer.simulated
        theirs = self.published_numbers
        return _listed(ours) == theirs if theirs and not isinstance(ours, str) else ours == self.published.value

    def _within(self, low: Number, high: Number, ours: Number) -> str:
        if low <= ours <= high:
            return "met"
        return self._about(ours, low if ours < low else high, closest="near")

    def _about(self, ours: Number, theirs: Number, closest: str = "met") -> str:
        one = self.published.unit in RATIOS and theirs != 1
        distance = math.log(theirs) if one else theirs
        mine = (math.log(ours) if ours > 0 else -math.inf) if one else ours
        if mine * distance < 0:
            return "contradicted"
        if ours <= 0 or theirs <= 0:
            return "met" if ours == theirs else "off"
        factor = max(ours / theirs, theirs / ours)
        if factor <= MET and (not one or 1 / NEAR <= mine / distance <= NEAR):
            return closest
        return "near" if factor <= NEAR else "off"

    def as_dict(self) -> dict[str, object]:
        """Return the row as values that can be written as JSON."""
        p, ours = self.published, self.answer.simulated
        return {
            "id": p.id, "document": self.document, "kind": self.answer.kind, "published": p.value, "relation": p.relation,
            "unit": p.unit, "simulated": list(ours) if isinstance(ours, tuple) else ours, "with_cost": self.answer.with_cost,
            "ratio": self.ratio, "verdict": self.verdict, "tolerance": self.tolerance, "reason": self.reason,
            "system": p.system, "baseline": p.baseline, "workload": p.workload, "condition": p.condition, "metric": p.metric,
            "where": p.where, "note": self.answer.note,
        }  # fmt: skip


def published() -> list[Published]:
    """Return all rows of published.csv, in order."""
    with open(pathlib.Path(__file__).with_name("published.csv"), newline="", encoding="utf-8") as file:
        return [Published(*line) for line in list(csv.reader(file))[1:]]


def _module(document: str) -> Any:
    return import_module(f"scmsim.reproduce.{document}")


def titles() -> dict[str, str]:
    """Return the title of each document."""
    return {document: _module(document).TITLE for document in DOCUMENTS}


def summary(rows: Iterable[Row]) -> dict[str, int]:
    """Return the number of rows that can have a verdict, of those that were run, and of rows by verdict."""
    known = [row for row in rows if row.informative]
    counts = {verdict: sum(row.verdict == verdict for row in known) for verdict in VERDICTS}
    return {"rows_with_information": len(known), "run": sum(counts.values()), **counts}


def reproduce(
    wanted: Iterable[str] = (),
    quick: bool = True,
    jobs: int = 1,
    start: Callable[[], None] | None = None,
    progress: Progress = lambda *_: None,
) -> Iterator[Row]:
    """Yield the rows of the wanted ids or documents (all rows if none are given), in the order of the table.

    Parameters
    ----------
    wanted : ids such as "VSM-1", or documents: scmfs, thesis, vsm, scm_manager
    quick : bool
        Whether to use small workloads, in which rows that need gigabytes get no simulated value (`full_only`).
    jobs : int
        Number of processes, each of which runs some rows of a document at a time (`PARTS`); 1 means this process.
    start : callable, optional
        Called first in each process.
    progress : callable(what, done, total), optional
        Called when a row is finished, in any order of rows.

    Raises
    ------
    UsageError
        For an unknown id or document (the message names the nearest one).
    """
    chosen = _chosen(wanted)
    parts = [] if jobs == 1 else _parts(chosen)
    done = itertools.accumulate(itertools.repeat(1))

    def finished(part: int, _: object = None) -> None:
        for _ in range(part):
            progress("published rows", next(done), len(chosen))

    if len(parts) < 2:
        for row, document in chosen:
            yield answered(row, document, quick)
            finished(1)
        return
    with processes(min(jobs, len(parts)), start) as pool:
        found: dict[str, Future[dict[str, Row]]] = {}
        for part in parts:
            future = pool.submit(_answered, part, quick)
            future.add_done_callback(functools.partial(finished, len(part)))
            found |= dict.fromkeys((row.id for row, _ in part), future)
        for row, _ in chosen:
            yield found[row.id].result()[row.id]


def compile_ahead(wanted: Iterable[str], jobs: int, progress: Progress) -> None:
    """Compile, in at most `jobs` processes, the missing kernels for the rows of the wanted ids or documents."""
    modules = [_module(document) for document in dict.fromkeys(document for _, document in _chosen(wanted))]
    names = {name for module in modules for name in module.SYSTEMS}
    policies = {policy for module in modules for policy in module.POLICIES}
    compile_missing(names, policies, lambda: CALLS, jobs, progress)


def _chosen(wanted: Iterable[str]) -> list[tuple[Published, str]]:
    """Return the rows of the wanted ids or documents, each with its document, in the order of the table."""
    table = [(row, document) for row in published() for document in DOCUMENTS if _belongs(row, document)]
    names = set(wanted)
    for name in names:
        if name not in DOCUMENTS and name not in {row.id for row, _ in table}:
            raise unknown("published row or document", name, [*DOCUMENTS, *(row.id for row, _ in table)])
    return [pair for pair in table if not names or not names.isdisjoint((pair[0].id, pair[1]))]


def _parts(chosen: list[tuple[Published, str]]) -> list[list[tuple[Published, str]]]:
    """Divide the rows into independent pieces of work: first the slow PARTS, then the rest of each document."""
    left = {row.id: (row, document) for row, document in chosen}
    documents = dict.fromkeys(document for _, document in chosen)
    parts = [[left.pop(name) for name in part if name in left] for each in documents for part in _module(each).PARTS]
    parts += [[pair for pair in left.values() if pair[1] == document] for document in documents]
    return [part for part in parts if part]


def answered(row: Published, document: str, quick: bool) -> Row:
    """Return a row with its document's answer."""
    return Row(row, _module(document).ANSWERS[row.id](quick), document)


def _answered(part: list[tuple[Published, str]], quick: bool) -> dict[str, Row]:
    return {row.id: answered(row, document, quick) for row, document in part}


def _belongs(row: Published, document: str) -> bool:
    return bool(row.source in _module(document).SOURCES)


def _numbers(text: str) -> list[float]:
    """Return the numbers of a published value "1", "1..3" or "1 | 2 | 3"; none for text."""
    parts = text.split("..") if ".." in text else text.split("|")
    try:
        return [float(part) for part in parts]
    except ValueError:
        return []


def _listed(value: Number | tuple[Number, ...] | str | None) -> list[float]:
    if value is None or isinstance(value, str):
        return []
    return [float(each) for each in value] if isinstance(value, tuple) else [float(value)]
