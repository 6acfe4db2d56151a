"""Estimated times beside those of a real Optane machine: random overwrites and reads of one thread; two points are fitted.

Run: python -m tests.verification.latency
Published: Yang et al., An Empirical Guide to the Behavior and Use of Scalable Persistent Memory, FAST 2020; the numbers stand in
github.com/NVSL/OptaneStudy, graphs/11-nova_datalog.csv (microseconds; Linux 4.13, Cascade Lake at 2.2 GHz, six modules each CPU).
"NOVA" copies on write, "NOVA-relaxed" writes in place.  Here: skylake-sp, the nearest preset, and one module.
"""

from typing import cast

import scmsim
from scmsim.core.records import Source
from scmsim.workload import pattern

MACHINE, MEDIUM, CALLS = "skylake-sp", "optane", 4000
FILE = 1 << 30
PUBLISHED = {  # (model, operation, bytes): microseconds
    ("ext4-dax", "overwrite", 64): 2.484,
    ("ext4-dax", "overwrite", 256): 3.029,
    ("ext4-dax", "read", 4096): 1.568,
    ("nova-inplace", "overwrite", 64): 2.89,
    ("nova-inplace", "overwrite", 256): 3.498,
    ("nova-inplace", "read", 4096): 1.325,
    ("nova-cow", "overwrite", 64): 8.95,
    ("nova-cow", "overwrite", 256): 9.542,
    ("nova-cow", "read", 4096): 1.362,
}


def terms(fs: str, op: str, unit: int) -> dict[str, float]:
    """Microseconds of a call by term."""
    work = pattern.Workload(op=op, unit=unit, order="random", file_size=FILE, calls=CALLS)
    run = scmsim.replay(cast(Source, work), fs, MACHINE, medium=MEDIUM).runs[0]
    return {name: ns / run.calls / 1000 for name, ns in run.time_ns.items()}


def main() -> None:
    """Print published and simulated, their ratio and the largest terms."""
    print(
        "| model | operation | bytes | published, us | simulated, us | ratio | largest terms, us |\n" + "|---" * 7 + "|"
    )
    for (fs, op, unit), there in PUBLISHED.items():
        found = terms(fs, op, unit)
        here = sum(found.values())
        largest = ", ".join(f"{name} {found[name]:.2f}" for name in sorted(found, key=lambda n: -found[n])[:4])
        print(f"| {fs} | {op} | {unit} | {there} | {here:.2f} | {here / there:.2f} | {largest} |", flush=True)


if __name__ == "__main__":
    main()
