"""The figures of the five documents from the models' figures, one file each; for SCM manager's tables published beside simulated.

What a figure shows is in its title; axes and systems are those of the document as far as the models have them, times estimates.
"""

import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from scmsim.records import READ, WRITE
from scmsim.report.charts import COLOURS, Chart, Rows, altair
from scmsim.report.files import write_charts
from scmsim.reproduce import scmfs, thesis, vsm
from scmsim.reproduce.rows import Row, reproduce

KI, MI = 1 << 10, 1 << 20


def draw(folder: str | os.PathLike[str], suffix: str, quick: bool) -> list[pathlib.Path]:
    """Draw every figure into `folder` as svg, png or pdf; returns the paths."""
    charts = [chart for make in (_scmfs, _thesis, _vsm, _scm_manager) for chart in make(quick)]
    return write_charts(charts, folder, suffix)


def _lines(name: str, title: str, rows: Rows, x: str, y: str, log_y: bool = True) -> Chart:
    """One line a system over a logarithmic size; rows have system, x, value."""
    alt = altair()
    systems = list(dict.fromkeys(row["system"] for row in rows))
    chart = (
        alt.Chart(alt.InlineData(values=[row for row in rows if row["value"] > 0]))
        .mark_line(point=True)
        .encode(
            x=alt.X("x:Q", title=x, scale=alt.Scale(type="log", base=2)),
            y=alt.Y("value:Q", title=y, scale=alt.Scale(type="log" if log_y else "linear")),
            color=_colour(alt, "system", systems),
            strokeDash=alt.StrokeDash("system:N", legend=None),
        )
        .properties(height=280)
    )
    return Chart(name, title, title, rows, chart.to_dict())


def _bars(name: str, title: str, rows: Rows, x: str, log: bool = False) -> Chart:
    """Groups of bars; rows have group, system, value."""
    alt = altair()
    systems = list(dict.fromkeys(row["system"] for row in rows))
    groups = list(dict.fromkeys(row["group"] for row in rows))
    chart = alt.Chart(alt.InlineData(values=rows))
    chart = (chart.mark_point(filled=True, size=70) if log else chart.mark_bar()).encode(
        x=alt.X("value:Q", title=x, scale=alt.Scale(type="log" if log else "linear")),
        y=alt.Y("group:N", title=None, sort=groups),
        yOffset=alt.YOffset("system:N", sort=systems),
        color=_colour(alt, "system", systems),
    )
    chart = chart.properties(height=max(len(groups) * 14 * len(systems), 80))
    return Chart(name, title, title, rows, chart.to_dict())


def _colour(alt: Any, field: str, names: Sequence[str]) -> Any:
    colours = [*COLOURS] * (1 + len(names) // len(COLOURS))
    return alt.Color(f"{field}:N", title=None, scale=alt.Scale(domain=list(names), range=colours[: len(names)]))


def _scmfs(quick: bool) -> Iterator[Chart]:
    """Figures 5 to 8 (IOzone) and 9 to 12 (Postmark) of the SCMFS paper."""
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
            yield _lines(f"scmfs-iozone-{order}-{what}", title, rows, "request, KiB", unit)
    rows_of: dict[int, Rows] = {0: [], 1: []}
    for group, trace in zip(("mostly appends", "mostly reads"), scmfs.mail(quick), strict=True):
        for fs in scmfs.PAIR:
            values = scmfs.walks_and_time(scmfs.run(trace, fs))
            for which in (0, 1):
                rows_of[which].append({"group": group, "system": fs, "value": values[which]})
    yield _bars("scmfs-postmark-misses", "SCMFS, Postmark: data page walks", rows_of[0], "walks")
    yield _bars("scmfs-postmark-time", "SCMFS, Postmark: estimated time", rows_of[1], "ns")


def _thesis(quick: bool) -> Iterator[Chart]:
    """Figures 3, 4 (Filebench), 26 to 31 (traffic over units) and 32 to 34 (where it comes from) of the thesis."""
    traffic, missing = [], []
    for personality in thesis.PERSONALITIES:
        runs = thesis._filebench(personality)
        base = thesis._traffic(runs[thesis.EXT4])
        for fs, run in runs.items():
            traffic.append({"group": personality, "system": fs, "value": thesis._traffic(run) / base})
            missing.append({"group": personality, "system": fs, "value": run.metrics["tlb_miss_percent"]})
    yield _bars(
        "thesis-filebench-traffic", "Thesis, Figure 3: TLB traffic for the same calls over ext4's", traffic, "of ext4's"
    )
    yield _bars("thesis-filebench-misses", "Thesis, Figure 4: TLB misses", missing, "% of loads and stores")
    total = 64 * MI if quick else 1024 * MI
    units = [KI << i for i in range(0, 13, 2)]
    for name, metric in (
        ("traffic", "tlb_traffic"), ("walk-cycles", "walk_cycles_percent_data"), ("walks", "walks_per_1000_instructions_data"),
    ):  # fmt: skip
        rows = [
            {"system": fs, "x": unit // KI, "value": run.metrics[metric] or 0.0}
            for unit in units
            for fs, run in thesis._appends(thesis.ALL, unit, total).items()
        ]
        yield _lines(
            f"thesis-append-{name}", f"Thesis, append of {total // MI} MiB: {metric}", rows, "unit, KiB", metric
        )
    run = thesis._appends(thesis.NOVA, KI, total)[thesis.NOVA]
    shares: Rows = [{"group": site, "system": "nova", "value": thesis._share(run, site)} for site in run.sites]
    shares.sort(key=lambda row: -row["value"])
    yield _bars(
        "thesis-nova-sites", f"Thesis, Figure 32 at {total // MI} MiB: NOVA, 1 KiB appends", shares, "% of TLB traffic"
    )


def _vsm(quick: bool) -> Iterator[Chart]:
    """Figures 1, 5 and 6 of the VSM paper, and space (its section II.B)."""
    names = {WRITE: "write", READ: "read"}
    for op in (WRITE, READ):
        for order in ("seq", "random"):
            rows = [
                {"system": fs, "x": size // KI, "value": size / float(vsm.cell(fs, op, order, size, quick)[0])}
                for fs in vsm.PARAMS
                for size in (*vsm.SIZES, 2 * MI)
            ]
            title = f"VSM, fio {order} {names[op]}: estimated bytes per ns over request size"
            yield _lines(f"vsm-{order}-{names[op]}", title, rows, "request, KiB", "GB/s (estimate)")
    mail = [{"group": "postmark", "system": fs, "value": float(vsm.mail(fs, quick)[0]) / 1e6} for fs in vsm.PARAMS]
    yield _bars("vsm-postmark", "VSM, Figure 6: Postmark of 2 to 6 MB files", mail, "ms (estimate)")


def _scm_manager(quick: bool) -> Iterator[Chart]:
    """Tables 2 to 5 of the SCM manager paper."""
    rows: Rows = []
    for row in reproduce(["scm_manager"], quick):
        rows += _published_and_simulated(row)
    yield _bars(
        "scm-manager-tables",
        "SCM manager, Tables 2 to 5: published and simulated times",
        rows,
        "each row's unit",
        log=True,
    )


def _published_and_simulated(row: Row) -> Rows:
    name = f"{row.published.id} {row.published.workload}"
    sides = {"published": row.published_numbers, "simulated": row.simulated_numbers}
    return [
        {"group": f"{name} ({i + 1})" if i else name, "system": side, "value": value}
        for side, values in sides.items()
        for i, value in enumerate(values)
        if value > 0
    ]
