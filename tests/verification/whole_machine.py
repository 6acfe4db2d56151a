"""TLB-1, -7 and -8 of the thesis with and without what else runs on a machine: the tables of docs/validation/reproduce.md.

Run: python -m tests.verification.whole_machine

TLB-1 is the range over three file systems and units of 1 KiB, 64 KiB and 4 MiB (64 MiB of appends, paging base-4k), the others are
the means over the three file systems.
"""

import pathlib
import tempfile
from typing import Any

import scmsim
from scmsim.reproduce.thesis import ALL, MACHINE, _metric
from scmsim.workload import filebench, microbench

SYSTEMS = ("alone", "thesis", "debian-6.1-kpti", "busy")
UNITS, TOTAL = (1 << 10, 64 << 10, 4 << 20), 64 << 20
PROGRAM_PAGES = (30, 100, 300, 1000, 1500)
BASE = pathlib.Path(scmsim.__file__).parent / "system" / "debian-6.1.toml"


def metrics(source: Any, name: str, **given: Any) -> list[float]:
    """A metric of each file system."""
    return [_metric(run, name) for run in scmsim.replay(source, ALL, MACHINE, **given).runs]


def misses(personality: str, **given: Any) -> float:
    """Mean of the misses a load or store, %."""
    found = metrics(filebench.Workload(personality=personality), "tlb_miss_percent", **given)
    return sum(found) / len(found)


def main() -> None:
    """Print the two tables, a line as soon as it is known."""
    for footprints in ("none", None):
        for system in SYSTEMS:
            given = {"system": system, "footprints": footprints}
            walks = [
                value
                for unit in UNITS
                for value in metrics(
                    microbench.Workload("append", unit, TOTAL), "walk_cycles_percent_data", paging="base-4k", **given
                )
            ]
            web, mail = (misses(personality, **given) for personality in ("webserver", "varmail"))
            name = ("footprints, " if footprints is None else "") + system
            print(f"| {name} | {min(walks):.4f} to {max(walks):.3f} | {web:.3f} | {mail:.3f} |", flush=True)
    text = BASE.read_text()
    for pages in PROGRAM_PAGES:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "system.toml"
            path.write_text(text.replace("program_pages = 3\n", f"program_pages = {pages}\n"))
            web, mail = (misses(personality, system=str(path)) for personality in ("webserver", "varmail"))
        print(f"| {pages} pages of the program | | {web:.3f} | {mail:.3f} |", flush=True)


if __name__ == "__main__":
    main()
