"""Write and read stored traces: Parquet files (zstd) with a column for each field of OP.

The column `op` has the operation's name (dictionary encoded), `flags` the bits of OP.flag; the other columns have
the name and type of their field.  Three keys of the file's key-value metadata make it a trace: `scmsim.schema` (a
number), `scmsim.header` (the provenance as JSON), `scmsim.files` (the side table: an Arrow IPC stream, zstd, base64).
pyarrow is imported on first use, because loading it takes longer than a light command takes in all.
"""

import base64
import contextlib
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from scmsim.core.atomic import draft_of, protect, unwritten
from scmsim.core.errors import UsageError, shown
from scmsim.core.records import OP, OPS, Files, joined
from scmsim.trace._path import MAGIC, trace_path
from scmsim.trace.rules import NEVER, all_sound, check_files, clip_first_sizes, first_problem

SCHEMA = 2
ROWS_PER_GROUP = 1 << 16
COLUMNS = (
    ("time_ns", "i8"),
    ("op", "name"),
    ("file", "i4"),
    ("file2", "i4"),
    ("offset", "i8"),
    ("length", "i8"),
    ("thread", "i4"),
    ("flags", "i4"),
    ("buffer", "i8"),
)
_SINCE = {"buffer": 2}  # first schema of columns that older schemas lack; read as zero there
_HEADER_TYPES: dict[str, type] = {"counts": dict, "bad_lines": dict, "blind_spots": list, "notes": list}
_IN_WORDS: dict[type, str] = {dict: "table", list: "list"}
_BLOCK = 1 << 11  # rows that stay in a core's cache while they are filled column by column


class TraceWriter:
    """A writer of a trace: row groups go to a temporary file beside `path`, which `close` renames to `path`.

    Parameters
    ----------
    path : path-like
        Name of the finished file; an existing file is replaced only by a complete one.
    header : dict
        Provenance, JSON-able; kept by reference, so the caller may add to it until `close`.

    Use the writer as a context manager: without a `close` before its end, the temporary file is removed.
    """

    def __init__(self, path: str | os.PathLike[str], header: dict[str, Any]) -> None:
        self.path = trace_path(path)
        self.header = header
        self.rows = 0
        self._writer: Any = None
        self._temporary = draft_of(self.path)
        self._waiting: list[np.ndarray] = []
        self._waiting_rows = 0

    def __enter__(self) -> "TraceWriter":
        import pyarrow.parquet as pq

        try:
            self._writer = pq.ParquetWriter(
                self._temporary,
                _schema(),
                compression="zstd",
                compression_level=9,
                use_dictionary=["op", "file", "file2", "length", "thread", "flags"],
                column_encoding={"time_ns": "DELTA_BINARY_PACKED", "offset": "DELTA_BINARY_PACKED"},
                write_page_checksum=True,
            )
        except BaseException as error:  # also for a signal: the file exists before its writer does
            self._temporary.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise unwritten(self.path, error) from None
            raise
        return self

    def __exit__(self, *error: object) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            with contextlib.suppress(OSError):  # the error that ended the writing is more useful
                writer.close()
        self._temporary.unlink(missing_ok=True)

    def append(self, batch: np.ndarray) -> None:
        """Add records of dtype OP; write them once a row group is full."""
        if batch.dtype != OP:
            raise TypeError(
                f"a batch must have the dtype records.OP, not {batch.dtype}; join arrays with records.joined"
            )
        self._waiting.append(np.array(batch, copy=True))
        self.rows += len(batch)
        self._waiting_rows += len(batch)
        if self._waiting_rows >= ROWS_PER_GROUP:
            self._flush(ROWS_PER_GROUP)

    def close(self, files: Files) -> None:
        """Write the remaining rows and the side table, and rename the temporary file to `path`."""
        files, note = clip_first_sizes(files)
        if note:
            self.header["notes"] = [*self.header.get("notes", []), note]
        self._flush(1)
        self._writer.add_key_value_metadata(
            {
                "scmsim.schema": str(SCHEMA),
                "scmsim.header": json.dumps(self.header, ensure_ascii=False),
                "scmsim.files": _pack_files(files),
            }
        )
        try:
            self._writer.close()
            self._writer = None
            os.replace(self._temporary, self.path)
        except OSError as error:
            raise unwritten(self.path, error) from None

    def _flush(self, at_least: int) -> None:
        waiting = joined(self._waiting) if self._waiting else np.empty(0, OP)
        start = 0
        while len(waiting) - start >= at_least:
            group = waiting[start : start + ROWS_PER_GROUP]
            try:
                self._writer.write_table(_to_table(group), row_group_size=ROWS_PER_GROUP)
            except OSError as error:
                raise unwritten(self.path, error) from None
            start += len(group)
        self._waiting, self._waiting_rows = [waiting[start:]], len(waiting) - start


