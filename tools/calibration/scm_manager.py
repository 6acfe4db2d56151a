"""Derive fs/scm_manager/costs/{scm-manager,fat-scm,ext2-scm}.toml: cycles per unit of work on the paper's 400 MHz board.

Each fitted cost is the one unknown of one published figure (FITS); the model gives the rest.  tests/verification/scm_manager.py
compares the figures that are not in FITS.  The paper counts no instructions: a cost of c cycles is written as c instructions,
which the board's preset runs at one per cycle, with the loads and stores of an empty system call (0.3 and 0.2 per instruction).
"""

import tomllib

from scmsim.fs.engine import costs
from scmsim.fs.scm_manager.templates import COSTS
from scmsim.reproduce import scm_manager as cells
from tools.calibration import tables
from tools.calibration.tables import Cost

LOADS, STORES = 0.3, 0.2
SYSTEMS = ("scm-manager", "fat-scm", "ext2-scm")
ALL = SYSTEMS

# cost, system whose published figure is met, operation, size, systems that get the value, row of the figure
FITS = (
    ("call", "scm-manager", "close", 512, ALL, "SCMM-17"),
    ("close", "fat-nand", "close", 512, ("fat-scm", "ext2-scm"), "SCMM-17"),
    ("malloc", "scm-manager", "malloc", 512, ALL, "SCMM-1"),
    ("free", "scm-manager", "free", 512, ALL, "SCMM-2"),
    ("open", "scm-manager", "open", 512, ("scm-manager",), "SCMM-10"),
    ("open", "fat-nand", "open", 512, ("fat-scm",), "SCMM-10"),
    ("open", "ext2-scm", "open", 512, ("ext2-scm",), "SCMM-10"),
    ("unit", "scm-manager", "write", 512, ALL, "SCMM-11"),
    ("request", "ext2-scm", "write", 512, ALL, "SCMM-11"),
    ("read_in", "fat-scm", "read", 1024, ALL, "SCMM-15"),
)
SITE = {
    "call": ("syscall", "any call"), "open": ("namespace", "open()"), "create": ("namespace", "create()"),
    "close": ("syscall", "close()"), "unlink": ("namespace", "unlink()"), "rename": ("namespace", "rename() or link()"),
    "stat": ("namespace", "stat()"), "truncate": ("namespace", "truncate()"), "sync": ("fsync", "fsync()"),
    "name": ("directory scan", "name compared"), "unit": ("data copy", "unit of a read or write"),
    "load_word": ("data copy", "word loaded from SDRAM"), "store_word": ("data copy", "word stored to SDRAM"),
    "request": ("write-back", "request to write to the block driver"), "read_in": ("read-in", "request to read from the block driver"),
    "take_unit": ("allocation", "unit allocated"), "free_unit": ("allocation", "unit freed"), "hop": ("chain walk", "unit passed"),
    "malloc": ("memory object", "malloc()"), "free": ("memory object", "free()"), "convert": ("conversion", "conversion"),
    "nand_read": ("nftl", "page read from the array"), "nand_program": ("nftl", "page programmed"),
    "nand_erase": ("nftl", "unit erased"),
}  # fmt: skip
BUS = "SCMM-{0} (baseline, SDRAM): a word of {1} ns, see medium/sdram.toml, less one instruction"
NAND = "Samsung K9F1208 data sheet: {}, polled (Linux nand_base.c, nand_wait)"
FIXED = {
    "load_word": (78.7 * 0.4 - 1, "fitted", BUS.format(8, "35 + 43.7")),
    "store_word": (53.1 * 0.4 - 1, "fitted", BUS.format(5, "35 + 18.1")),
    "close": (0, "estimate", "nothing in addition to the call, which this row determined"),
    "sync": (0, "estimate", "estimate: nothing in addition to the call and the write-back"),
    "name": (60, "estimate", "estimate: a comparison, as PMFS's match_entry"),
    "hop": (10, "estimate", "estimate: a load and a comparison, in addition to the load of the entry"),
    "convert": (1000, "estimate", "estimate: a descriptor, in addition to the metadata object, the name and the chain"),
    "nand_read": (6000, "estimate", NAND.format("15 us")),
    "nand_program": (80000, "estimate", NAND.format("200 us")),
    "nand_erase": (800000, "estimate", NAND.format("2 ms")),
}
# On Linux 5.13's ext2 a create takes 18,421 instructions and an open 4,736 (costs/ext2-dax-5.13.toml); ext2's open takes 8,100
# cycles here (SCMM-10).  So the work of a create besides the lookup of its path takes this many cycles.
NEW_FILE = (18_421 - 4_736) * 8_100 / 4_736
SAME = {  # costs equal to another cost of the same system
    "unlink": ("open", "a path is looked up"), "rename": ("open", "a path is looked up"),
    "stat": ("open", "a path is looked up"), "truncate": ("open", "a path is looked up"),
}  # fmt: skip
UNITS = {"take_unit": "malloc", "free_unit": "free"}  # equal for the SCM manager: both use the buddy system
BLOCK_UNIT = 400


