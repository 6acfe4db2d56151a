"""Exact differences between two kernels' counts for the same calls, by operation, function, mechanism and task."""

import pathlib
from collections.abc import Sequence
from typing import Any

from scmsim.core.errors import UsageError
from scmsim.lab import call_counts
from scmsim.lab.call_counts import CallCounts
from scmsim.perf.profile import plain

COMPARED = {
    "instructions": "instructions", "loads": "mem_inst_retired_all_loads", "stores": "mem_inst_retired_all_stores",
    "stored bytes": "pm_stored_bytes", "write-backs": "flushes", "fences": "fences",
}  # fmt: skip
MISSES = dict(zip(("L1 misses", "walks"), call_counts.MISSES, strict=True))  # TLB misses, if counted
BY = {"function": "function", "mechanism": "site", "task": "task"}


def measured(folder: pathlib.Path, fs: str, machine: str | None = None) -> list[CallCounts]:
    """Return the repeats of a file system in a folder of `lab run`, at least one.

    Raises UsageError if there is none, or if `machine` is given and its misses were not counted.
    """
    paths = sorted(folder.glob(f"{fs}-[0-9]*{call_counts.SUFFIX}"))
    if not paths:
        raise UsageError(f"{str(folder)!r} has no {fs}-1{call_counts.SUFFIX}; make it with scmsim lab run")
    found = [call_counts.load(path) for path in paths]
    if machine and any(each.header["machine"] != machine for each in found):
        raise UsageError(
            f"{str(folder)!r} has no misses of {machine!r}; make it with scmsim lab run --machine {machine}"
        )
    return found


def compare(a: Sequence[CallCounts], b: Sequence[CallCounts]) -> dict[str, Any]:
    """Return the difference of two kernels on one file system; raise UsageError if they did not run the same calls.

    `a` and `b` are the repeats of each kernel: the first ones are compared, the rest show whether the counts repeat exactly.

    Returns
    -------
    dict
        fs; a, b: the kernels' names; machine: name of the machine whose misses were counted, or None; repeats: their number;
        spread: largest difference between the repeats of a kernel in a counter of an operation; operations, and a list for
        each of `BY`, whose rows have both kernels' totals ([a, b]) of each counter, the largest difference of instructions
        first.  Counters are `COMPARED`, and `MISSES` if there is a machine.
    """
    first, second = a[0], b[0]
    if first.header["calls"] != second.header["calls"] or first.header["fs"] != second.header["fs"]:
        raise UsageError("the two kernels did not run the same job; give a new folder with -o")
    of = [each.header["machine"] for each in (first, second)]
    if of[0] != of[1]:
        said = " and ".join(f"those of {name}" if name else "none" for name in of)
        raise UsageError(f"the kernels have different TLB misses ({said}); count both with the same --machine")
    calls = {(op, unit): n for op, unit, n in first.header["calls"]}
    found: dict[str, Any] = {"fs": first.header["fs"], "a": first.header["kernel"], "b": second.header["kernel"]}
    found["machine"] = of[0]
    found |= {"repeats": min(len(a), len(b)), "spread": max(_spread(a), _spread(b))}
    found["operations"] = _rows(first, second, [], calls)
    for name, column in BY.items():
        found[name] = sorted(_rows(first, second, [column], calls), key=size)
    _mark(found["function"])
    return found


def exceeded(found: dict[str, Any], limit: float) -> list[str]:
    """Return a line of text for each counter of an operation that rises by more than `limit` (0.05: 5 %) in the second kernel.

    Misses have no limit: they depend on the addresses of objects (docs/validation/tlb.md), which any change of a kernel moves.
    """
    return [text for _, _, text in beyond(found, limit)]


def beyond(found: dict[str, Any], limit: float) -> list[tuple[int, str, str]]:
    """Return (number of the operation, counter, line of text) for each item of `exceeded`."""
    return [
        (number, name, f"{found['fs']} {label(row)}: {name} {b - a:+,} of {a:,} ({percent(a, b)})")
        for number, row in enumerate(found["operations"])
        for name in COMPARED
        for a, b in [row[name]]
        if b > a * (1 + limit)
    ]


