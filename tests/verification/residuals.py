"""Every measured cell of a call on data beside the model's figure, as the table `scmsim/result/residuals.csv`.

    python -m tests.verification.residuals    # writes the table again

A figure is `predicted` if no cost was fitted to its cell, else `fitted`; bytes stored and write-backs follow from the structure and
are always predicted.  Units held out of a fit: xfs-dax 512 bytes, Linux 4.4's ext4 4 and 64 KiB (see tools/calibration).
"""

import csv
import pathlib
import sys

from tests.verification import cells
from tests.verification.validate import SYSTEMS

TABLE = pathlib.Path(__file__).parents[2] / "scmsim" / "result" / "residuals.csv"
HEAD = ("model", "kernel", "call", "unit_bytes", "counter", "basis", "measured", "replayed")
HELD_OUT = {"xfs-dax": (512,), "ext4-linux4": (4096, 65536), "ext4-dax-linux4": (4096, 65536)}
STRUCTURE = ("pm_stored_bytes", "flushes")
MEASURED = {
    "pm_stored_bytes": ("pmstB_call",),
    "flushes": ("flush_call",),
    "tlb_traffic": ("ld_norep_call", "st_norep_call"),
    "instructions": ("ins_call",),
}
REPLAYED = {"pm_stored_bytes": ("pmst",), "flushes": ("flush",), "tlb_traffic": ("ld", "st"), "instructions": ("ins",)}


def rows(cell: dict) -> list[tuple]:
    """The rows of one measured cell: figures per call."""
    found = cells.totals(cell["fs"], cells.workload(cell), **cells.kernel(cell))
    unit = int(cell["unit"])
    table = []
    for counter, columns in MEASURED.items():
        predicted = counter in STRUCTURE or unit in HELD_OUT.get(cell["fs"], ()) or cells.held_out(cell)
        figures = (
            sum(cell.get(column, 0.0) for column in columns),
            sum(found[name] for name in REPLAYED[counter]),
        )
        head = (cell["fs"], cell.get("kernel", "5.13.13"), cell["op"], unit, counter)
        table.append((*head, "predicted" if predicted else "fitted", *(f"{figure:.1f}" for figure in figures)))
    return table


def main() -> None:
    """Write the table, one row per measured figure."""
    table = []
    for system in SYSTEMS:
        table += [row for cell in cells.measured(system) for row in rows(cell)]
        print(system, len(table), file=sys.stderr)
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEAD)
        writer.writerows(table)


if __name__ == "__main__":
    main()
