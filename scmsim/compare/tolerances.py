"""Define the tolerances of `scmsim compare`: how far a simulated figure may be from a measured one, and why.

A tolerance is the user's value, else the 90 % interval of a replay's figure, else the fixed value in TOLERANCES.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from scmsim.compare.scope import is_replay
from scmsim.result import Run, intervals

ALL = "all"  # key in the user's tolerances that means every counter
GIVEN, SAME, FIXED = "given", "two simulations", f"fixed ({intervals.UNCHECKED})"


class Tolerance(NamedTuple):
    """A tolerance in percent of the measured value, and the reason for it."""

    percent: float
    reason: str


_STRUCTURE = "follows from the structure alone, nothing is fitted"
_COSTS = "the costs of code are fitted to one kernel; a call left out of the fit came within 5 %"
_CARD = "of a real kernel's address stream in the same MMU, with footprints"
_MISSES = (
    f"67 of 75 cells are within 50 % {_CARD}; a real count changes by as much with the addresses of kernel objects"
)
_WALKS = f"60 of 60 cells are within 50 % {_CARD}, a second level of 256 entries left out"
_FETCHES = "the card leaves out instruction fetches; code is modelled by text page only"
_CYCLES = "cycles of a walk depend on where the page tables are cached; an estimate in the model"

# Quantities that are compared by default.  docs/validation/README.md has the figures that support the reasons.
TOLERANCES: dict[str, Tolerance] = {
    "pm_stored_bytes": Tolerance(2, f"{_STRUCTURE}; all rows of the emulated machine are within 2 %"),
    "flushes": Tolerance(5, f"{_STRUCTURE}; all rows of the emulated machine are within 5 %"),
    "fences": Tolerance(5, _STRUCTURE),
    "tlb_traffic": Tolerance(10, _COSTS),
    "instructions": Tolerance(10, _COSTS),
    "mem_inst_retired_all_loads": Tolerance(15, f"{_COSTS}, loads and stores together"),
    "mem_inst_retired_all_stores": Tolerance(15, f"{_COSTS}, loads and stores together"),
    "dtlb_kernel_l1_misses": Tolerance(50, _MISSES),
    "dtlb_kernel_walks": Tolerance(50, _WALKS),
    "walks_per_1000_instructions_data": Tolerance(50, _WALKS),
    "dtlb_load_misses_walk_completed": Tolerance(50, f"{_WALKS}; loads and stores together"),
    "dtlb_store_misses_walk_completed": Tolerance(50, f"{_WALKS}; loads and stores together"),
    "walks_per_1000_instructions_instruction": Tolerance(50, _FETCHES),
    "itlb_misses_walk_completed": Tolerance(50, _FETCHES),
    "cycles_per_walk_data": Tolerance(50, _CYCLES),
    "cycles_per_walk_instruction": Tolerance(50, _CYCLES),
    "walk_cycles_percent_data": Tolerance(50, f"{_CYCLES}, and so are all cycles"),
    "walk_cycles_percent_instruction": Tolerance(50, f"{_CYCLES}, and so are all cycles"),
}


class Limit(NamedTuple):
    """The tolerance of a row, and its basis: GIVEN, SAME, FIXED, or a text on the measured cells that an interval is based on.

    The tolerance is a percentage of the second value, or the least and the greatest allowed ratio of the first to the second.
    """

    percent: float | None
    basis: str
    ratios: tuple[float, float] | None = None

    def holds(self, first: float, second: float) -> bool:
        """Return whether two values are within the tolerance."""
        if self.ratios:
            return self.ratios[0] * second <= first <= self.ratios[1] * second
        return abs(first - second) <= abs(second) * (self.percent or 0) / 100


def limits_of(wanted: Iterable[str], given: Mapping[str, float], exact: bool) -> dict[str, Limit]:
    """Return the tolerance of each quantity that has one: as given, as given for ALL, or as fixed in TOLERANCES.

    `exact`: whether both sides are simulations; these are deterministic, so the default is 0.
    """
    found = {name: Limit(tolerance.percent, FIXED) for name, tolerance in TOLERANCES.items()}
    if exact or ALL in given:
        found = dict.fromkeys(wanted, Limit(given[ALL], GIVEN) if ALL in given else Limit(0.0, SAME))
    return {**found, **{name: Limit(percent, GIVEN) for name, percent in given.items() if name != ALL}}


def of_interval(first: Iterable[Run], second: Iterable[Run], name: str) -> Limit | None:
    """Return the widest 90 % interval of a quantity among one side's replays as a tolerance; None if a replay has none."""
    for runs, is_first in ((first, True), (second, False)):
        found = [_span(run, name) for run in runs if is_replay(run)]
        spans = [span for span in found if span]
        if spans and len(spans) == len(found):
            least, most, basis = max(spans, key=lambda span: span[1] / span[0])
            return Limit(None, basis, (1 / most, 1 / least) if is_first else (least, most))
    return None


def _span(run: Run, name: str) -> tuple[float, float, str] | None:
    """Return the lower and upper bounds of a replay's figure, as fractions of the figure, and their basis; None without bounds."""
    found, value = run.intervals.get(name, {}), intervals.figure(run, name)
    return (found["low"] / value, found["high"] / value, found["basis"]) if found.get("low") and value else None