class StoredTrace:
    """A trace on disk, a `records.Source`, with its side table in memory; rows are streamed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = pathlib.Path(path)
        metadata, self.rows = _footer(self.path)
        self.header: dict[str, Any] = _decode(self.path, "header", lambda: _header(metadata[b"scmsim.header"]))
        self.files: Files = _decode(self.path, "side table", lambda: _unpack_files(metadata[b"scmsim.files"]))

    def batches(self, chunk: int = 1 << 14) -> Iterator[np.recarray]:
        """Yield record arrays of OP with at most `chunk` rows; raise UsageError for a row that cannot be replayed."""
        if chunk < 1:
            raise UsageError(f"a chunk of {chunk} rows is impossible; give at least 1")
        check_files(self.files, repr(str(self.path)))
        first, count, before = 0, len(self.files), NEVER
        for columns in self._columns():
            group = _records(columns)
            if not all_sound(columns, count, before) and (problem := first_problem(group, count, before)):
                row, what = problem
                raise UsageError(
                    f"{str(self.path)!r}: row {first + row}: {what}; see all with 'scmsim trace check {self.path}'"
                )
            first += len(group)
            before = int(columns["time_ns"][-1]) if len(group) else before
            for start in range(0, len(group), chunk):
                yield group[start : start + chunk].view(np.recarray)

    def groups(self) -> Iterator[tuple[int, np.recarray]]:
        """Yield (number of the first row, records) of each row group, with unknown operation names as code -1."""
        first = 0
        for columns in self._columns():
            group = _records(columns)
            yield first, group
            first += len(group)

    def _columns(self) -> Iterator[dict[str, np.ndarray]]:
        import pyarrow as pa

        try:
            file = _open(self.path)
            columns = [name for name, _ in COLUMNS if name in file.schema_arrow.names]
            for batch in file.iter_batches(ROWS_PER_GROUP, columns=columns):
                yield _fields(batch)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _damaged(self.path, error) from None


def open_trace(path: str | os.PathLike[str]) -> StoredTrace:
    """Open a stored trace; raise UsageError (one line) if the file is not a trace."""
    protect(path)
    return StoredTrace(path)


def _schema() -> Any:
    import pyarrow as pa

    types = {"i8": pa.int64(), "i4": pa.int32(), "name": pa.dictionary(pa.int8(), pa.string())}
    return pa.schema([pa.field(name, types[kind], nullable=False) for name, kind in COLUMNS])


def _to_table(group: np.ndarray) -> Any:
    import pyarrow as pa

    codes = group["op"]
    if len(codes) and not 0 <= codes.min() <= codes.max() < len(OPS):
        raise UsageError(f"no operation has the code {codes[(codes < 0) | (codes >= len(OPS))][0]}; see records.OPS")
    names = pa.DictionaryArray.from_arrays(pa.array(codes.astype("i1")), pa.array(OPS))
    fields = {"op": names, "flags": pa.array(np.ascontiguousarray(group["flag"].astype("i4")))}
    plain = (fields.get(name, None) for name, _ in COLUMNS)
    arrays = [
        array if array is not None else pa.array(np.ascontiguousarray(group[name].astype(kind)))
        for array, (name, kind) in zip(plain, COLUMNS, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=_schema())


def _fields(batch: Any) -> dict[str, np.ndarray]:
    """Return a batch's columns as arrays, one for each field of OP."""
    known = batch.schema.names
    out = {
        "flag" if name == "flags" else name: _numbers(batch.column(name))
        if name in known
        else np.zeros(len(batch), "i8")
        for name, kind in COLUMNS
        if kind != "name"
    }
    names = batch.column("op")
    names = names if hasattr(names, "indices") else names.dictionary_encode()
    codes = np.array([OPS.index(name) if name in OPS else -1 for name in names.dictionary.to_pylist()], "i8")
    out["op"] = codes[_numbers(names.indices)] if len(codes) else np.full(len(batch), -1)
    return out


def _records(fields: dict[str, np.ndarray]) -> np.recarray:
    out = np.empty(len(fields["op"]), OP)
    for start in range(0, len(out), _BLOCK):
        block = out[start : start + _BLOCK]
        for name, values in fields.items():
            block[name] = values[start : start + _BLOCK]
    return out.view(np.recarray)


def _numbers(array: Any) -> np.ndarray:
    """Return the values of an Arrow array of integers without nulls (`to_numpy` would import pandas, 0.3 s)."""
    array = array.combine_chunks() if hasattr(array, "combine_chunks") else array
    return np.from_dlpack(array) if len(array) else np.zeros(0, np.int64)


