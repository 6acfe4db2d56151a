"""Make the charts of a report: Vega-Lite charts with their texts and rows, with horizontal bars, so that they fit a phone.

No information is shown by colour alone: bars have labels and tooltips, and every chart comes with its rows of data.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from scmsim.core.records import KINDS, OPS
from scmsim.core.text import printable
from scmsim.plot.library import Chart, Rows, altair
from scmsim.plot.theme import OTHER, SAME, colours
from scmsim.result import Run
from scmsim.result.names import labels, short

_SIDES = ("load", "store")
_SIZES = {"4 KiB": "4k", "2 MiB": "2m_4m", "1 GiB": "1g"}  # label -> part of the counters' names
MOST_SITES = 8  # maximum number of mechanisms with distinguishable colours
MOST_FILES = 20
MOST_HOT = 4  # runs whose files are shown side by side
_LABEL = 170  # maximum width of a label on the left, px
_LINE = 13  # height of a label's line, px
_NUMBER = 52  # maximum width of a number after a bar, px
_GROUPED = 8  # maximum number of names that are shown without groups
_ALIKE = 0.005  # fraction of an axis; lines that are nearer to each other are drawn as one
_UNSEEN = 0.004  # fraction of the longest bar: less than 2 px
_SHORT = 10  # maximum label length for a legend in two columns on a phone, next to long names of bars
NUMBER = "datum.value >= 1e4 ? format(datum.value, '~s') : format(datum.value, ',~g')"
# A bar's number: the axis is scaled to the longest bar, so the length of a short bar cannot be read from the axis.
_SAID = "datum.value >= 1e4 ? format(datum.value, '.3~s') : format(datum.value, ',.4~r')"


def charts(runs: Sequence[Run]) -> list[Chart]:
    """Return every chart for which the runs have counters, in the page's order."""
    makers: tuple[Callable[[Sequence[Run]], Chart | None], ...] = (
        traffic, time, misses, regions, walks, walk_cycles, sites, amplification, stored, space, overhead, hot,
    )  # fmt: skip
    return [chart for make in makers if (chart := make(runs)) is not None]


def per_call(run: Run, *fields: str) -> float | None:
    """Return the sum of some counters divided by the calls; None if a counter is absent."""
    if not run.calls or any(field not in run.counters for field in fields):
        return None
    return sum(run.counters[field] for field in fields) / run.calls


def _gather(runs: Sequence[Run], parts: Mapping[str, Callable[[Run], float | None]]) -> Rows:
    """Return a row for each run and part whose value the run has; `parts` is part -> function that returns the value."""
    names = labels(runs)
    found = [
        {"run": name, "part": part, "value": value(run)}
        for name, run in zip(names, runs, strict=True)
        for part, value in parts.items()
    ]
    return [row for row in found if row["value"] is not None]


def bars(
    name: str, title: str, caption: str, rows: Rows, unit: str, *, stack: bool = True, grouped: bool = False
) -> Chart | None:
    """Return a chart of horizontal bars: a bar of stacked parts per run, or without `stack` a group of bars per run."""
    rows = _visible(rows) if stack else rows
    if not any(row["value"] for row in rows):
        return None
    alt = altair()
    parts = list(dict.fromkeys(row["part"] for row in rows))
    runs = list(dict.fromkeys(row["run"] for row in rows))
    several = len(parts) > 1
    shown = dict(zip(runs, short(runs), strict=True))
    ranked = [{**row, "name": shown[row["run"]], "rank": parts.index(row["part"])} for row in rows]
    ends = _totals(ranked) if stack else ranked
    tooltip = [
        alt.Tooltip("run:N"),
        alt.Tooltip("part:N", title="part"),
        alt.Tooltip("value:Q", title=unit, format=",.4~g"),
    ]
    coloured: dict[str, Any] = {"tooltip": tooltip}
    if several:
        coloured["color"] = alt.Color(
            "part:N", scale=alt.Scale(domain=parts, range=colours(parts)), legend=legend(parts)
        )
        coloured["order"] = alt.Order("rank:Q")
    marks = alt.Chart(alt.InlineData(values=ranked)).mark_bar().encode(**coloured)
    numbers = alt.Chart(alt.InlineData(values=ends)).mark_text(align="left", dx=3, fontSize=10)
    numbers = numbers.transform_calculate(said=_SAID).encode(text="said:N")
    x = alt.X("value:Q", title=unit, axis=alt.Axis(labelExpr=NUMBER, tickCount=5), scale=room(ends))
    group = {"yOffset": alt.YOffset("part:N", sort=parts)} if several and not stack else {}
    y, lines = _names(list(shown.values()), grouped)
    height = lines * (26 if stack or not several else 11 * len(parts) + 12)
    chart = alt.layer(marks, numbers).encode(x=x.stack("zero" if stack else None), y=y, **group)
    chart = chart.properties(width="container", height=height, description=f"{title}. {caption}")
    return Chart(name, title, caption, rows, chart.to_dict())


