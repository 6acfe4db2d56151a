"""Make the zoo: one table of every bundled trace and some workloads, replayed on every file system.

An entry of zoo.toml is a trace or a workload.  Each pair of an entry and a file system is a point of a sweep, which can be resumed.
"""

import fnmatch
import hashlib
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scmsim.core import params, registry, toml
from scmsim.core.counters import SCHEMA
from scmsim.core.errors import UnknownName, unknown
from scmsim.core.records import OP_COLUMNS, Source
from scmsim.core.schema import listed, named, one_of, table, text
from scmsim.result import intervals
from scmsim.result.metrics import METRICS
from scmsim.result.run import SHORT, SYNC_AT_END
from scmsim.sweep import point, run
from scmsim.sweep.config import Sweep

_HERE = pathlib.Path(__file__).parent
_TRACES = (_HERE.parent / "traces", _HERE.parents[1] / "traces")  # in an installed package, in a checkout
_HASH = 16  # hexadecimal digits of a shown SHA-256
_LEFT_OUT = "were not replayed"  # part of a replay's warning about left-out operations
_COUNTS = ("payload_", "stored_bytes_", "space_", "errors_")  # prefixes of a row's counts in addition to the counters

# column -> key of a point's row
FIGURES = {
    "loads + stores a call": "tlb_traffic",
    "ns a call": "estimated_ns_per_call",
    "stored / written": "write_amplification",
    "loaded / read": "read_amplification",
    "walks": "dtlb_walks",
    "first-level misses": "dtlb_l1_misses",
    "waste, %": "space_waste_percent",
}
PER_CALL = ("tlb_traffic",)
SPANNED = tuple(
    column for column, key in FIGURES.items() if key in intervals.FIGURES
)  # columns whose figures can have an interval


@dataclass(frozen=True)
class Entry:
    """A trace or workload to replay; `settings` are its settings as a point of a sweep."""

    name: str
    what: str
    licence: str
    settings: Mapping[str, Any]
    operations: int
    sha256: str


@dataclass(frozen=True)
class Row:
    """The result of an entry on a file system: either `figures` by column and `sha256` of all counts, or `error`.

    `intervals`: {column: {"low", "high", "basis"}}, the 90 % intervals of the figures that can have one.
    """

    entry: str
    fs: str
    figures: Mapping[str, float | None]
    time_class: str
    failed: int = 0
    sha256: str = ""
    warnings: str = ""
    error: str = ""
    intervals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Return whether every operation was replayed and succeeded, so that the row is comparable with other rows."""
        return not self.error and not self.failed and _LEFT_OUT not in self.warnings


@dataclass(frozen=True)
class Class:
    """A class of file systems whose estimated times are equally trustworthy."""

    name: str
    meaning: str
    source: str
    fs: Sequence[str]


@dataclass(frozen=True)
class Zoo:
    """The whole zoo: what was replayed, and the results."""

    entries: Sequence[Entry]
    rows: Sequence[Row]
    classes: Sequence[Class]
    machine: str
    medium: str

    @property
    def sha256(self) -> str:
        """Return a digest of all rows' counts."""
        return _digest("".join(row.sha256 for row in self.rows).encode())


def chosen(traces: str = "all") -> list[Entry]:
    """Return the entries that match a list of names and patterns; raise UnknownName for a pattern without a match."""
    known = {given["name"]: given for given in _table()["entry"]}
    names: dict[str, None] = {}
    for pattern in (part.strip() for part in traces.split(",")):
        found = list(known) if pattern == "all" else fnmatch.filter(known, pattern)
        if not found:
            raise unknown("trace of the zoo", pattern, known)
        names |= dict.fromkeys(found)
    return [_entry(known[name]) for name in names]


