"""Result of an experiment: a manifest and one Run per combination of models, stored with the version of its schema.

The simulator, the perf harness and the emulated machine all return a Result, so that a prediction and a measurement are two
rows of one table.  JSON and Parquet keep everything and can be read back; CSV keeps one flat row per run.
"""

import base64
import dataclasses
import io
import json
import os
import pathlib
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scmsim.core.atomic import protect, protected, whole, writable
from scmsim.core.errors import UsageError, expect
from scmsim.result.rows import as_csv, columns, notes_of, plain, rows_of
from scmsim.result.rules import check
from scmsim.result.run import FOOTPRINTS as FOOTPRINTS
from scmsim.result.run import SHORT as SHORT
from scmsim.result.run import SYNC_AT_END as SYNC_AT_END
from scmsim.result.run import SYSTEM as SYSTEM
from scmsim.result.run import Run

if TYPE_CHECKING:
    import pandas

SCHEMA = 1
SUFFIXES = (".json", ".csv", ".parquet")
_PARQUET_KEY = b"scmsim.result"  # the whole result as compressed JSON in the metadata of the Parquet file
_MAX_JSON = 1 << 30  # maximum bytes of this JSON; the whole matrix of the thesis needs less than 1 % of it


@dataclass(repr=False)
class Result:
    """All runs of one experiment, and the manifest, which has their provenance (see `scmsim.result.provenance`)."""

    manifest: dict[str, Any] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    schema: int = SCHEMA

    def __repr__(self) -> str:
        systems = ", ".join(dict.fromkeys(run.fs for run in self.runs))
        return f"<Result of {len(self.runs)} run{'s' * (len(self.runs) != 1)}{': ' * bool(systems)}{systems}>"

    def __str__(self) -> str:
        return self.table()

    def notes(self) -> list[str]:
        """Return the failures and warnings of all runs, each once, with the names of its run in front."""
        return notes_of(self.runs)

    def to_json(self, indent: int | None = 2) -> str:
        """Return one JSON object: schema, manifest, results.

        `results` has one object per run; an absent metric is null, with its reason.
        """
        results = [dataclasses.asdict(run) for run in self.runs]
        for each in results:
            del each["group_sites"]  # 22 operations x 14 mechanisms: only the estimate of several threads reads it
        table = {"schema": self.schema, "manifest": self.manifest, "results": results}
        return json.dumps(table, indent=indent, allow_nan=False, default=plain)

    @classmethod
    def from_json(cls, text: str | bytes, where: str = "text") -> "Result":
        """Return the result in a text written by `to_json`; `where` names the source in errors.

        Raises UsageError for another schema.
        """
        expect("text", text, (str, bytes), "text of a result")
        try:
            table = json.loads(text, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{where} is not JSON: {error}; write it with scmsim's --out") from None
        if not isinstance(table, dict) or not {"schema", "manifest", "results"} <= table.keys():
            raise UsageError(f"{where} is not a result of scmsim: it has no schema, manifest and results")
        _check_schema(table["schema"], where)
        manifest, results = table["manifest"], table["results"]
        if not isinstance(manifest, dict) or not isinstance(results, list):
            raise UsageError(f"{where} is not a result of scmsim: its manifest must be a table, its results a list")
        return cls(manifest, [_run(run, f"{where}: results[{i}]") for i, run in enumerate(results)], table["schema"])

    def rows(self, level: str = "run") -> list[dict[str, Any]]:
        """Return flat rows: one per run, per site or per group (operation or file).

        Rows of sites and groups name their run and repeat the run's `calls`, but their counters are totals: divide them by
        `calls` for figures per call.
        """
        return rows_of(self.runs, level)

    def to_frame(self, level: str = "run") -> "pandas.DataFrame":
        """Return the rows as a pandas DataFrame; absent figures are missing (NaN)."""
        import pandas

        return pandas.DataFrame.from_records(self.rows(level))

    def table(self, by: str | None = None, **how: Any) -> str:
        """Return a plain-text comparison with runs as columns; `by` = "site", "op", "file" or "group" adds a breakdown.

        `how` chooses rows, ratios and the format (see `scmsim.result.table.text`).
        """
        from scmsim.result.table import text

        return text(self.runs, by, **how)

    def _repr_html_(self) -> str:
        from scmsim.result.table import html

        return html(self.runs)

    def write(self, path: str | pathlib.Path, level: str = "run") -> pathlib.Path:
        """Write the result in the format of the suffix (.json, .csv, .parquet), atomically; return the path.

        The table of .csv and .parquet has the rows of `level`, as `rows` returns them; .json and .parquet also keep
        everything else.
        """
        path = check_writable(path)
        rows = self.rows(level)
        if not rows and self.runs:
            raise UsageError(f"this result was not broken down by {level}; replay it again with by='op' or by='file'")
        content = (self.to_json() + "\n" if path.suffix == ".json" else as_csv(rows)).encode()
        if path.suffix == ".parquet":
            content = self._parquet_bytes(rows)
        with protected(self._inputs()), whole(path) as draft:
            draft.write_bytes(content)
        return path

    def _inputs(self) -> list[str]:
        """Return the files that the result was computed from, by its manifest; a manifest without a table of inputs has none."""
        inputs = self.manifest.get("inputs")
        return list(inputs) if isinstance(inputs, dict) else []

    def _parquet_bytes(self, rows: list[dict[str, Any]]) -> bytes:
        import pyarrow
        import pyarrow.parquet

        table = pyarrow.table({name: pyarrow.array([row.get(name) for row in rows]) for name in columns(rows)})
        packed = base64.b64encode(zlib.compress(self.to_json(indent=None).encode()))  # Parquet metadata must be text
        out = io.BytesIO()
        with pyarrow.parquet.ParquetWriter(out, table.schema, compression="zstd") as writer:
            writer.write_table(table)
            writer.add_key_value_metadata({_PARQUET_KEY: packed})  # in the table's schema it would be stored twice
        return out.getvalue()


def check_writable(path: str | pathlib.Path) -> pathlib.Path:
    """Check, before the work starts, that `path` has a known suffix and its folder exists; return the path."""
    expect("path", path, (str, os.PathLike), "the name of a file")
    path = pathlib.Path(path)
    if path.suffix not in SUFFIXES:
        raise UsageError(f"cannot tell the format of {str(path)!r}; the name must end in {', '.join(SUFFIXES)}")
    writable(path)
    return path


def read(path: str | pathlib.Path) -> Result:
    """Read a result written as .json or .parquet; raises UsageError for another format or schema."""
    found = _content(path)
    protect(path, *found._inputs())
    return found


def _content(path: str | pathlib.Path) -> Result:
    expect("path", path, (str, os.PathLike), "the name of a file or a folder")
    where, path = repr(str(path)), pathlib.Path(path)
    if where == "''" or not path.exists():
        raise UsageError(f"no such file or folder {where}; give a result (.json, .parquet) or a folder of results")
    if path.suffix == ".csv":
        raise UsageError(f"{where} holds the flat table of a result only; write .json or .parquet to read it back")
    if path.suffix not in SUFFIXES:
        raise UsageError(f"cannot tell the format of {where}; the name must end in .json or .parquet")
    try:
        return Result.from_json(_parquet_json(path) if path.suffix == ".parquet" else path.read_bytes(), where)
    except OSError as error:
        raise UsageError(f"cannot read {where}: {(error.strerror or str(error)).lower()}") from None


def is_result(path: pathlib.Path) -> bool:
    """Return whether a file holds a result, as `Result.write` writes it."""
    try:
        if path.suffix == ".csv":
            with path.open(encoding="utf-8") as file:
                return file.readline(200).startswith("fs,machine,")
        _content(path)
    except (OSError, ValueError, UsageError):
        return False
    return True


def read_all(path: str | pathlib.Path) -> Result:
    """Return the result in a file, or in a folder: its result.json, else all its results as one, with the first manifest.

    Raises UsageError for a folder without a result, or anything that `read` refuses.
    """
    expect("path", path, (str, os.PathLike), "the name of a file or a folder")
    folder = pathlib.Path(path)
    if not folder.is_dir() or path == "":  # pathlib treats "" as the current folder
        return read(path)
    if (folder / "result.json").exists():  # `perf run` writes other files beside it
        return read(folder / "result.json")
    files = sorted(file for file in folder.iterdir() if file.suffix in (".json", ".parquet"))
    if not files:
        raise UsageError(f"no .json or .parquet in the folder {str(folder)!r}; write results there with --out")
    parts = [read(file) for file in files]
    manifest = {**parts[0].manifest, "parts": [file.name for file in files]}
    return Result(manifest, [run for part in parts for run in part.runs])


def _parquet_json(path: pathlib.Path) -> bytes:
    import pyarrow
    import pyarrow.parquet

    with path.open("rb") as file:
        try:
            metadata = pyarrow.parquet.read_metadata(file).metadata or {}
        except pyarrow.ArrowInvalid:
            raise UsageError(f"{str(path)!r} is not a Parquet file; was it written to the end?") from None
    if _PARQUET_KEY not in metadata:
        raise UsageError(f"{str(path)!r} is a Parquet file but not a result of scmsim; is it a trace?")
    return _unpacked(metadata[_PARQUET_KEY], path)


def _unpacked(content: bytes, path: pathlib.Path) -> bytes:
    if content.startswith(b"{"):  # written before results were compressed
        return content
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(base64.b64decode(content, validate=True), _MAX_JSON)
    except (ValueError, zlib.error):
        text = b""
    if not unpacking.eof:
        raise UsageError(f"the result in {str(path)!r} is damaged; write it again")
    return text


def _check_schema(schema: Any, where: str) -> None:
    if schema == SCHEMA:
        return
    if isinstance(schema, int) and schema > SCHEMA:
        raise UsageError(f"{where} has schema {schema}, newer than {SCHEMA}; read it with a newer scmsim")
    raise UsageError(f"{where} has schema {schema!r}, this scmsim reads {SCHEMA}; run the experiment again")


def _run(table: Any, where: str) -> Run:
    try:
        run = Run(**table)
        check(run)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where} has a run that schema {SCHEMA} does not allow: {error}") from None
    return run


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a number of JSON")
