"""Breakdown of a run by mechanism, kind of operation or file."""

from collections.abc import Mapping

from scmsim.core.text import distinct
from scmsim.result.run import Run
from scmsim.result.tables.figures import Value, number

TOP = 20
_NAME_WIDTH = 48
_WALKS = "walks in all"  # not divided by calls, because walks are few and mostly due to first touches
_TRAFFIC = ("mem_inst_retired_all_loads", "mem_inst_retired_all_stores")

# Column label -> counters whose sum the column shows.
_COLUMNS: dict[str, tuple[str, ...]] = {
    "instructions": ("instructions",),
    "loads+stores": _TRAFFIC,
    _WALKS: ("dtlb_load_misses_walk_completed", "dtlb_store_misses_walk_completed"),
    "stored B": ("pm_stored_bytes",),
    "loaded B": ("pm_loaded_bytes",),
    "flushes": ("flushes",),
    "fences": ("fences",),
}


def heading(run: Run, by: str) -> str:
    """Return the heading, which states the kind of breakdown and the divisor of its figures."""
    if by == "site" or not run.group_operations:
        return f"by {by}, per {run.unit} of the run ({run.divisor:,} {'touches' if run.unit == 'touch' else 'calls'})"
    return {
        "op": "by op, per operation of that kind",
        "file": "by file, per operation on that file",
    }.get(by, f"by {by}, per operation of the group")


def rows(run: Run, by: str, top: int = TOP) -> list[list[str]]:
    """Return a head row, then one row per part, those with the most TLB traffic first; counters that no part has are left out.

    By site, figures are per call (or touch) of the run and add up to the run's figure.  By operation or file they are per
    operation of the part, and the part's number of operations and share of the run's loads and stores are shown too.  Files
    beyond the first `top` share one row.
    """
    parts = run.sites if by == "site" else run.groups
    counted = {} if by == "site" else run.group_operations
    shown = {label: fields for label, fields in _COLUMNS.items() if any(set(fields) <= set(p) for p in parts.values())}
    order = sorted(parts, key=lambda name: -(_added(parts[name], _TRAFFIC) or 0))
    kept = order if by in ("site", "op") else order[:top]
    rest = order[len(kept) :]
    names = distinct(kept, _NAME_WIDTH)
    body = [
        _row(name, parts[part], counted.get(part), run, shown, bool(counted))
        for part, name in zip(kept, names, strict=True)
    ]
    if rest:
        total = {field: sum(parts[name].get(field, 0) for name in rest) for field in parts[rest[0]]}
        operations = sum(counted.get(name, 0) for name in rest)
        body.append(_row(f"({len(rest):,} more files)", total, operations, run, shown, bool(counted)))
    return [["", *(["operations", "share, %"] if counted else []), *shown], *body]


def _row(
    name: str,
    part: Mapping[str, int],
    operations: int | None,
    run: Run,
    shown: Mapping[str, tuple[str, ...]],
    counted: bool,
) -> list[str]:
    divisor = operations if counted else run.divisor
    share = _ratio(_added(part, _TRAFFIC), _added(run.counters, _TRAFFIC))
    front = [number(operations), number(None if share is None else round(100 * share, 2))] if counted else []
    totals = {label: _added(part, fields) for label, fields in shown.items()}
    cells = (total if label == _WALKS else _ratio(total, divisor or 1) for label, total in totals.items())
    return [name, *front, *map(number, cells)]


def _added(counters: Mapping[str, int], fields: tuple[str, ...]) -> int | None:
    return sum(counters[field] for field in fields) if all(field in counters for field in fields) else None


def _ratio(value: int | None, divisor: int | None) -> Value:
    return value / divisor if value is not None and divisor else None
