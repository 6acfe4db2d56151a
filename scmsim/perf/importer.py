"""Import measurements made elsewhere: perf stat, perf script, the emulated machine's CSV, the thesis's columns.

`form_<event>_<FS>.txt` is the thesis's format (appendix, "Raw measurements"): one column of 11 file sizes x 14 units x 10
repeats x 4 operations, with the operation varying fastest, then the repeat, the unit, the file size.
"""

import collections
import contextlib
import csv
import itertools
import math
import pathlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scmsim.core.errors import UsageError
from scmsim.perf.event_names import check_table, fields, modifier
from scmsim.perf.parse import stat_kind
from scmsim.perf.script import parse_script
from scmsim.perf.stat_run import fill
from scmsim.result import Result, Run, metrics, provenance

MAX_BYTES = 1 << 28  # maximum bytes of a file; the longest perf script of a profile has some tens of MB

# The thesis, chapter 5 and appendix: 1 MiB to 1 GiB, 1 KiB to 4 MiB (48 KiB among them), moving 10 GB in each run.
FILE_SIZES = tuple(1 << 20 + i for i in range(11))
UNITS = tuple(kib << 10 for kib in (1, 2, 4, 8, 16, 32, 48, 64, 128, 256, 512, 1024, 2048, 4096))
OPERATIONS = ("write", "rewrite", "read", "reread")
TOTAL = 10 << 30
_FS_NAMES = {"EXT4": "ext4", "EXT4DAX": "ext4-dax", "NOVA": "nova"}
_FORM = re.compile(r"form_(?P<event>.+)_(?P<fs>[A-Za-z0-9-]+)\.txt")

# Columns of the emulated machine's CSV (values per call) -> counters.  Its other columns keep their names.
_LAB = {
    "ins_call": "instructions",
    "ld_norep_call": "mem_inst_retired_all_loads",
    "st_norep_call": "mem_inst_retired_all_stores",
    "flush_call": "flushes",
    "sfence_call": "fences",
    "pmldB_call": "pm_loaded_bytes",
    "pmstB_call": "pm_stored_bytes",
}
_LAB_KEYS = ("fs", "op", "unit", "calls")
_FENCES = "fence_call counts every fence instruction, including the LFENCEs of indirect-call thunks"
_WRITES = ("append", "write", "rewrite", "wsync", "fwrite")


@dataclass(frozen=True)
class About:
    """Facts about measurements that the files do not state."""

    fs: str = ""  # label of the file system of perf's files; "": the name of the file
    # name in the result by name in a file, e.g. {"NOVA": "nova-cow"}; by default the thesis's names EXT4, EXT4DAX and NOVA become
    # ext4, ext4-dax and nova
    names: Mapping[str, str] | None = None
    cell: Mapping[str, Any] | None = None  # `operation`, `file_bytes`, `unit_bytes` of perf's files
    calls: int = 0  # calls that perf's files cover; 0 if unknown
    # event table of the measured CPU (`scmsim list events`): determines the meaning of ambiguous event names
    table: str | None = None
    mode: str = ""  # "user" or "kernel" if perf counted only that mode without stating it in the names (--all-user, --all-kernel)
    cpu: str = ""  # CPU of the measured machine
    kernel: str = ""  # kernel of the measured machine
    repeats: int = 10  # repeats of each cell of the thesis's columns
    total: int = TOTAL  # bytes moved per repeat of the thesis's columns, from which the number of calls follows

    def named(self, fs: str) -> str:
        """Return the file system's name in the result."""
        return {**_FS_NAMES, **(self.names or {})}.get(fs, fs)


def import_files(paths: Sequence[str | pathlib.Path], about: About | None = None) -> Result:
    """Return one Result from files of any of the formats, one run per file, row or cell and repeat.

    Raises UsageError for a file in none of the formats, a damaged file, or columns of the wrong length.
    """
    about = about or About()
    if not paths:
        raise UsageError("no file to import; name one or more")
    check_table(about.table)
    forms: dict[str, dict[str, list[float]]] = {}
    runs: list[Run] = []
    kinds = []
    for path in map(pathlib.Path, paths):
        text = _read(path)
        kind = _kind(path, text)
        kinds.append(kind)
        try:
            if kind == "form":
                fs, event, column = _form(path, text)
                if forms.setdefault(fs, {}).setdefault(event, column) is not column:
                    raise UsageError(f"the column of {event} on {fs} is given twice; leave one out")
            else:
                runs += _READERS[kind](path, text, about)
        except UsageError as error:
            raise UsageError(f"{str(path)!r}: {error}") from None
    runs += [run for fs, columns in forms.items() for run in _form_runs(fs, columns, about)]
    _number_repeats(runs)
    harness = {"backend": "import", "formats": sorted(set(kinds)), "table": about.table, "cpu": about.cpu}
    if forms:
        harness["calls"] = f"assumed: the number of calls that move {about.total} bytes in passes over the file"
    # the kernel of the measured machine, not of this one
    kernels = {str(run.params["kernel"]) for run in runs if "kernel" in run.params}
    kernel = about.kernel or (kernels.pop() if len(kernels) == 1 else "")
    return Result(provenance.build(paths, harness=harness, host="", cpu=about.cpu, kernel=kernel), runs)


