"""The SCM manager paper's tables, published and simulated: every row, its ratio and what the figure is.

Run: python tests/verification/scm_manager.py   (prints a Markdown table; about a minute)
fitted: met by a cost (calibrate_scm.py); derived: from structure, the medium and costs fitted to other figures; outlier: the paper
itself calls the published figure one; own work: the program's own work, which no trace has, is what the SCM manager's column leaves
beside the simulated calls, so that column is met and the others are compared.
"""

from collections.abc import Iterator

import calibrate_scm
import scm_cells as cells

from scmsim.workload import andrew, memory_objects, postmark

FITTED = {(row, cell if row not in ("SCMM-1", "SCMM-2") else "scm-manager") for _, cell, *_, row in calibrate_scm.FITS}
FITTED |= {("SCMM-5", "sdram"), ("SCMM-8", "sdram")}
TABLE2 = {
    "SCMM-1": ("malloc", 512), "SCMM-2": ("free", 512), "SCMM-3": ("store", 512), "SCMM-4": ("store", 1024),
    "SCMM-5": ("store", 4096), "SCMM-6": ("load", 512), "SCMM-7": ("load", 1024), "SCMM-8": ("load", 4096),
}  # fmt: skip
TABLE3 = {
    "SCMM-9": ("create", 512), "SCMM-10": ("open", 512), "SCMM-11": ("write", 512), "SCMM-12": ("write", 1024),
    "SCMM-13": ("write", 4096), "SCMM-14": ("read", 512), "SCMM-15": ("read", 1024), "SCMM-16": ("read", 4096),
    "SCMM-17": ("close", 512),
}  # fmt: skip
PROGRAMS = {"SCMM-21": "distillery", "SCMM-22": "ftpget", "SCMM-23": "insmod", "SCMM-24": "cp", "SCMM-25": "cat"}
# The paper gives the times of the first two per 512 bytes; cp's can be nothing else, since five files took less than one cold read
# of 4096 bytes in Table 3.
PER_PIECE = ("distillery", "ftpget", "cp")
OUTLIERS = {("SCMM-1", "sdram"), ("SCMM-2", "sdram"), ("SCMM-14", "fat-scm"), ("SCMM-14", "ext2-scm")}

Line = tuple[str, str, float, float, str]  # row, system, published, simulated, kind


def table2(rows: dict) -> Iterator[Line]:
    """Memory objects on FeRAM, and the same allocator and loops on SDRAM (Linux' buddy system, without its daemons)."""
    for medium in ("feram", "sdram"):
        found = {size: cells.micro("scm-manager", size, medium) for size in memory_objects.SIZES}
        for row, (op, size) in TABLE2.items():
            baseline = float(rows[row]["note"].removeprefix("baseline "))
            system = "scm-manager" if medium == "feram" else "sdram"
            yield row, system, rows[row]["values"][0] if medium == "feram" else baseline, found[size][op], "derived"


def table3(rows: dict) -> Iterator[Line]:
    for column, fs in enumerate(cells.COLUMNS):
        found = {size: cells.micro(fs, size) for size in memory_objects.SIZES}
        for row, (op, size) in TABLE3.items():
            yield row, fs, rows[row]["values"][column], found[size][op], "derived"


def table4(rows: dict) -> Iterator[Line]:
    """Seconds; the Andrew benchmark without its last phase, Postmark's defaults, both mounts."""
    work = {
        "SCMM-18": ("async", andrew.source()),
        "SCMM-19": ("sync", postmark.source()),
        "SCMM-20": ("async", postmark.source()),
    }
    for row, (mount, source) in work.items():
        found = []
        for fs in cells.COLUMNS:
            run = cells.run(fs, source, **({} if fs == "scm-manager" else {"mount": mount}))
            found.append(cells.nanoseconds(run, None, run.calls) / 1e9)
        yield from with_own_work(row, rows[row]["values"], found)


def table5(rows: dict) -> Iterator[Line]:
    """Milliseconds; the file systems as the programs are, the SCM manager with the new interfaces."""
    pieces = sum(-(-size // memory_objects.PIECE) for size in memory_objects.FILES)
    for row, app in PROGRAMS.items():
        found = [cells.program(fs, app, "objects" if fs == "scm-manager" else "files") for fs in cells.COLUMNS]
        yield from with_own_work(
            row, rows[row]["values"], [time / (pieces if app in PER_PIECE else 1) for time in found]
        )


def with_own_work(row: str, published: list[float], simulated: list[float]) -> Iterator[Line]:
    """The columns of a row, each with the own work that the last one, the SCM manager's, leaves."""
    own = max(published[-1] - simulated[-1], 0)
    for fs, there, here in zip(cells.COLUMNS, published, simulated, strict=True):
        yield row, fs, there, own + here, "own work" if fs != "scm-manager" or own == 0 else "fitted"


def lines() -> list[Line]:
    """All rows."""
    rows = cells.published()
    found = [line for table in (table2, table3, table4, table5) for line in table(rows)]
    found += [
        ("SCMM-26", medium, latency, cells.latency(medium), "preset")
        for medium, latency in (("feram", 55), ("sdram", 35))
    ]
    return [(row, fs, there, here, kind_of(row, fs, kind)) for row, fs, there, here, kind in found]


def kind_of(row: str, fs: str, kind: str) -> str:
    return "fitted" if (row, fs) in FITTED else "outlier" if (row, fs) in OUTLIERS else kind


def main() -> None:
    rows = cells.published()
    print("| row | what | system | published | simulated | ratio | kind |\n|---|---|---|---|---|---|---|")
    for row, fs, there, here, kind in lines():
        unit = rows[row]["unit"]
        print(
            f"| {row} | {rows[row]['workload']} | {fs} | {there:,g} {unit} | {here:,.4g} {unit} | {here / there:.2f} | {kind} |"
        )


if __name__ == "__main__":
    main()
