"""Draw the papers' figures from simulated values, one file each; for the SCM manager's tables, also with published values.

A figure has the axes of the document's figure, and those of its systems for which models exist.  Times are estimates.
"""

import os
import pathlib
from collections.abc import Iterator

from scmsim.core.records import READ, WRITE
from scmsim.plot.documents import PUBLISHED, bars, lines
from scmsim.plot.files import write_charts
from scmsim.plot.library import Chart, Rows
from scmsim.reproduce import matrix, scmfs, thesis_figures, vsm
from scmsim.reproduce.rows import Row, reproduce

KI, MI = 1 << 10, 1 << 20


def draw(
    folder: str | os.PathLike[str], suffix: str, quick: bool, cells: str | os.PathLike[str] | None = None
) -> list[pathlib.Path]:
    """Draw every figure into `folder` as svg, png or pdf; return the paths.

    `cells` is the folder of the sweep sweep-thesis, for the thesis's Figures 8 to 13 and 17; without it, small cells are replayed.
    """
    found = matrix.read(cells) if cells else matrix.small(quick)
    makers = (_scmfs, thesis_figures.charts, lambda _: thesis_figures.overheads(found), _vsm, _scm_manager)
    charts = [chart for make in makers for chart in make(quick)]
    return [*write_charts(charts, folder, suffix), *matrix.draw(found, folder, suffix)]


def _scmfs(quick: bool) -> Iterator[Chart]:
    """Yield Figures 5 to 8 (IOzone) and 9 to 12 (Postmark) of the SCMFS paper."""
    size, records = scmfs._sizes(quick)
    systems = (*scmfs.PAIR, *scmfs.BASELINES)
    for order in ("sequential", "random"):
        found = {(fs, record): scmfs.writes(fs, size, record)[order] for fs in systems for record in records}
        for which, what, unit in ((0, "misses", "data page walks"), (1, "time", "estimated ms")):
            rows = [
                {"system": fs, "x": record // KI, "value": values[which] / (1 if which == 0 else 1e6)}
                for (fs, record), values in found.items()
            ]
            title = f"SCMFS, IOzone {order} write: {unit} over request size"
            yield lines(f"scmfs-iozone-{order}-{what}", title, rows, "request, KiB", unit)
    rows_of: dict[int, Rows] = {0: [], 1: []}
    for group, trace in zip(("mostly appends", "mostly reads"), scmfs.mail(quick), strict=True):
        for fs in scmfs.PAIR:
            values = scmfs.walks_and_time(scmfs.run(trace, fs))
            for which in (0, 1):
                rows_of[which].append({"group": group, "system": fs, "value": values[which]})
    yield bars("scmfs-postmark-misses", "SCMFS, Postmark: data page walks", rows_of[0], "walks")
    yield bars("scmfs-postmark-time", "SCMFS, Postmark: estimated time", rows_of[1], "ns")


def _vsm(quick: bool) -> Iterator[Chart]:
    """Yield Figures 1, 5, 6 and 7 of the VSM paper."""
    names = {WRITE: "write", READ: "read"}
    for op in (WRITE, READ):
        for order in ("seq", "random"):
            rows = [
                {"system": fs, "x": size // KI, "value": size / float(vsm.cell(fs, op, order, size, quick)[0])}
                for fs in vsm.PARAMS
                for size in vsm.SIZES
            ]
            title = f"VSM, fio {order} {names[op]}: estimated bytes per ns over request size"
            yield lines(f"vsm-{order}-{names[op]}", title, rows, "request, KiB", "GB/s (estimate)")
    mail = [{"group": "postmark", "system": fs, "value": float(vsm.mail(fs, quick)[0]) / 1e6} for fs in vsm.PARAMS]
    rows = [
        {"system": fs, "x": size // KI, "value": extra}
        for fs in vsm.PARAMS
        for size in vsm.SIZES
        if (extra := vsm.extra(fs, size)) is not None
    ]
    for size, value in ((KI, 2047), (KI, 3), (4 * KI, 511)):  # VSM-1 to VSM-3
        rows.append({"system": PUBLISHED, "x": size // KI, "value": value})
    title = "VSM, Figure 7: bytes copied for each byte overwritten"
    yield lines("vsm-write-amplification", title, rows, "request, KiB", "extra bytes per byte")
    yield bars("vsm-postmark", "VSM, Figure 6: Postmark of 2 to 6 MB files", mail, "ms (estimate)")


def _scm_manager(quick: bool) -> Iterator[Chart]:
    """Yield a chart of Tables 2 to 5 of the SCM manager paper."""
    rows: Rows = []
    for row in reproduce(["scm_manager"], quick):
        rows += _published_and_simulated(row)
    yield bars(
        "scm-manager-tables",
        "SCM manager, Tables 2 to 5: published and simulated times",
        rows,
        "each row's unit",
        log=True,
    )


def _published_and_simulated(row: Row) -> Rows:
    name = f"{row.published.id} {row.published.workload}"
    systems = [system.strip() for system in row.published.system.split("|")]
    sides = {"published": row.published_numbers, "simulated": row.simulated_numbers}
    return [
        {"group": f"{name}, {systems[i]}" if i < len(systems) else f"{name} ({i + 1})", "system": side, "value": value}
        for side, values in sides.items()
        for i, value in enumerate(values)
        if value > 0
    ]
