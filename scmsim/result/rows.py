"""Convert runs to flat rows of a table, to notes on failures and warnings, and to values of JSON."""

import csv
import dataclasses
import io
import os
from collections.abc import Mapping, Sequence
from typing import Any

from scmsim.core.errors import UsageError
from scmsim.core.text import printable
from scmsim.result.run import Run

LEVELS = ("run", "site", "group")


def rows_of(runs: Sequence[Run], level: str) -> list[dict[str, Any]]:
    """Return the rows of a level: one per run, per site or per group."""
    if level not in LEVELS:
        raise UsageError(f"no level {level!r}; choose from {', '.join(LEVELS)}")
    if level == "run":
        return [_run_row(run) for run in runs]
    if level == "site":
        return [
            {**run.names(), "site": name, "calls": run.calls, **counters}
            for run in runs
            for name, counters in run.sites.items()
        ]
    return [
        {**run.names(), "group": name, "calls": run.calls, "operations": run.group_operations.get(name), **counters}
        for run in runs
        for name, counters in run.groups.items()
    ]


def notes_of(runs: Sequence[Run]) -> list[str]:
    """Return the failures and warnings of all runs, each once, with the names of its run in front."""
    found: dict[str, None] = {}
    for run in runs:
        title = " ".join(name for name in run.names().values() if name)
        for note in [
            *(f"{what} {count:,}" for what, count in run.errors.items()),
            *(f"warning: {text}" for text in run.warnings),
        ]:
            found[printable(f"{title}: {note}")] = None
    return list(found)


def _run_row(run: Run) -> dict[str, Any]:
    """Return a run as one flat row: counters and metrics have their own names, entries of other tables a prefix."""
    tables: list[tuple[str, Mapping[str, Any]]] = [
        ("", run.counters),
        ("", run.metrics),
        ("payload_", run.payload),
        ("stored_bytes_", run.stored_bytes),
        ("space_", run.space),
        ("time_ns_", run.time_ns),
        ("errors_", run.errors),
        ("param_", run.params),
    ]
    row: dict[str, Any] = {**run.names(), **{f"cell_{key}": value for key, value in run.cell.items()}}
    row |= {"calls": run.calls, "operations": run.operations, "repeated": run.repeated}
    row |= {"touches": run.touches} if run.touches else {}
    for prefix, table in tables:
        row.update({f"{prefix}{name}": value for name, value in table.items()})
    row["warnings"] = "; ".join(run.warnings)
    return row


def columns(rows: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(column for row in rows for column in row))


def as_csv(rows: list[dict[str, Any]]) -> str:
    """Return the text of a CSV file with the columns of all rows."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, columns(rows), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def plain(value: Any) -> Any:
    """Return a NumPy scalar, a path or a record of a medium's table as a JSON value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in a result")