def room(rows: Rows) -> Any:
    """Return the scale of bars that have numbers after them; at any width, the longest bar leaves space for its number."""
    most = max(row["value"] for row in rows)
    return altair().Scale(domainMin=0, nice=False, domainMax={"expr": f"{most!r} * width / max(width - {_NUMBER}, 20)"})


def _names(names: Sequence[str], always: bool) -> tuple[Any, float]:
    """Return (axis of the bars' names, its height in lines of 26 px); names with the same first word are grouped."""
    alt = altair()
    domain, told = [], {}
    heads = [name.partition("\n")[0].partition(" ")[0] for name in names]
    grouped = (always or len(names) > _GROUPED) and 1 < len(set(heads)) < len(names)
    for i, (head, name) in enumerate(zip(heads, names, strict=True)):
        if grouped and head not in heads[:i]:
            domain.append(f"{head}:")
        domain.append(name)
        told[name] = name[len(head) :].strip() if grouped else name
    lines = 1 + max(name.count("\n") for name in told.values())
    words = {name: text for name, text in told.items() if text != name}
    said = f"({json.dumps(words)})[datum.value] || datum.value" if words else "datum.value"
    axis: dict[str, Any] = {"labelLimit": _LABEL}
    if lines > 1:
        axis |= {"labelExpr": f"split({said}, '\\n')", "labelOffset": (1 - lines) * _LINE / 2}
    elif words:
        axis["labelExpr"] = said
    y = alt.Y("name:N", title=None, sort=None, scale=alt.Scale(domain=domain), axis=alt.Axis(**axis))
    return y, len(domain) * max(1, (lines * _LINE + 10) / 26)


def _visible(rows: Rows) -> Rows:
    """Return rows of stacked bars, where parts that are too small to see in every bar are summed as "other"."""
    longest = max((row["value"] for row in _totals([{**row, "name": row["run"]} for row in rows])), default=0)
    seen = [row for row in rows if row["value"] > _UNSEEN * longest]
    kept = {row["part"] for row in seen} - {OTHER}
    rest = _totals([{**row, "name": row["run"]} for row in rows if row["part"] not in kept])
    others = [{"run": row["name"], "part": OTHER, "value": row["value"]} for row in rest]
    return [row for row in rows if row["part"] in kept] + (others if any(row["value"] for row in others) else [])


def _totals(rows: Rows) -> Rows:
    """Return the sum of the parts of each bar."""
    total: dict[str, float] = {}
    for row in rows:
        total[row["name"]] = total.get(row["name"], 0) + row["value"]
    return [{"name": name, "value": value} for name, value in total.items()]


def legend(names: Sequence[str], **symbols: Any) -> Any:
    """Return a legend below the chart that fits a phone: long labels have a line each."""
    columns = 1 if max(map(len, names)) > _SHORT else 2
    return altair().Legend(title=None, orient="bottom", columns=columns, labelLimit=140, **symbols)


