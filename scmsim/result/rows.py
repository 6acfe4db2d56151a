"""Runs as flat rows of a table, and their values as JSON has them."""

import os
from collections.abc import Mapping
from typing import Any

from scmsim.result.run import Run


def run_row(run: Run) -> dict[str, Any]:
    """One flat row: counters and metrics under their own names, the other tables under a prefix."""
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
    for prefix, table in tables:
        row.update({f"{prefix}{name}": value for name, value in table.items()})
    row["warnings"] = "; ".join(run.warnings)
    return row


def columns(rows: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(column for row in rows for column in row))


def plain(value: Any) -> Any:
    """NumPy scalars and paths as JSON values."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in a result")
