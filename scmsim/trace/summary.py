"""Compute a trace's totals for `scmsim trace info` and find its problems for `scmsim trace check`."""

from itertools import chain
from typing import Any

import numpy as np

from scmsim.core.records import CONTINUES, OFFSET_UNKNOWN, OPS, READ, SETUP, WRITE
from scmsim.trace.rules import NEVER, files_problems, problems, time_problems
from scmsim.trace.store import StoredTrace


def totals(trace: StoredTrace) -> dict[str, Any]:
    """Return rows, calls, bytes (read, written), duration in ns and counts by operation, in one pass."""
    out = dict.fromkeys(("calls", "setup_rows", "bytes_read", "bytes_written", "unknown_offsets", "duration_ns"), 0)
    counts, threads, used = np.zeros(len(OPS), "i8"), -1, np.zeros(len(trace.files), bool)
    for batch in trace.batches(1 << 16):
        flag, length = batch["flag"], batch["length"]
        setup = (flag & SETUP) != 0
        out["setup_rows"] += int(setup.sum())
        out["calls"] += int(np.count_nonzero((flag & (CONTINUES | SETUP)) == 0))
        out["bytes_read"] += int(length[(batch["op"] == READ) & ~setup].sum())
        out["bytes_written"] += int(length[(batch["op"] == WRITE) & ~setup].sum())
        out["unknown_offsets"] += int(np.count_nonzero(flag & OFFSET_UNKNOWN))
        out["duration_ns"] = max(out["duration_ns"], int(batch["time_ns"].max()))
        counts += np.bincount(batch["op"], minlength=len(OPS))
        threads = max(threads, int(batch["thread"].max()))
        used[batch["file"][batch["file"] >= 0]] = True
    ops = {name: int(count) for name, count in zip(OPS, counts, strict=True) if count}
    rest = {"threads": threads + 1, "files": len(trace.files), "files_used": int(used.sum())}
    return {"rows": trace.rows, **out, **rest, "ops": ops}


def all_problems(trace: StoredTrace) -> list[str]:
    """Return each broken rule once, with its first row and its number of rows; empty for a sound trace."""
    seen: dict[str, list[Any]] = {}
    rows, before = 0, NEVER
    for first, group in trace.groups():
        for rule, broken, text in chain(problems(group, len(trace.files)), time_problems(group, before)):
            entry = seen.setdefault(rule, [first + int(broken[0]), text, 0])
            entry[2] += len(broken)
        rows += len(group)
        before = int(group["time_ns"][-1]) if len(group) else before
    out = [f"row {row}: {text}{f' ({count} rows)' if count > 1 else ''}" for row, text, count in seen.values()]
    if rows != trace.rows:
        out.append(f"the footer says {trace.rows} rows, the file holds {rows}")
    return out + list(files_problems(trace.files))
