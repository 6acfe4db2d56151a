"""A real kernel's stream of lines: kept by the lab, and taken through data caches.

The plugin leaves out an access whose line was the last one used among the lines with the same number modulo 64.  Such an access
hits every first level with LRU and a multiple of 64 sets and changes nothing in it, so counts of misses are exact, and counts of
hits are unknown.  An inclusive last level may evict a line that the plugin still takes for present: not seen.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from scmsim import cache
from scmsim.cache import replay
from scmsim.cache.state import COLUMNS, ROW, Caches
from scmsim.core.atomic import whole
from scmsim.core.errors import UsageError
from scmsim.core.records import EVENT
from scmsim.lab import regions
from scmsim.lab.counts import symbol_address
from scmsim.lab.measured import Measured
from scmsim.lab.plan import Plan
from scmsim.lab.regions import REGIONS

SUFFIX = ".lines.parquet"
FORMAT = 1
SETS = 64  # of plugin.c
_KIND_BITS = 2  # LINE_KIND of plugin.c: line << 2 | kind, an event code
_ROWS = 1 << 20  # rows of a row group
_BATCH = 1 << 16
_SIDES = ("load", "store")
_FIELDS = ("lines", "l1_hit", "l2_lookups", "l2_hit", "memory")
Row = dict[str, Any]


def keep(path: str | os.PathLike[str], fs: str, plan: Plan, measured: Measured, kernel: str) -> None:
    """Write the lines of a run (Parquet: the plugin's records, and a header of JSON), a part at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    header = {
        "format": FORMAT,
        "fs": fs,
        "kernel": kernel,
        "calls": sum(region.calls for region in plan.regions),
        "image_end": symbol_address(measured.symbols, "_end") or regions.IMAGE_END,
        "buffer": int(measured.about["buffer"]),
        "huge_bytes": int(measured.about["huge_bytes"]),
    }
    assert measured.lines is not None
    schema = pa.schema([("line", pa.uint64())], metadata={"scmsim": json.dumps(header)})
    with whole(path) as draft, pq.ParquetWriter(draft, schema, compression="zstd") as file:
        for start in range(0, len(measured.lines), _ROWS):
            part = np.ascontiguousarray(measured.lines[start : start + _ROWS])
            file.write(pa.table([part], schema=schema))


class Kept:
    """Lines that `keep` wrote; read a part at a time.

    Raises UsageError for a file that is missing, damaged or something else.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        import pyarrow.parquet as pq

        try:
            self._file = pq.ParquetFile(path)
            self.header: dict[str, Any] = json.loads(self._file.schema_arrow.metadata[b"scmsim"])
            if self.header["format"] != FORMAT or self._file.schema_arrow.names != ["line"]:
                raise ValueError("of another version")
            self.lines: int = self._file.metadata.num_rows
            self.layout = regions.layout(int(self.header["image_end"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{str(path)!r} has no lines of the lab ({str(error)[:80]}); make it with scmsim lab caches"
            ) from None

    def batches(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (events of one line each, their regions) in order."""
        for batch in self._file.iter_batches(_BATCH):
            packed = batch.column(0).to_numpy()
            address = packed >> np.uint64(_KIND_BITS) << np.uint64(6)
            events = np.zeros(len(packed), EVENT)
            events["code"], events["length"] = packed & np.uint64((1 << _KIND_BITS) - 1), 1
            events["vaddr"] = address.view(np.int64)
            yield events, self.layout.of(address)


def check(name: str, table: Mapping[str, Any]) -> Caches:
    """Return the empty caches of a machine; raise UsageError if the plugin leaves out what they may lack."""
    caches = cache.build(table)
    if sets := int(caches.record[0]["level"][0]["sets"]) % SETS:
        raise UsageError(f"the L1D of machine {name!r} has {sets} sets; the lab records lines for a multiple of {SETS}")
    return caches


def counted(kept: Kept, machines: Mapping[str, Caches], progress: Callable[[int, int], None]) -> dict[str, list[Row]]:
    """Return rows of misses by machine for the lines in order through its caches."""
    rows = {name: np.zeros(len(REGIONS), ROW) for name in machines}
    done = 0
    for events, region in kept.batches():
        for name, caches in machines.items():
            replay.simulate(caches.record, caches.arena, rows[name], events, region)
        done += len(events)
        progress(done, kept.lines)
    return {name: table(each) for name, each in rows.items()}


def table(rows: np.ndarray) -> list[Row]:
    """Return the misses of each level by region, loads and stores together."""
    found = []
    for region, name in enumerate(REGIONS):
        counts = dict(zip(COLUMNS, rows["at"][region].tolist(), strict=True))
        both = {column: sum(counts[f"{side}_{column}"] for side in _SIDES) for column in _FIELDS}
        if both["lines"]:
            found.append(
                {
                    "region": name,
                    "l1_misses": both["lines"] - both["l1_hit"],
                    "l2_misses": both["l2_lookups"] - both["l2_hit"],
                    "llc_misses": both["memory"],
                }
            )
    return found