def traffic(runs: Sequence[Run]) -> Chart | None:
    """Chart retired loads and stores per call."""
    parts = {
        "loads": lambda run: per_call(run, "mem_inst_retired_all_loads"),
        "stores": lambda run: per_call(run, "mem_inst_retired_all_stores"),
    }
    caption = "Retired load and store instructions per call: what perf counts as dTLB-loads and dTLB-stores on Intel."
    return bars("traffic", "TLB traffic", caption, _gather(runs, parts), "instructions per call")


def time(runs: Sequence[Run]) -> Chart | None:
    """Chart the terms of the time estimate."""
    terms = list(dict.fromkeys(term for run in runs for term, value in run.time_ns.items() if value))
    parts = {
        term.replace("_", " "): lambda run, term=term: run.time_ns.get(term, 0) / run.calls if run.calls else None
        for term in terms
    }
    caption = "Estimated time of a call in nanoseconds, by cause. An estimate from the counts, not a prediction."
    return bars("time", "Estimated time", caption, _gather(runs, parts), "ns per call (estimate)")


def misses(runs: Sequence[Run]) -> Chart | None:
    """Chart first-level misses of data look-ups by page size or, if sizes were not counted, by answering level."""
    caption = "Data TLB look-ups per call that missed the first level, by "
    sized = _gather(runs, {f"{name} pages": partial(_misses_of, size=size) for name, size in _SIZES.items()})
    if any(row["value"] for row in sized):
        return bars("misses", "First-level TLB misses", f"{caption}the size of the page.", sized, "misses per call")
    parts = {
        "second level": lambda run: per_call(run, *(f"dtlb_{side}_misses_stlb_hit" for side in _SIDES)),
        "page walk": lambda run: per_call(run, *(f"dtlb_{side}_misses_walk_completed" for side in _SIDES)),
    }
    caption += "what answered them: the second level, or a page walk."
    return bars("misses", "First-level TLB misses", caption, _gather(runs, parts), "misses per call")


def regions(runs: Sequence[Run]) -> Chart | None:
    """Chart first-level misses by side (kernel or program) and by answering level (second level or page walk)."""

    def of(event: str, user: bool) -> Callable[[Run], float | None]:
        def value(run: Run) -> float | None:
            own = per_call(run, f"dtlb_user_misses_{event}")
            both = per_call(run, *(f"dtlb_{side}_misses_{event}" for side in _SIDES))
            return own if user or own is None or both is None else both - own

        return value

    parts = {
        f"{where}, {answer}": of(event, where == "program")
        for where in ("kernel", "program")
        for answer, event in (("second level", "stlb_hit"), ("page walk", "walk_completed"))
    }
    caption = "First-level misses by whose address missed, the kernel's or the program's (its buffer), and by what answered them."
    return bars("regions", "First-level misses by region", caption, _gather(runs, parts), "misses per call")


def walks(runs: Sequence[Run]) -> Chart | None:
    """Chart page walks by page size."""
    parts = {f"{name} pages": partial(_walks_of, size=size) for name, size in _SIZES.items()}
    caption = "Page walks for data per call, by the size of the page that the walk ended at."
    return bars("walks", "Page walks", caption, _gather(runs, parts), "walks per call")


def _walks_of(run: Run, size: str) -> float | None:
    return per_call(run, *(f"dtlb_{side}_misses_walk_completed_{size}" for side in _SIDES))


def _misses_of(run: Run, size: str) -> float | None:
    return per_call(
        run, f"dtlb_misses_stlb_hit_{size}", *(f"dtlb_{side}_misses_walk_completed_{size}" for side in _SIDES)
    )


def walk_cycles(runs: Sequence[Run]) -> Chart | None:
    """Chart the share of cycles in walks."""
    parts = {
        "data": lambda run: run.metrics.get("walk_cycles_percent_data"),
        "instructions": lambda run: run.metrics.get("walk_cycles_percent_instruction"),
    }
    caption = "Cycles with a page walk under way, in percent of all cycles (in a simulation, of the estimated cycles)."
    return bars("walk-cycles", "Cycles in page walks", caption, _gather(runs, parts), "% of cycles")


