"""Dependent loads of one line in each of N pages, measured on a real core, beside the MMU engine: where TLBs end, what misses cost.

Run: gcc -O2 -o core tests/verification/core.c && ./core CPUS > core.csv
     python -m tests.verification.core_pages [core.csv] [--machine emerald-rapids]

The measured cost of small pages is the difference of pages of 4 KiB and of the same lines on pages of 2 MiB, which cancels the data
caches.  The engine's is the cycles of its second-level hits and its page walks (`walk_pending`: the loads wait for each other, so
walks do not overlap), at the machine's clock, on the same order of pages.
"""

import argparse
import csv
import pathlib

import numpy as np

from scmsim import mmu
from scmsim.mmu.presets import timing

MEASURED = pathlib.Path(__file__).parent / "data/core_emerald_rapids.csv"
ROUNDS = 4  # the last is counted, less the ones before


def main() -> None:
    """Print a row for each number of pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=pathlib.Path, nargs="?", default=MEASURED)
    parser.add_argument("--machine", default="emerald-rapids")
    options = parser.parse_args()
    with options.file.open(encoding="utf-8") as lines:
        measured = {(row["what"], int(row["size"] or 0)): float(row["ns"]) for row in csv.DictReader(lines)}
    print(
        "| pages | 4 KiB, ns | 2 MiB, ns | difference | engine | L1 hits, % | STLB hits, % | walks, % |\n"
        + "|---" * 8 + "|"
    )  # fmt: skip
    for pages in (size for what, size in measured if what == "4k"):
        small, large = measured["4k", pages], measured["2m", pages]
        found = cost(pages, options.machine)
        shares = " | ".join(f"{100 * share:.0f}" for share in found[1:])
        print(f"| {pages:,} | {small:.1f} | {large:.1f} | {small - large:.1f} | {found[0]:.1f} | {shares} |")


def order(pages: int) -> np.ndarray:
    """Return the page numbers of the cycle that core.c makes."""
    found, state = np.arange(pages), 88172645463325252
    for k in range(pages - 1, 0, -1):
        for shift in (13, -7, 17):
            state ^= (state << shift if shift > 0 else state >> -shift) & (1 << 64) - 1
        other = state % k
        found[k], found[other] = found[other], found[k]
    return found


def cost(pages: int, machine: str) -> tuple[float, float, float, float]:
    """Return ns per load of the engine, and the shares of first-level hits, second-level hits and walks."""
    clock = timing(machine)
    addresses = np.tile(order(pages).astype(np.uint64) << 12, ROUNDS)
    last, before = (
        mmu.simulate(addresses[: rounds * pages], machine=machine, page="4KiB") for rounds in (ROUNDS, ROUNDS - 1)
    )
    hits, again, walks, cycles = (
        (last[f"dtlb_load_{name}"] - before[f"dtlb_load_{name}"]) / pages
        for name in ("l1_hit", "misses_stlb_hit", "misses_walk_completed", "misses_walk_pending")
    )
    return (again * clock["stlb_hit_cycles"] + cycles) / clock["ghz"], hits, again, walks


if __name__ == "__main__":
    main()
