"""A made-up result with the thesis' matrix: smooth counters of three file systems, with noise over the repeats."""

import itertools
import random
from collections.abc import Sequence

from scmsim.perf.importer import FILE_SIZES, OPERATIONS, UNITS
from scmsim.result import Result, Run

SYSTEMS = ("ext4", "ext4-dax", "nova-cow")


def matrix(
    systems: Sequence[str] = SYSTEMS,
    files: Sequence[int] = FILE_SIZES,
    units: Sequence[int] = UNITS,
    operations: Sequence[str] = OPERATIONS,
    repeats: int = 1,
    noise: float = 0.0,
    factor: float = 1.0,
    seed: int = 1,
) -> Result:
    """Counters of every cell; `factor` multiplies all of them, `noise` is the relative deviation of a repeat."""
    draw = random.Random(seed)
    runs = []
    cells = itertools.product(enumerate(systems, 1), files, units, operations, range(1, repeats + 1))
    for (which, fs), file_bytes, unit, operation, repeat in cells:
        calls = max(1, (64 << 20) // unit)
        instructions = calls * (1500 * which + unit / 8)
        walks = calls * (0.4 * which + unit / 4096 / 7) * (1 + file_bytes / (1 << 28))
        counts = {
            "instructions": instructions,
            "cycles": 1.4 * instructions + 30 * walks,
            "mem_inst_retired_all_loads": 0.3 * instructions,
            "mem_inst_retired_all_stores": 0.2 * instructions,
            "dtlb_load_misses_walk_completed": 0.6 * walks,
            "dtlb_store_misses_walk_completed": 0.4 * walks,
            "dtlb_load_misses_walk_pending": 17 * walks,
            "dtlb_store_misses_walk_pending": 13 * walks,
            "dtlb_load_misses_walk_active": 15 * walks,
            "dtlb_store_misses_walk_active": 12 * walks,
            "itlb_misses_walk_completed": 0.02 * calls * which,
            "itlb_misses_walk_pending": 0.5 * calls * which,
            "itlb_misses_walk_active": 0.45 * calls * which,
            "l1d_replacement": calls * unit / 64,
            "mem_load_retired_l2_miss": calls * unit / 128,
            "mem_load_retired_l3_miss": calls * unit / 500 / which,
        }
        noisy = {name: max(1, round(factor * value * draw.gauss(1, noise))) for name, value in counts.items()}
        run = Run(fs, calls=calls, counters=noisy)
        run.cell = {"operation": operation, "file_bytes": file_bytes, "unit_bytes": unit, "repeat": repeat}
        runs.append(run)
    return Result({"kernel": "Linux 5.13.13", "harness": {"backend": "fake", "table": "skylake"}}, runs)
