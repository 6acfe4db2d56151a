"""Write and read accesses as Parquet (zstd): every row of a replay, from which the MMU's counters follow exactly.

Columns: see `columns` and docs/guide/accesses.md.  The key `scmsim.accesses` of the file's metadata is the provenance as JSON.
pyarrow is imported on first use, because loading it would slow down commands that do not need it.
"""

import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from scmsim.accesses.rows import DATA, KINDS, WRITE_BACK, Rows
from scmsim.core.errors import UsageError
from scmsim.core.records import CONTIGUOUS, EVENT, FENCE, MILLI, ORDER, SCM_TABLE, SPACES

KEY = b"scmsim.accesses"
_GROUP = 1 << 18  # rows of a row group
_NEEDED = ("kind", "virtual", "size", "width", "page", "contiguous", "scm_table", "setup", "instructions")


def columns(rows: Rows, sites: Sequence[str]) -> dict[str, Any]:
    """Return the columns of the file, as Arrow arrays by name.

    Numbers have no nulls, because nulls would make pandas turn addresses into floats.
    """
    import pyarrow as pa

    return {
        "operation": pa.array(rows.operation),
        "thread": pa.array(rows.thread.astype(np.int32)),
        "setup": pa.array(rows.setup),
        "kind": _named(rows.kind, KINDS),
        "mechanism": _named(rows.site, sites),
        "space": _named(rows.space, SPACES, rows.kind == FENCE),
        "virtual": pa.array(rows.virtual.view(np.uint64)),
        "device": pa.array(rows.device),
        "size": pa.array(rows.length),
        "width": pa.array(rows.width),
        "page": pa.array(np.where(rows.order > 0, np.left_shift(1, rows.order.astype(np.int64) & ORDER), 0)),
        "contiguous": pa.array(rows.order & CONTIGUOUS > 0),
        "scm_table": pa.array(rows.order & SCM_TABLE > 0),
        "instructions": pa.array(rows.instructions / MILLI),
    }


def _named(codes: np.ndarray, names: Sequence[str], mask: np.ndarray | None = None) -> Any:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int16), mask=mask), pa.array(list(names), pa.string())
    )


class Writer:
    """A writer of rows, a row group at a time; use it as a context manager."""

    def __init__(self, path: pathlib.Path, sites: Sequence[str], header: Mapping[str, Any]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.sites, self.counts = sites, {"rows": 0}
        self.waiting: list[Any] = []
        none = Rows(*(np.zeros(0, bool if name == "setup" else np.int64) for name in Rows._fields))
        schema = pa.table(columns(none, sites)).schema.with_metadata({KEY: json.dumps(header, ensure_ascii=False)})
        self.file = pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True)

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            self._write()
        self.file.close()

    def add(self, rows: Rows) -> None:
        import pyarrow as pa

        self.waiting.append(pa.table(columns(rows, self.sites)))
        self.counts["rows"] += len(rows.kind)
        if sum(table.num_rows for table in self.waiting) >= _GROUP:
            self._write()

    def _write(self) -> None:
        import pyarrow as pa

        if self.waiting:
            self.file.write_table(pa.concat_tables(self.waiting), row_group_size=_GROUP)
        self.waiting = []


def is_table(path: "str | os.PathLike[str]") -> bool:
    """Return whether a file is readable Parquet with the key of accesses."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return KEY in (pq.read_metadata(path).metadata or {})
    except (pa.ArrowException, OSError):
        return False


def events(path: "str | os.PathLike[str]") -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Yield (EVENTs for the MMU, whether each is setup, other instructions in thousandths) for each part of a file.

    Raises UsageError for a file that is missing, damaged or without accesses.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    where = repr(os.fspath(path))
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            if KEY not in (file.metadata.metadata or {}) or not set(_NEEDED) <= set(file.schema_arrow.names):
                raise UsageError(
                    f"{where} is a Parquet file but not one of accesses; write it with 'scmsim replay --accesses'"
                )
            for batch in file.iter_batches(_GROUP, columns=list(_NEEDED)):
                yield _events(batch)
    except (pa.ArrowException, OSError, ValueError) as error:
        line = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")[:120]
        raise UsageError(f"{where} cannot be read as Parquet ({line}); write it again") from None


def _events(batch: Any) -> tuple[np.ndarray, np.ndarray, int]:
    kind = batch.column("kind")
    codes = np.array([KINDS.index(name) for name in kind.dictionary.to_pylist()], np.int64)[kind.indices.to_numpy()]
    columns = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in _NEEDED if name != "kind"}
    known = (codes != WRITE_BACK) & (codes != FENCE)
    moved = np.isin(codes, DATA)
    # fetches and accesses retire instructions; the MMU counts those of accesses itself
    other = int(np.rint(columns["instructions"][~moved & ~columns["setup"]] * MILLI).sum())
    found = np.zeros(int(np.count_nonzero(known)), EVENT)
    found["code"] = codes[known]
    found["vaddr"] = columns["virtual"].view(np.int64)[known]
    found["length"], found["width"] = columns["size"][known], columns["width"][known]
    order = np.log2(np.maximum(columns["page"], 1)).astype(np.uint8)
    found["order"] = (order | columns["contiguous"] * CONTIGUOUS | columns["scm_table"] * SCM_TABLE)[known]
    return found, columns["setup"][known], other
