"""The SCM manager paper's tables, published and simulated: every row, its ratio and what the figure is.

Run: python -m tests.verification.scm_manager   (prints a Markdown table; about a minute)
fitted: met by a cost (tools/calibration/scm_manager.py); derived: from structure, the medium and costs fitted to other figures;
outlier: the paper itself calls the published figure one; own work: the program's own work, which no trace has, is what the SCM
manager's column leaves beside the simulated calls, so that column is met and the others are compared.
"""

from collections.abc import Iterator

from scmsim.reproduce import scm_manager as cells
from scmsim.reproduce.rows import published
from tools.calibration import scm_manager as calibration

FITTED = {(row, cell if row not in ("SCMM-1", "SCMM-2") else "scm-manager") for _, cell, *_, row in calibration.FITS}
FITTED |= {("SCMM-5", "sdram"), ("SCMM-8", "sdram")}
OUTLIERS = {("SCMM-1", "sdram"), ("SCMM-2", "sdram"), ("SCMM-14", "fat-scm"), ("SCMM-14", "ext2-scm")}

Line = tuple[str, str, float, float, str]  # row, system, published, simulated, kind


def table2() -> Iterator[Line]:
    """Memory objects on FeRAM, and the same allocator and loops on SDRAM (Linux' buddy system, without its daemons)."""
    for row, (op, size) in cells.TABLE2.items():
        yield row, "scm-manager", cells.values(row)[0], cells.micro("scm-manager", size)[op], "derived"
    for row, (op, size) in cells.TABLE2.items():
        yield row, "sdram", cells.baseline(row), cells.micro("scm-manager", size, "sdram")[op], "derived"


def others() -> Iterator[Line]:
    """Files (us), benchmarks (s), programs (ms)."""
    for row in (*cells.TABLE3, "SCMM-18", "SCMM-19", "SCMM-20", *cells.PROGRAMS):
        for fs, there, here in zip(cells.COLUMNS, cells.values(row), cells.columns(row), strict=True):
            kind = "derived" if row in cells.TABLE3 else "fitted" if there == here else "own work"
            yield row, fs, there, here, kind


def lines() -> list[Line]:
    """All rows."""
    found = [*table2(), *others()]
    found += [
        ("SCMM-26", medium, there, cells.latency(medium), "preset") for medium, there in (("feram", 55), ("sdram", 35))
    ]
    return [(row, fs, there, here, kind_of(row, fs, kind)) for row, fs, there, here, kind in found]


def kind_of(row: str, fs: str, kind: str) -> str:
    return "fitted" if (row, fs) in FITTED else "outlier" if (row, fs) in OUTLIERS else kind


def main() -> None:
    about = {row.id: row for row in published()}
    print("| row | what | system | published | simulated | ratio | kind |\n|---|---|---|---|---|---|---|")
    for row, fs, there, here, kind in lines():
        unit = about[row].unit
        print(
            f"| {row} | {about[row].workload} | {fs} | {there:,g} {unit} | {here:,.4g} {unit} | {here / there:.2f} | {kind} |"
        )


if __name__ == "__main__":
    main()
