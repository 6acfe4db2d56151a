"""Counts of a guest by call stack, kept in a file, for the comparison of two kernels and for flame graphs."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scmsim.core.atomic import whole
from scmsim.core.errors import UsageError
from scmsim.lab import counts
from scmsim.lab.calls import KINDS
from scmsim.lab.outcome import Outcome

SUFFIX = ".calls.parquet"
FORMAT = 1
MISSES = ("l1_misses", "walks")  # TLB misses, present only if they were counted
LABELS = ("op", "unit", "kind", "task", "site", "function", "stack")


@dataclass(frozen=True)
class CallCounts:
    """A guest's counts by region, task and call stack."""

    # fs, kernel, `machine` (name of the machine whose TLB misses were counted, or None), and `calls`: a list of [op, unit, calls]
    header: dict[str, Any]
    # columns `LABELS`, those of `counts.COUNTERS`, and `MISSES` if there is a machine; a row for each stack of each region
    # and task
    frame: Any


def keep(
    path: str | os.PathLike[str],
    found: Outcome,
    kernel: str,
    machine: str | None = None,
    misses: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Write a guest's counts by call stack; `misses` has the TLB misses of `machine` for each row (see `tlb.by_row`)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    regions = found.plan.regions
    about = [(region.label, int(region.cell.get("unit_bytes", 0))) for region in regions]
    calls = [[*each, region.calls] for each, region in zip(about, regions, strict=True) if region.calls]
    header = {"format": FORMAT, "fs": found.fs, "kernel": kernel, "machine": machine, "calls": calls}
    own = found.calls
    labels = zip(found.region, own.task, found.site, own.function, own.stacks(), strict=True)
    sums = counts.sums(own.rows, labels, misses)
    keys = [(*about[region - 1], KINDS[task[0]], task[1], site, *rest) for region, task, site, *rest in sums]
    columns: dict[str, Any] = {
        name: pa.array([key[k] for key in keys]).dictionary_encode()
        if name != "unit"
        else pa.array([key[k] for key in keys], pa.int64())
        for k, name in enumerate(LABELS)
    }
    columns |= {
        name: pa.array(np.array([each[name] for each in sums.values()], np.uint64))
        for name in (*counts.COUNTERS, *(misses or ()))
    }
    table = pa.table(columns).replace_schema_metadata({"scmsim": json.dumps(header)})
    with whole(path) as draft:
        pq.write_table(table, draft, compression="zstd")


def load(path: str | os.PathLike[str]) -> CallCounts:
    """Return the counts that `keep` wrote; raises UsageError for any other file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        header: dict[str, Any] = json.loads(table.schema.metadata[b"scmsim"])
        header.setdefault("machine", None)
        counted = (*counts.COUNTERS, *(MISSES if header["machine"] else ()))
        if header["format"] != FORMAT or table.schema.names != [*LABELS, *counted]:
            raise ValueError("of another version")
        labels = {name: table.column(name).cast(pa.string()) for name in LABELS if name != "unit"}
        rest = {name: table.column(name).cast(pa.int64()) for name in ("unit", *counted)}
        frame = pa.table({name: labels.get(name, rest.get(name)) for name in (*LABELS, *counted)}).to_pandas()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{str(path)!r} has no counts by call ({str(error)[:80]}); make it with scmsim lab run"
        ) from None
    return CallCounts(header, frame)
