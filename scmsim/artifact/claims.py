"""Check the claims of an artifact: compare each figure of the packed result with that of a second run, and give a verdict.

Figures that follow only from a model's structure and the trace are exact: a second run must give the same number.  Figures with a
tolerance of `scmsim compare` may differ by that tolerance.  Other figures have no tolerance: they are compared without a verdict.
A row of `scmsim reproduce` may differ by the factor at which a row is met, and must keep its verdict against the published value.
"""

import itertools
import json
import math
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from scmsim.compare import NEARLY_NOTHING
from scmsim.compare.tolerances import TOLERANCES
from scmsim.core.errors import UsageError
from scmsim.reproduce.rows import MET
from scmsim.result import Result
from scmsim.result.cells import grows
from scmsim.result.rows import rows_of
from scmsim.result.run import Run

EXACT, WITHIN, SHOWN = "exact", "tolerance", "shown"
EXACT_ROW, ROW = "exact row", "row"  # keys of claims in the index of a reproduction
VERDICTS = ("equal", "within", "out", "differs")  # "differs": a figure without a tolerance
# Figures that depend on neither a fitted cost nor a TLB; a name that ends in "_" means every name with this beginning.
_STRUCTURE = (
    "calls", "operations", "repeated", "touches", "payload_", "stored_bytes_", "space_", "errors_", "pm_stored_bytes",
    "nt_stored_bytes", "pm_loaded_bytes", "flushes", "fences", "lines_written_back", "media_bytes_", "write_amplification",
    "write_amplification_", "read_amplification", "cow_extra_ratio", "page_faults_", "mapped_bytes_",
)  # fmt: skip

Figure = int | float | str | None


class Claim(NamedTuple):
    """One figure of one run (or one published row): its basis, the packed and the found value, and one of VERDICTS.

    `percent` is the tolerance in percent of the packed value; None for a figure without a tolerance.
    """

    about: str
    quantity: str
    basis: str
    percent: float | None
    packed: Figure
    found: Figure
    verdict: str


class Figures(NamedTuple):
    """The figures of one run by quantity, and its number of calls (0 for a row of `reproduce`)."""

    about: str
    values: dict[str, Figure]
    calls: int


def basis(quantity: str) -> tuple[str, float | None]:
    """Return the basis of a quantity, and its tolerance in percent."""
    if any(quantity == name or name.endswith("_") and quantity.startswith(name) for name in _STRUCTURE):
        return EXACT, 0.0
    known = TOLERANCES.get(quantity)
    return (WITHIN, known.percent) if known else (SHOWN, None)


def of_reproduction() -> dict[str, list[Any]]:
    """Return [basis, tolerance in percent] of the rows of `scmsim reproduce`, as in the index."""
    return {EXACT_ROW: [EXACT, 0.0], ROW: [WITHIN, 100 * (MET - 1)]}


def of_result(result: Result) -> list[Figures]:
    """Return the figures of each run: those of its row, and those of its breakdown by site and group."""
    return [_of_run(run) for run in result.runs]


def _of_run(run: Run) -> Figures:
    values = _numbers(rows_of([run], "run")[0])
    for table in (run.sites, run.groups):
        values |= {f"{name}: {counter}": value for name, counts in table.items() for counter, value in counts.items()}
    return Figures(" ".join(name for name in run.names().values() if name), values, run.divisor)


def of_points(points: Iterable[tuple[str, Mapping[str, Any]]]) -> list[Figures]:
    """Return the figures of a sweep's points, given as (words, row)."""
    return [Figures(words, _numbers(row), int(row.get("calls", 0))) for words, row in points]


def _numbers(row: Mapping[str, Any]) -> dict[str, Figure]:
    return {
        name: value
        for name, value in row.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and not name.startswith("param_")
    }


def compared(packed: Iterable[Figures], found: Iterable[Figures], judged: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield a claim for each figure of each packed run; `judged` is the index's map of quantity -> [basis, percent]."""
    nothing = Figures("", {}, 0)
    for mine, other in itertools.zip_longest(packed, found, fillvalue=nothing):
        same_run = mine.about.split(" ")[0] == other.about.split(" ")[0]
        for name, value in mine.values.items():
            known, percent = judged.get(name, (SHOWN, None))
            new = other.values.get(name) if same_run else None
            verdict = _verdict(value, new, known, percent, mine.calls if grows(name) else 0)
            yield Claim(mine.about, name, known, percent, value, new, verdict)


def _verdict(packed: Figure, found: Figure, known: str, percent: float | None, calls: int) -> str:
    """Return the verdict of a figure; a figure that the second run lacks is "out", or "differs" if it has no tolerance."""
    if packed == found:
        return "equal"
    if known == SHOWN or percent is None:
        return "differs"
    if known == EXACT or not isinstance(found, int | float) or not isinstance(packed, int | float):
        return "out"
    off = abs(found - packed)
    tiny = calls > 0 and max(abs(found), abs(packed)) < NEARLY_NOTHING * calls
    return "within" if tiny or off <= abs(packed) * percent / 100 else "out"


def of_rows(
    packed: Iterable[Mapping[str, Any]], found: Iterable[Mapping[str, Any]], judged: Mapping[str, Any]
) -> Iterator[Claim]:
    """Yield a claim for each published row that was run; `judged` is from the index, as `of_reproduction` made it."""
    by_id = {row["id"]: row for row in found}
    for row in packed:
        if row["simulated"] is None:
            continue
        other = by_id.get(row["id"], {})
        known, percent = SHOWN, None
        if row["kind"] == "exact" or row["verdict"] is not None:
            known, percent = judged.get(EXACT_ROW if row["kind"] == "exact" else ROW, (WITHIN, None))
        new = other.get("simulated")
        verdict = _row_verdict(row, other, known, percent)
        about, quantity = f"{row['id']} {row['metric']}", f"{row['document']} row"
        yield Claim(about, quantity, known, percent, _told(row["simulated"]), _told(new), verdict)


def _row_verdict(row: Mapping[str, Any], other: Mapping[str, Any], known: str, percent: float | None) -> str:
    """Return the verdict of a row; a row with a tolerance must also keep its verdict against the published value."""
    mine, new = _listed(row["simulated"]), _listed(other.get("simulated"))
    if known == WITHIN and other.get("verdict") != row["verdict"]:
        return "out"
    if mine == new:
        return "equal"
    if known == WITHIN and (percent is None or isinstance(row["simulated"], str)):
        return (
            "within"  # an artifact of an earlier scmsim has no tolerance; of a trend in words the verdict is the claim
        )
    if len(mine) != len(new):
        return "differs" if known == SHOWN else "out"
    verdicts = [_verdict(*pair, known, percent, 0) for pair in zip(mine, new, strict=True)]
    return max(verdicts, key=("equal", "within", "differs", "out").index)


def _listed(value: Any) -> list[Figure]:
    return value if isinstance(value, list) else [value]


def _told(value: Any) -> Figure:
    return " | ".join(map(str, value)) if isinstance(value, list) else value


def off_percent(claim: Claim) -> float | None:
    """Return the difference in percent of the packed value; None if it cannot be computed."""
    packed, found = claim.packed, claim.found
    if not isinstance(packed, int | float) or not isinstance(found, int | float):
        return None
    return 100 * (found - packed) / abs(packed) if packed else math.copysign(math.inf, found) if found else 0.0


def load(path: pathlib.Path) -> Any:
    """Return the content of a JSON file of a run; raise UsageError if it is not JSON."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path.name!r} cannot be read: {error}; get the artifact again") from None