def _pack_files(files: Files) -> str:
    import pyarrow as pa

    columns = {"path": files.path, "first_size": files.first_size, "is_dir": files.is_dir}
    table = pa.table(columns, schema=_files_schema())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def _unpack_files(packed: bytes) -> Files:
    import pyarrow as pa

    table = pa.ipc.open_stream(base64.b64decode(packed, validate=True)).read_all().cast(_files_schema())
    sizes, dirs = _numbers(table.column("first_size")), table.column("is_dir").to_pylist()
    return Files(table.column("path").to_pylist(), sizes.astype("i8"), np.array(dirs, bool))


def _files_schema() -> Any:
    import pyarrow as pa

    fields = (("path", pa.string()), ("first_size", pa.int64()), ("is_dir", pa.bool_()))
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in fields])


def _footer(path: pathlib.Path) -> tuple[dict[bytes, bytes], int]:
    """Return the key-value metadata and the number of rows, after every check that needs no row."""
    import pyarrow as pa

    _check_kind(path)
    try:
        footer = _open(path)
        metadata, rows, schema = footer.metadata.metadata or {}, footer.metadata.num_rows, footer.schema_arrow
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(path, error) from None
    version = metadata.get(b"scmsim.schema", b"")[:10].decode("latin-1")
    if (
        not (version.isascii() and version.isdigit())
        or b"scmsim.header" not in metadata
        or b"scmsim.files" not in metadata
    ):
        raise UsageError(f"{str(path)!r} is a Parquet file but not a trace; see 'scmsim trace convert --help'")
    if int(version) > SCHEMA:
        raise UsageError(f"{str(path)!r} has the trace schema {version}, newer than {SCHEMA}; update scmsim to read it")
    for field in _schema():
        if field.name not in schema.names and int(version) < _SINCE.get(field.name, 0):
            continue
        if field.name not in schema.names or not _same_type(schema.field(field.name).type, field.type):
            raise UsageError(
                f"{str(path)!r}: column {field.name!r} is missing or of a wrong type; make the trace again"
            )
    return metadata, rows


def _same_type(found: Any, wanted: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(wanted):
        return pa.types.is_string(found) or (pa.types.is_dictionary(found) and pa.types.is_string(found.value_type))
    return bool(found == wanted)


def _check_kind(path: pathlib.Path) -> None:
    if os.path.isdir(path):
        raise UsageError(f"{str(path)!r} is a directory; name a trace file in it")
    if not os.path.exists(path):  # for a name that is too long, Path.exists would raise OSError
        raise UsageError(f"no trace file {str(path)!r}; make one with 'scmsim capture -o {path} -- CMD'")
    with open(path, "rb") as file:
        head = file.read(1 << 14)
    if head[:4] == MAGIC:
        return
    if not head:
        raise UsageError(f"{str(path)!r} is empty; make the trace again")
    from scmsim.trace.formats import sniff_file

    name = sniff_file(path)
    if name is None:
        raise UsageError(f"{str(path)!r} is not a trace (no Parquet file); see 'scmsim trace convert --help'")
    raise UsageError(f"{str(path)!r} is {name} output; convert it first: 'scmsim trace convert {path} OUT.parquet'")


def _open(path: pathlib.Path) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, page_checksum_verification=True)


def _header(text: bytes) -> dict[str, Any]:
    """Return the provenance of a trace; raise ValueError if an entry has a type that its readers do not expect."""
    header = json.loads(text, parse_constant=_refuse_constant)
    if not isinstance(header, dict):
        raise ValueError("it must be a table")
    for name, kind in _HEADER_TYPES.items():
        if not isinstance(header.get(name, kind()), kind):
            raise ValueError(f"its {name!r} must be a {_IN_WORDS[kind]}, not {shown(header[name])}")
    for name in ("blind_spots", "notes"):
        if not all(isinstance(line, str) for line in header.get(name, [])):
            raise ValueError(f"its {name!r} must be a list of texts")
    json.dumps(header)  # RecursionError if it is nested too deeply for Python to write
    return header


def _refuse_constant(text: str) -> None:
    raise ValueError(f"it has {text}, which is not a number")


def _decode(path: pathlib.Path, what: str, read: Any) -> Any:
    import pyarrow as pa

    try:
        return read()
    except (pa.ArrowException, OSError, ValueError, KeyError, RecursionError) as error:
        raise UsageError(f"{str(path)!r}: its {what} cannot be read ({_line(error)}); make the trace again") from None


def _damaged(path: pathlib.Path, error: Exception) -> UsageError:
    return UsageError(f"{str(path)!r} is damaged or cut short ({_line(error)}); make the trace again")


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")[:120]
