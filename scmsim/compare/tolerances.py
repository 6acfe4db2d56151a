"""How far a simulated figure may be from a measured one, and why: the defaults of `scmsim compare`."""

from typing import NamedTuple


class Tolerance(NamedTuple):
    """Percent of the measured value, and the reason for that number."""

    percent: float
    reason: str


_STRUCTURE = "follows from the structure alone, nothing is fitted"
_COSTS = "the costs of code are fitted to one kernel; a call left out of the fit came within 5 %"
_WALKS = (
    "one walker and exact LRU in the model, interrupts and other code in the measurement; not yet checked against a PMU"
)
_CYCLES = "cycles of a walk depend on where the page tables are cached; an estimate in the model"

# Quantities that are judged unless others are asked for.  The figures behind the reasons are in docs/validation.md.
TOLERANCES: dict[str, Tolerance] = {
    "pm_stored_bytes": Tolerance(2, f"{_STRUCTURE}; all rows of the emulated machine are within 2 %"),
    "flushes": Tolerance(5, f"{_STRUCTURE}; all rows of the emulated machine are within 5 %"),
    "fences": Tolerance(5, _STRUCTURE),
    "tlb_traffic": Tolerance(10, _COSTS),
    "instructions": Tolerance(10, _COSTS),
    "mem_inst_retired_all_loads": Tolerance(15, f"{_COSTS}, loads and stores together"),
    "mem_inst_retired_all_stores": Tolerance(15, f"{_COSTS}, loads and stores together"),
    "walks_per_1000_instructions_data": Tolerance(30, _WALKS),
    "dtlb_load_misses_walk_completed": Tolerance(30, _WALKS),
    "dtlb_store_misses_walk_completed": Tolerance(30, _WALKS),
    "walks_per_1000_instructions_instruction": Tolerance(50, _WALKS),
    "itlb_misses_walk_completed": Tolerance(50, _WALKS),
    "cycles_per_walk_data": Tolerance(50, _CYCLES),
    "cycles_per_walk_instruction": Tolerance(50, _CYCLES),
    "walk_cycles_percent_data": Tolerance(50, f"{_CYCLES}, and so are all cycles"),
    "walk_cycles_percent_instruction": Tolerance(50, f"{_CYCLES}, and so are all cycles"),
}