def _read(path: pathlib.Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {str(path)!r}: {(error.strerror or str(error)).lower()}") from None
    if len(content) > MAX_BYTES:
        raise UsageError(
            f"{str(path)!r} is larger than {MAX_BYTES >> 20} MiB; if it is a perf.data, give the output of perf script"
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")  # keeps the no-break spaces that an 8-bit locale puts between digits


def _kind(path: pathlib.Path, text: str) -> str:
    if _FORM.fullmatch(path.name):
        return "form"
    header = text.split("\n", 1)[0].strip().split(",")
    if {*_LAB_KEYS, "ins_call"} <= set(header):
        return "lab"
    if stat_kind(text) or "perf stat" in text[:4096] or "event syntax error" in text[:4096]:
        return "stat"
    with contextlib.suppress(UsageError):
        parse_script(text[: 1 << 16])
        return "script"
    raise UsageError(
        f"{str(path)!r} is none of: perf stat (-j, -x, plain), perf script, a CSV with the columns fs,op,unit,calls,"
        "ins_call, or a column named form_<event>_<FS>.txt"
    )


def _stat_runs(path: pathlib.Path, text: str, about: About) -> list[Run]:
    run = _perf_run(path, about)
    fill(run, text, about.table, about.mode)
    return [run]


def _script_runs(path: pathlib.Path, text: str, about: About) -> list[Run]:
    profile = parse_script(text)
    run = _perf_run(path, about)
    for row in profile.rows:
        for field in fields(modifier(row.event)[0], about.table):
            run.events[field] = row.event
            run.counters[field] = profile.events[row.event]
            if row.own:
                site = run.sites.setdefault(row.symbol, {})
                site[field] = site.get(field, 0) + row.own
    run.warnings.append("counters are the events of the samples taken, by symbol; a profile does not count every event")
    return [run]


def _perf_run(path: pathlib.Path, about: About) -> Run:
    return Run(
        about.named(about.fs or path.stem), calls=about.calls, operations=about.calls, cell=dict(about.cell or {})
    )


def _lab_runs(path: pathlib.Path, text: str, about: About) -> list[Run]:
    rows = csv.DictReader(text.splitlines())
    try:
        return [_lab_run(row, number, about) for number, row in enumerate(rows, 2)]
    except csv.Error as error:
        raise UsageError(f"cannot be read as CSV ({error}); give the unchanged table") from None


def _lab_run(row: dict[str, Any], number: int, about: About) -> Run:
    """Return the run of one row, with totals of all its calls, rounded to whole numbers."""
    if None in row or None in row.values():
        raise UsageError(f"line {number} does not have as many fields as the header")
    calls, unit = (_whole(row, key, number) for key in ("calls", "unit"))
    run = Run(about.named(row["fs"]), calls=calls, operations=calls)
    run.cell = {"operation": row["op"], "file_bytes": calls * unit, "unit_bytes": unit}
    for column, text in row.items():
        if column.endswith("_call") and text:
            run.counters[_LAB.get(column, column.removesuffix("_call"))] = round(calls * _number(text, column, number))
    written = row["op"] in _WRITES
    run.payload = {"written": calls * unit * written, "read": calls * unit * (row["op"] in ("read", "reread"))}
    run.params = {"kernel": row["kernel"]} if row.get("kernel") else {}
    run.derive()
    if "fences" not in run.counters:
        run.why_absent["fences"] = _FENCES
    return run


def _whole(row: Mapping[str, Any], key: str, number: int) -> int:
    if not re.fullmatch(r"[0-9]{1,15}", row[key]):
        raise UsageError(f"line {number}: {key} is {row[key]!r}, not a whole number")
    return int(row[key])


def _number(text: str, what: str, number: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1e18:
        raise UsageError(f"line {number}: {what} is {text[:40]!r}, not a count")
    return value


def _form(path: pathlib.Path, text: str) -> tuple[str, str, list[float]]:
    match = _FORM.fullmatch(path.name)
    assert match  # `_kind` has checked the name
    column = [
        _number(word, "a value", number) for number, line in enumerate(text.splitlines(), 1) for word in line.split()
    ]
    return match["fs"], match["event"], column


def _form_runs(fs: str, columns: Mapping[str, list[float]], about: About) -> list[Run]:
    """Return the runs of all cells of one file system, in the order of the columns."""
    cells = list(itertools.product(FILE_SIZES, UNITS, range(1, about.repeats + 1), OPERATIONS))
    for event, column in columns.items():
        if len(column) != len(cells):
            raise UsageError(
                f"'form_{event}_{fs}.txt' has {len(column)} values, not {len(cells)} = {len(FILE_SIZES)} file sizes x "
                f"{len(UNITS)} units x {about.repeats} repeats x {len(OPERATIONS)} operations; is --repeats right?"
            )
    supplied = {event: fields(event, about.table) for event in columns}
    runs = []
    for at, (file_bytes, unit, repeat, operation) in enumerate(cells):
        run = Run(about.named(fs), calls=_calls(file_bytes, unit, about.total))
        run.operations = run.calls
        run.cell = {"operation": operation, "file_bytes": file_bytes, "unit_bytes": unit, "repeat": repeat}
        for event, column in columns.items():
            run.counters |= dict.fromkeys(supplied[event], round(column[at]))
            run.events |= dict.fromkeys(supplied[event], event)
        run.metrics = dict(metrics.table7(run.counters).values)
        runs.append(run)
    return runs


def _calls(file_bytes: int, unit: int, total: int) -> int:
    """Return the number of calls in the passes over the file that move `total` bytes; a call moves at most the whole file."""
    length = min(unit, file_bytes)
    of_a_pass = file_bytes // length
    return max(1, total // (of_a_pass * length)) * of_a_pass


def _number_repeats(runs: list[Run]) -> None:
    """Assign repeat numbers to runs that are alike except for their position."""
    keys = [(run.fs, *sorted(run.cell.items())) for run in runs]
    alike, seen = collections.Counter(keys), collections.Counter[tuple]()
    for run, key in zip(runs, keys, strict=True):
        if "repeat" not in run.cell and alike[key] > 1:
            seen[key] += 1
            run.cell["repeat"] = seen[key]


_READERS = {"stat": _stat_runs, "script": _script_runs, "lab": _lab_runs}