def gathered(
    entries: Sequence[Entry],
    fs: Sequence[str],
    out: str | os.PathLike[str],
    *,
    jobs: int = 0,
    progress: run.Progress | None = None,
) -> Zoo:
    """Replay the points that the folder lacks, and gather all results; raises as `scmsim.sweep.run.run` does."""
    from scmsim.pipeline import DEFAULTS

    given = _table()
    own, only = given["set"], given["only"]
    for name in (*fs, *only):
        registry.path("fs", name)
    shared = {"machine": DEFAULTS["machine"], "medium": DEFAULTS["medium"], SYNC_AT_END: True}
    settings = {
        (entry.name, name): point.normal(
            {**shared, **entry.settings, "fs": name, **{f"set.{name}.{key}": v for key, v in own.get(name, {}).items()}}
        )
        for entry in entries
        for name in fs
        if entry.name in only.get(name, (entry.name,))
    }
    points = list(settings.values())
    outcome = run.run(Sweep(_HERE / "zoo.toml", "", points), out, jobs=jobs, progress=progress)
    found = _rows_of(outcome.results)
    keys = point.varying(points)
    classes = [Class(**kind) for kind in given["class"]]
    rows = []
    for (entry, name), one in settings.items():
        error = outcome.failed.get(point.in_words(one, keys), "")
        rows.append(_row(entry, name, found.get(point.key_of(one), {}), error, classes))
    return Zoo(entries, rows, classes, shared["machine"], shared["medium"])


def _table() -> Any:
    entry = {"name": text, "what": text, "licence": text, "trace": text, "workload": _workload}
    kinds = {"name": text, "meaning": text, "source": text, "fs": listed(text)}
    lists = {"class": listed(table(kinds)), "entry": listed(table(entry))}
    return toml.load(
        _HERE / "zoo.toml", table({"summary": text, "set": named(named(text)), "only": named(listed(text)), **lists})
    )


def _workload(value: Any) -> dict[str, Any]:
    """Check a workload's kind and parameters; return them as written, not parsed."""
    given = named(lambda inner: inner)(value)
    kind = one_of("workload", registry.names("workload"))(given.get("kind"))
    params.table("workload", kind)({key: inner for key, inner in given.items() if key != "kind"})
    return given


def _entry(given: Mapping[str, Any]) -> Entry:
    from scmsim.pipeline import open_source

    if "trace" in given:
        path = next((folder / given["trace"] for folder in _TRACES if (folder / given["trace"]).exists()), None)
        if path is None:
            raise UnknownName(f"no trace {given['trace']!r} is installed; leave {given['name']!r} out of --trace")
        settings: dict[str, Any] = {"trace": str(path)}
        source = open_source(str(path))[0]
        sha256 = _digest(path.read_bytes())
    else:
        settings = {f"workload.{key}": value for key, value in given["workload"].items()}
        source = open_source(point.source(point.normal({**settings, "fs": "nova-cow"})))[0]
        sha256 = _of_rows(source)
    return Entry(given["name"], given["what"], given["licence"], settings, source.rows, sha256)


def _of_rows(source: Source) -> str:
    """Return a digest of a trace's operations, field by field; it does not depend on batches, paths or dates."""
    fields = {name: hashlib.sha256() for name in OP_COLUMNS}
    for batch in source.batches():
        for name, whole in fields.items():
            whole.update(batch[name].astype("<i8").tobytes())
    return _digest(b"".join(whole.digest() for whole in fields.values()))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_HASH]


def _rows_of(results: pathlib.Path) -> dict[str, dict[str, Any]]:
    import pyarrow.parquet

    return {row["point"]: row for row in pyarrow.parquet.read_table(results).to_pylist()}


def _row(entry: str, fs: str, given: Mapping[str, Any], error: str, classes: Sequence[Class]) -> Row:
    time_class = next((kind.name for kind in classes if fs in kind.fs), classes[-1].name)
    if not given:
        return Row(entry, fs, dict.fromkeys(FIGURES), time_class, error=error)
    calls = max(1, given["calls"])

    def shown(key: str, value: float | None) -> float | None:
        return value / calls if key in PER_CALL and value is not None else value

    figures = {column: shown(key, given.get(key)) for column, key in FIGURES.items()}
    found = intervals.from_columns(given)
    spans = {
        column: {**found[key], **{bound: shown(key, found[key][bound]) for bound in ("low", "high")}}
        for column, key in FIGURES.items()
        if key in found
    }
    counts = {
        key: int(value)
        for key, value in given.items()
        if value is not None and (key in SCHEMA or (key.startswith(_COUNTS) and key not in METRICS))
    }
    failed = sum(
        count for key, count in counts.items() if key.startswith("errors_") and "first" not in key and SHORT not in key
    )
    sha256 = _digest(json.dumps(counts, sort_keys=True).encode())
    return Row(entry, fs, figures, time_class, failed, sha256, given.get("warnings") or "", intervals=spans)
