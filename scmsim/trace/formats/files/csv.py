"""Import any table as text, one operation per line, with a map of its columns.

`--columns time=ts,op=type,offset=off,length=len,file=name,thread=cpu` names the columns by the title line of the file, or
by their number, from 1, if there is no title line; `offset`, `length` and `op` are required.  Without `time`, a row's time
is the number of its line; without `file`, all rows are about one file.
"""

import os
from typing import Any

import numpy as np

from scmsim.core.errors import UsageError, unknown
from scmsim.core.records import READ, WRITE
from scmsim.trace.reading.builder import TraceBuilder
from scmsim.trace.reading.columns import Column, Words, tables
from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.input import Input
from scmsim.trace.reading.lines import MOST_TITLES, clip
from scmsim.trace.reading.report import Report

SUMMARY = "any table with one read or write per line; --columns time=ts,op=type,offset=off,length=len names the columns"
PARAMS: dict[str, tuple[str | int, str, str]] = {
    "columns": ("", "text", "ROLE=COLUMN,..., the same as --columns"),
    "delimiter": ("comma", "comma|semicolon|tab|space", "the character that separates the columns"),
    "time_unit": ("s", "s|ms|us|ns", "unit of the time column"),
    "unit": (1, "bytes", "unit of offsets and lengths (512 for sectors)"),
    "offset_unit": (0, "bytes", "unit of offsets, if different from `unit` (SPC, CloudPhysics: 512); 0: `unit`"),
    "length_unit": (0, "bytes", "unit of lengths, if different from `unit`; 0: `unit`"),
    "granularity": (
        "file",
        "file|block",
        "whether the column `file` names files, or devices that exist in full from the start",
    ),
    "read": ("", "text", "further values of the column `op` that mean a read, joined by +, such as R+0"),
    "write": ("", "text", "further values of the column `op` that mean a write, joined by +, such as W+1"),
}
_ROLES = ("time", "op", "offset", "length", "file", "thread")
_DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "space": " "}
_UNITS_NS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
_READS, _WRITES = ("read", "Read", "READ", "r", "R"), ("write", "Write", "WRITE", "w", "W")
_TOOL = "a table with these columns"
_MOST_COLUMNS = 1000
_HINT = "; --set read=WORD or write=WORD adds one, and the format ops-csv knows every operation"
_MOST_UNIT = 1 << 30  # limit of the units, bytes


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return False: a table does not show the meaning of its columns."""
    return False


def table(
    job: Import,
    columns: str = "",
    delimiter: str = "comma",
    time_unit: str = "s",
    unit: int = 1,
    offset_unit: int = 0,
    length_unit: int = 0,
    granularity: str = "file",
    read: str = "",
    write: str = "",
    form: str = "csv",
) -> Report:
    """Convert a table of a format and close the writer (see `scmsim.trace.formats`, and PARAMS)."""
    places, titles = _places(columns, job.given, _DELIMITERS[delimiter])
    ops = {word: READ for word in (*_READS, *_words(read))} | {word: WRITE for word in (*_WRITES, *_words(write))}
    units = {"unit": unit, "offset_unit": offset_unit or unit, "length_unit": length_unit or unit}
    for name, value in units.items():
        if not 1 <= value <= _MOST_UNIT:
            raise UsageError(f"{name} {value} is not between 1 and {_MOST_UNIT} bytes; give it like --set {name}=512")
    wanted = [
        _column(role, place, _UNITS_NS[time_unit], units.get(f"{role}_unit", 1), ops) for role, place in places.items()
    ]
    builder = job.builder(granularity)
    for _ in range(titles):
        _skip_title(builder)
    for columns_of_block in tables(builder, wanted, None, _DELIMITERS[delimiter], _TOOL):
        _add(builder, columns_of_block)
    clock = f"{time_unit} of the table" if "time" in places else "line numbers (no time column was named)"
    return builder.finish(form, _TOOL, clock=clock, columns=columns, units=units)


convert = importer(table)


def _words(text: str) -> list[str]:
    return [word for word in text.split("+") if word]


def _column(role: str, place: int, unit_ns: int, unit: int, ops: dict[str, int]) -> Column:
    if role == "time":
        return Column(role, place, "time", unit_ns)
    if role == "op":
        return Column(role, place, "word", codes=ops, hint=_HINT)
    return Column(role, place, "word") if role in ("file", "thread") else Column(role, place, "whole", unit)


def _places(columns: str, given: Input, delimiter: str) -> tuple[dict[str, int], int]:
    """Return the index of each role's column, and the number of lines up to the title line (0: no title line)."""
    pairs = [pair.partition("=") for pair in columns.split(",") if pair]
    for role, _, name in pairs:
        if role.strip() not in _ROLES:
            raise unknown("role of a column", role.strip(), _ROLES)
        if not name.strip():
            raise UsageError(f"--columns {columns!r}: {role!r} names no column; write it like {role}=NAME")
    wanted = {role.strip(): name.strip() for role, _, name in pairs}
    missing = [role for role in ("op", "offset", "length") if role not in wanted]
    if missing:
        raise UsageError(
            f"--columns {columns!r} does not name {', '.join(missing)}; "
            "write it like time=ts,op=type,offset=off,length=len"
        )
    if len(set(wanted.values())) < len(wanted):
        raise UsageError(f"--columns {columns!r} gives one column two roles; name a separate column for each role")
    if all(name.isdecimal() for name in wanted.values()):
        return {role: _number(name) for role, name in wanted.items()}, 0
    lines = titles_of(given.head, delimiter)
    for count, titles in enumerate(lines, 1):
        if set(wanted.values()) <= set(titles):
            return {role: titles.index(name) for role, name in wanted.items()}, count
    titles = next((titles for titles in lines if len(titles) > 1), [""])
    name = next(name for name in wanted.values() if name not in titles)
    raise unknown("column", name, [clip(title) for title in titles[:50]])


def titles_of(head: bytes, delimiter: str) -> list[list[str]]:
    """Return the cells of the first lines of a table; one of the lines may have the titles."""
    lines = head.decode("utf-8", "replace").split("\n")[:MOST_TITLES]
    return [[cell.strip(' \t"') for cell in line.removeprefix("#").split(delimiter)] for line in lines]


def _number(text: str) -> int:
    if len(text) > 4 or not 1 <= int(text) <= _MOST_COLUMNS:
        raise UsageError(f"no column {clip(text)!r}; columns are numbered from 1 to {_MOST_COLUMNS}")
    return int(text) - 1


def _skip_title(builder: TraceBuilder) -> None:
    builder.given.skip_line()
    builder.report.lines += 1
    builder.report.left_out["title"] += 1


def _add(builder: TraceBuilder, table: dict[str, Any]) -> None:
    rows = len(table["op"])
    nobody = Words(np.zeros(rows, "i8"), [""])
    time = table.get("time")
    if time is None:
        time = np.arange(rows, dtype="i8") + builder.report.lines
    file = table.get("file", nobody).numbers(lambda name: builder.file(name.strip() or "/table"))
    thread = table.get("thread", nobody).numbers(builder.thread)
    builder.table(time, table["op"], file, table["offset"], table["length"], thread)