def sites(runs: Sequence[Run]) -> Chart | None:
    """Chart loads and stores by mechanism inside the file system; the largest by name, the others together."""
    fields = ("mem_inst_retired_all_loads", "mem_inst_retired_all_stores")
    traffic: list[dict[str, float]] = []
    for run in runs:
        traffic.append({})
        for site, counts in run.sites.items():
            name = SAME.get(site, site)
            value = sum(counts.get(field, 0) for field in fields) / (run.calls or 1)
            traffic[-1][name] = traffic[-1].get(name, 0) + value
    total = {site: sum(values.get(site, 0) for values in traffic) for values in traffic for site in values}
    largest = sorted(total, key=lambda site: -total[site])[:MOST_SITES]
    rows: Rows = []
    for name, values in zip(labels(runs), traffic, strict=True):
        rows += [{"run": name, "part": printable(site), "value": values.get(site, 0)} for site in largest]
        rows.append({"run": name, "part": OTHER, "value": sum(v for site, v in values.items() if site not in largest)})
    caption = "Retired loads and stores per call, by the mechanism inside the file system that causes them."
    return bars("sites", "Where the traffic comes from", caption, rows, "loads + stores per call")


def amplification(runs: Sequence[Run]) -> Chart | None:
    """Chart the bytes at several levels per byte written."""
    levels = {
        "stored by file system": "write_amplification",
        "cache lines written back": "write_amplification_lines",
        "medium, 64 B granule": "write_amplification_media_64",
        "medium, 256 B granule": "write_amplification_media_256",
        "medium, 4 KiB granule": "write_amplification_media_4096",
    }
    parts = {part: lambda run, metric=metric: run.metrics.get(metric) for part, metric in levels.items()}
    caption = "Bytes for each byte that the program wrote: stored by the file system, in lines written back, and at the medium."
    return bars(
        "amplification", "Write amplification", caption, _gather(runs, parts), "bytes per byte written", stack=False
    )


def stored(runs: Sequence[Run]) -> Chart | None:
    """Chart the bytes stored by kind."""
    parts = {
        kind: lambda run, kind=kind: (
            run.stored_bytes[kind] / run.calls if run.calls and kind in run.stored_bytes else None
        )
        for kind in KINDS
        if kind != "none"
    }
    caption = "Bytes stored to persistent memory per call, by what they are: file data, zeroing, log, metadata."
    return bars("stored", "Bytes stored", caption, _gather(runs, parts), "bytes per call")


def space(runs: Sequence[Run]) -> Chart | None:
    """Chart the space of files at the end; `overhead` shows the file system's own space, which may be 1,000 times as large."""
    fields = {
        "file data": "live_bytes",
        "waste in last pages": "waste_bytes",
        "allocated ahead": "preallocated_bytes",
    }
    parts = {part: lambda run, field=field: run.space.get(field) for part, field in fields.items()}
    caption = "Bytes that files take at the end of the trace: what they hold, and what is allocated and holds nothing."
    return bars("space", "Space of files", caption, _gather(runs, parts), "bytes")


def overhead(runs: Sequence[Run]) -> Chart | None:
    """Chart the file system's own space at the end."""
    fields = {"metadata": "metadata_bytes", "page tables": "page_table_bytes"}
    parts = {part: lambda run, field=field: run.space.get(field) for part, field in fields.items()}
    caption = (
        "Bytes that the file system takes for itself, with those that formatting reserves (inode tables, a journal)."
    )
    return bars("overhead", "Space of the file system itself", caption, _gather(runs, parts), "bytes")