def derived(values: dict[str, dict[str, float]]) -> None:
    """Fill in the costs that follow from other costs."""
    for system in SYSTEMS:
        for cost, (other, _) in SAME.items():
            values[system][cost] = values[system][other]
        values[system]["create"] = values[system]["open"] + (0 if system == "scm-manager" else NEW_FILE)
        for cost, other in UNITS.items():
            values[system][cost] = values[system][other] if system == "scm-manager" else BLOCK_UNIT


def origin(system: str, cost: str) -> tuple[str, str]:
    """Return kind and source of a cost."""
    for name, cell, op, size, systems, row in FITS:
        if name == cost and system in systems:
            return "fitted", f"{row}, {cell}: {op} of {size} bytes, less what the model charges separately"
    if cost == "create":
        more = "" if system == "scm-manager" else ", and what 5.13's ext2 does in addition, in cycles of this board"
        return "estimate", f"estimate: as open, a path is looked up{more}"
    if cost in SAME:
        return "estimate", f"estimate: as {SAME[cost][0]}, {SAME[cost][1]}"
    if cost in UNITS:
        if system == "scm-manager":
            return "estimate", f"as {UNITS[cost]}: a data object comes from the same buddy system"
        return "estimate", "estimate: a search in a buffer and its change"
    return FIXED[cost][1:]


def table(system: str, values: dict[str, float]) -> str:
    """Return the cost table of one system."""
    head = (
        f"# Costs of {system} on the board of the SCM manager paper (XScale, 400 MHz), in cycles, each counted as one instruction.\n"
        "# Derived by tools/calibration/scm_manager.py; published figures in scmsim/reproduce/published.csv.\n"
    )
    found = {}
    for cost in COSTS:
        share = (0, 0) if cost in ("load_word", "store_word") else (LOADS * values[cost], STORES * values[cost])
        found[cost] = Cost((values[cost], *share), *SITE[cost], *origin(system, cost))
    return tables.text(head, found, "{:.4g}".format)


def simulated(values: dict[str, dict[str, float]], cell: str, op: str, size: int) -> float:
    """Return the simulated time of one figure with these costs, us."""

    def change(name, found):
        return tomllib.loads(table(name, values[name])) if name in values else found

    with costs.changed(change):
        cells.micro.cache_clear()
        return cells.micro(cell, size)[op]


def derive() -> dict[str, str]:
    """Return all cost tables; the costs of FITS are fitted one after the other."""
    start = {cost: fixed[0] for cost, fixed in FIXED.items()}
    values = {system: dict.fromkeys(COSTS, 0.0) | start for system in SYSTEMS}
    for cost, cell, op, size, systems, row in FITS:
        figures = cells.values(row)
        target = figures[cells.COLUMNS.index(cell) if len(figures) > 1 else 0]
        found = []
        for trial in (0, 10_000):
            for system in systems:
                values[system][cost] = trial
            derived(values)
            found.append(simulated(values, cell, op, size))
        value = max((target - found[0]) / (found[1] - found[0]) * 10_000, 0)
        for system in systems:
            values[system][cost] = value
        derived(values)
        figure = f"{cost:10s} {row:8s} {cell:12s} {op:7s} {size:5d}"
        print(f"{figure}  published {target:8.2f}  without {found[0]:8.2f} us  {value:10.1f} cycles")
    return {f"scm_manager/{system}": table(system, values[system]) for system in SYSTEMS}
