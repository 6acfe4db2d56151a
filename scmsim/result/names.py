"""Name the runs of a report: by the values that distinguish the runs, and by short names that fit beside a bar."""

import dataclasses
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scmsim.core import params, registry
from scmsim.core.text import printable
from scmsim.core.units import format_bytes
from scmsim.result.run import SURROUNDINGS, SYNC_AT_END, Run

MOST_LETTERS = 24  # maximum letters of a name beside a bar
_TITLES = {"file_bytes": "file", "unit_bytes": "unit"}
_ABSENT_BY_DEFAULT = (*SURROUNDINGS, SYNC_AT_END)
PARAM = "param."  # prefix of an axis that is a parameter of the models
REPEAT = "repeat"  # repeat of a measurement, which is not a parameter


def is_measured(run: Run) -> bool:
    """Return whether a run was measured, that is, has neither a paging policy nor a space report."""
    return not (run.paging or run.space)


def axes(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """Return the axes on which the runs differ (fs, measured or not, names, cell, parameters), with a value for each run."""
    columns: dict[str, list[Any]] = {
        "fs": [run.fs for run in runs],
        "result": ["measured" if is_measured(run) else "simulated" for run in runs],
    }
    for name in ("machine", "paging", "medium"):  # a measurement has none of these; "result" states that already
        values = [run.names()[name] for run in runs]
        columns[name] = values if len(set(values) - {None}) > 1 else []
    for name in dict.fromkeys(name for run in runs for name in run.cell if name != REPEAT):
        columns[name] = [run.cell.get(name) for run in runs]
    columns |= _parameters(runs)
    return {name: values for name, values in columns.items() if len(set(values)) > 1}


def _parameters(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """Return the parameters in which runs of the same file system differ, without those that are in the runs' cells."""
    found = {}
    named = {name.rpartition(".")[2] for run in runs for name in run.cell}
    for name in dict.fromkeys(name for run in runs for name in run.params if name.rpartition(".")[2] not in named):
        values: dict[Any, set[Any]] = {}
        for run in runs:
            if name in run.params or name in _ABSENT_BY_DEFAULT:
                same = run.fs if name in _ABSENT_BY_DEFAULT or _is_of_fs(name, run.fs) else (run.fs, run.paging)
                values.setdefault(same, set()).add(run.params.get(name))
        if any(len(different) > 1 for different in values.values()):
            found[f"{PARAM}{name}"] = [run.params.get(name) for run in runs]
    return found


def _is_of_fs(name: str, fs: str) -> bool:
    """Return whether a file system declares the parameter; others belong to the paging policy."""
    return fs in registry.names("fs") and name in params.declared("fs", fs)


def title(axis: str) -> str:
    """Return the title of an axis: "unit" for `unit_bytes` or `workload.unit`, "stlb.entries" for `machine.stlb.entries`."""
    return _TITLES.get(axis) or axis.split(".", 1)[-1]


def said(axis: str, value: Any) -> str:
    """Return a value of an axis as text; a size has its suffix."""
    if value is None:
        return "-"
    if axis == "trace":
        return printable(os.path.basename(str(value)).removesuffix(".parquet"))
    sized = isinstance(value, int) and value >= 1024 and "entries" not in axis
    return format_bytes(value) if sized else printable(str(value))


def labels(runs: Sequence[Run]) -> list[str]:
    """Return one name per run: the file system and the values that distinguish the run, or a number if no value does."""
    varying = {name: values for name, values in axes(runs).items() if name != "fs"}
    names: list[str] = []
    for i, run in enumerate(runs):
        parts = [printable(run.fs)]
        for axis, values in varying.items():
            if values[i] is None:
                continue
            text = said(axis, values[i])
            parts.append(f"{title(axis)} {text}" if isinstance(values[i], int) or axis.startswith(PARAM) else text)
        if len({one.cell.get(REPEAT) for one in runs}) > 1:
            parts.append(f"#{run.cell.get(REPEAT)}")
        names.append(" ".join(parts))
    return unique(names)


def unique(names: Iterable[str]) -> list[str]:
    """Return the names, with a number appended to each repeated name."""
    found: list[str] = []
    for name in names:
        found.append(name if name not in found else f"{name} ({len(found) + 1})")
    return found


def short(names: Sequence[str], most: int = MOST_LETTERS) -> list[str]:
    """Return distinct names that fit into `most` letters: paths lose a common folder and suffix, long names get two lines."""
    kept = list(names)
    if len(kept) > 1 and all("/" in name for name in kept):
        folder = os.path.commonprefix([name.rpartition("/")[0] + "/" for name in kept]).rpartition("/")[0]
        kept = [name[len(folder) :].lstrip("/") for name in kept]
        suffixes = {os.path.splitext(name)[1] for name in kept}
        kept = [os.path.splitext(name)[0] for name in kept] if len(suffixes) == 1 else kept
    return unique("\n".join(_cut(line, most) for line in _lines(name, most)) for name in kept)


def _lines(name: str, most: int) -> list[str]:
    """Return a long name of several words as two lines of nearly equal length."""
    words = name.split(" ")
    if len(name) <= most or len(words) == 1:
        return [name]
    splits = [(" ".join(words[:i]), " ".join(words[i:])) for i in range(1, len(words))]
    return list(min(splits, key=lambda lines: max(map(len, lines))))


def _cut(line: str, most: int) -> str:
    """Return a line of at most `most` letters; a longer line loses its middle."""
    half = (most - 1) // 2
    return line if len(line) <= most else f"{line[:half]}…{line[half - most + 1 :]}"


def means(runs: Sequence[Run]) -> list[Run]:
    """Return the runs with repeats of a measurement replaced by their mean; counts are rounded to whole numbers."""
    groups: dict[Any, list[Run]] = {}
    for i, run in enumerate(runs):
        cell = tuple((name, value) for name, value in run.cell.items() if name != REPEAT)
        groups.setdefault((*run.names().values(), cell) if REPEAT in run.cell else i, []).append(run)
    return [_mean(group) for group in groups.values()]


def _mean(runs: Sequence[Run]) -> Run:
    first = runs[0]
    if len(runs) == 1:
        return first
    cell = {name: value for name, value in first.cell.items() if name != REPEAT}
    warnings = list(dict.fromkeys(warning for run in runs for warning in run.warnings))
    counters = {name: round(value) for name, value in _averages([run.counters for run in runs]).items()}
    metrics: dict[str, float | None] = {**_averages([run.metrics for run in runs])}
    return dataclasses.replace(first, counters=counters, metrics=metrics, cell=cell, warnings=warnings)


def _averages(tables: Sequence[Mapping[str, float | None]]) -> dict[str, float]:
    columns: dict[str, list[float]] = {}
    for table in tables:
        for name, value in table.items():
            if value is not None:
                columns.setdefault(name, []).append(value)
    return {name: statistics.fmean(values) for name, values in columns.items()}