def hot(runs: Sequence[Run]) -> Chart | None:
    """Chart the files (or operations) with the most traffic, if the result has a breakdown by file or operation."""
    fields = ("mem_inst_retired_all_loads", "mem_inst_retired_all_stores")
    broken = [(name, run) for name, run in zip(labels(runs), runs, strict=True) if run.groups][:MOST_HOT]
    value = {
        name: {group: sum(counts.get(field, 0) for field in fields) for group, counts in run.groups.items()}
        for name, run in broken
    }
    total = {group: sum(groups.get(group, 0) for groups in value.values()) for one in value.values() for group in one}
    most = sorted(total, key=lambda group: -total[group])[:MOST_FILES]
    rows = [
        {"run": printable(group), "part": name, "value": groups.get(group, 0)}
        for group in most
        for name, groups in value.items()
    ]
    what = "operations" if set(total) <= set(OPS) else "files" if any("/" in group for group in total) else "groups"
    some = f"; {len(broken)} runs are shown" if len(broken) == MOST_HOT < len(runs) else ""
    caption = f"The {len(most)} of {len(total)} {what} with the most loads and stores, whole run{some}."
    return bars("hot", f"Hot {what}", caption, rows, "loads + stores", stack=False)


def curve(rows: Rows) -> Chart | None:
    """Chart miss ratios over the number of TLB entries; `rows` have `run`, `entries` and `value`."""
    if not rows:
        return None
    alt = altair()
    title = "Miss-ratio curve"
    caption = "Share of the touches of 4 KiB pages that miss a fully associative LRU TLB, over its entries; both axes logarithmic."
    lines = {row["run"]: {} for row in rows}  # type: dict[str, dict[Any, float]]
    for row in rows:
        lines[row["run"]][row["entries"]] = row["value"]
    called = merged(lines, log=True)
    drawn = [{**row, "run": called[row["run"]]} for row in rows if row["run"] in called]
    runs = list(called.values())
    scale, key = alt.Scale(domain=runs), legend(runs, symbolType="stroke", symbolStrokeWidth=2, symbolSize=400)
    chart = (
        alt.Chart(alt.InlineData(values=drawn))
        .mark_line(point=True)
        .encode(
            x=alt.X("entries:Q", title="entries", scale=alt.Scale(type="log", base=2), axis=alt.Axis(tickCount=6)),
            y=alt.Y("value:Q", title="miss ratio", scale=alt.Scale(type="log"), axis=alt.Axis(format="~g", tickCount=5)),
            color=alt.Color("run:N", scale=alt.Scale(domain=runs, range=colours(runs)), legend=key),
            strokeDash=alt.StrokeDash("run:N", scale=scale, legend=key),
            tooltip=["run:N", "entries:Q", "value:Q"],
        )
        .properties(width="container", height=240, description=f"{title}. {caption}")
    )  # fmt: skip
    return Chart("miss-ratio-curve", title, caption, rows, chart.to_dict())


def merged(lines: Mapping[str, Mapping[Any, float]], log: bool = False) -> dict[str, str]:
    """Return line to draw -> its label; of indistinguishable lines only one is drawn, labelled with all their names.

    `lines` is name -> x -> value; `log`: whether the axis of values is logarithmic.
    """
    scaled = {
        name: {x: math.log(y) if log else y for x, y in line.items() if y > 0 or not log}
        for name, line in lines.items()
    }
    values = [y for line in scaled.values() for y in line.values()]
    near = _ALIKE * (max(values, default=0) - min(values if log else [*values, 0], default=0))
    groups: dict[str, list[str]] = {}
    for name, line in scaled.items():
        same = (first for first in groups if scaled[first].keys() == line.keys()
                and all(abs(scaled[first][x] - y) <= near for x, y in line.items()))  # fmt: skip
        groups.setdefault(next(same, name), []).append(name)
    return {first: together(names) for first, names in groups.items()}


def together(names: Sequence[str]) -> str:
    """Join several names into one text; the words with which all names begin appear once."""
    if len(names) == 1:
        return names[0]
    words = [name.split(" ") for name in names]
    same = 0
    while all(len(each) > same + 1 for each in words) and len({each[same] for each in words}) == 1:
        same += 1
    return " ".join([*words[0][:same], ", ".join(" ".join(each[same:]) for each in words)])
