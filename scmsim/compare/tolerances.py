"""Default tolerances of `scmsim compare`: how far a simulated figure may be from a measured one, and why."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

ALL = "all"  # in the user's tolerances: every counter


class Tolerance(NamedTuple):
    """A tolerance in percent of the measured value, and the reason for it."""

    percent: float
    reason: str


_STRUCTURE = "follows from the structure alone, nothing is fitted"
_COSTS = "the costs of code are fitted to one kernel; a call left out of the fit came within 5 %"
_CARD = "of a real kernel's address stream in the same MMU, with footprints"
_MISSES = f"67 of 75 cells are within 50 % {_CARD}; where objects lie moves a real count by as much"
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


def limits_of(wanted: Iterable[str], given: Mapping[str, float], exact: bool) -> dict[str, float]:
    """Return the tolerance of each quantity that has one, in percent: as given, as given for ALL, or the default.

    `exact`: both sides are simulations, which are deterministic, so the default is 0.
    """
    defaults = {name: tolerance.percent for name, tolerance in TOLERANCES.items()}
    if exact or ALL in given:
        defaults = dict.fromkeys(wanted, given.get(ALL, 0.0))
    return {**defaults, **{name: percent for name, percent in given.items() if name != ALL}}