def label(row: dict[str, Any]) -> str:
    """Return the operation and unit of a row."""
    return f"{row['op']} {row['unit']}" if row["unit"] else str(row["op"])


def percent(a: int, b: int) -> str:
    """Return the change from `a` to `b` in percent as text; "new" if only `a` is 0, "=" if both are."""
    return f"{100 * (b - a) / a:+.1f} %" if a else "new" if b else "="


def folded(a: CallCounts, b: CallCounts, of: str = "instructions") -> str:
    """Return collapsed stacks with the counter `of` of both kernels, as flamegraph.pl reads them for a differential flame graph."""
    rows = _joined(a, b, ["kind", "task", "stack"], [_columns(a)[of]])
    lines = []
    for (op, unit, kind, task, stack), left, right in rows.itertuples():
        place = ";".join(filter(None, [op, str(unit or ""), "" if kind == "own" else f"({kind} {task})", stack]))
        lines.append(f"{place.replace(' ', '_')} {left} {right}")
    return "\n".join(lines) + "\n"


def _columns(counted: CallCounts) -> dict[str, str]:
    """Return the frame's column of each compared counter."""
    return {**COMPARED, **MISSES} if counted.header["machine"] else COMPARED


def _rows(a: CallCounts, b: CallCounts, by: list[str], calls: dict[tuple[str, int], int]) -> list[dict[str, Any]]:
    columns = _columns(a)
    table = _joined(a, b, by, list(columns.values()))
    out = []
    for key, *values in table.itertuples():
        op, unit, *rest = key
        row = {"op": op, "unit": unit, "calls": calls[op, unit], **({"name": rest[0]} if rest else {})}
        half = len(columns)
        row |= {name: [values[k], values[half + k]] for k, name in enumerate(columns)}
        out.append(row)
    return out


def _joined(a: CallCounts, b: CallCounts, by: list[str], fields: list[str]) -> Any:
    """Return both kernels' sums by operation, unit and `by`; a row that only one kernel has counts 0 for the other."""
    sums = []
    for each, suffix in ((a, " a"), (b, " b")):
        counted = each.frame[each.frame["kind"] != "other"]
        if "function" in by:
            counted = counted.assign(function=counted["function"].map(_name))
        sums.append(counted.groupby(["op", "unit", *by], sort=False)[fields].sum().add_suffix(suffix))
    return sums[0].join(sums[1], how="outer").fillna(0).astype("int64")


def _name(function: str) -> str:
    """Return a function's name without suffixes of compilers and of Linux 6.10's allocation profiling."""
    return plain(function).removesuffix("_noprof")


def size(row: dict[str, Any], of: str = "instructions") -> tuple[int, int, str]:
    """Return a sort key that puts the row with the largest difference of the counter `of` first."""
    a, b = row[of]
    return -abs(b - a), -max(a, b), row["name"]


def _mark(rows: list[dict[str, Any]]) -> None:
    """Set `only` of each row: "a" or "b" if only that kernel executes the row's function, else ""."""
    totals: dict[str, list[int]] = {}
    for row in rows:
        total = totals.setdefault(row["name"], [0, 0])
        for k in (0, 1):
            total[k] += row["instructions"][k]
    for row in rows:
        a, b = totals[row["name"]]
        row["only"] = "" if a and b else "b" if b else "a"


def _spread(repeats: Sequence[CallCounts]) -> int:
    """Return the largest difference between repeats in a counter of an operation."""
    columns = [name for name in _columns(repeats[0]).values() if all(name in each.frame for each in repeats)]
    sums = [each.frame[each.frame["kind"] != "other"].groupby(["op", "unit"])[columns].sum() for each in repeats]
    return max((int((other - sums[0]).abs().max().max()) for other in sums[1:]), default=0)
