"""Show the comparison of extents as tables: one row for each trace and file system, or for each file."""

from collections.abc import Mapping, Sequence
from typing import Any

from scmsim.core.text import percent
from scmsim.core.units import format_bytes
from scmsim.result.tables import layout

_SIDES = ("real", "model")
_COLUMNS = {"extents": "extents", "mappable_2m": "2 MiB mappable", "free_extents": "free extents"}
_MEANING = {
    "equal": "every extent is equal",
    "same pages": "the same 2 MiB can be mapped at once, although the extents differ",
    "off": "other 2 MiB can be mapped at once",
}


def text(made: Mapping[str, Any], by_file: bool, form: str, width: int | None, top: int) -> str:
    """Return the comparison as text; `form` is table or markdown, `by_file` adds the `top` largest files of each cell."""
    draw = layout.markdown if form == "markdown" else lambda rows: layout.grid(rows, width)
    cells, several = made["cells"], len({cell["trace"] for cell in made["cells"]}) > 1
    blocks = [draw(summary(cells, several))] if cells else []
    for cell in cells if by_file else ():
        name = f"{cell['fs']} after {cell['trace']}" if several else cell["fs"]
        blocks.append(f"{name}, by file\n{'' if form == 'table' else chr(10)}{draw(files(cell, top))}")
    told = [] if several else [verdict(cell) for cell in cells]
    told += dict.fromkeys(f"{each['fs']}: {each['why']}" for each in made["left_out"])
    return "\n\n".join([*blocks, *(["\n".join(told)] if told else [])])


def summary(cells: Sequence[Mapping[str, Any]], several: bool) -> list[list[str]]:
    """Return a table row for each cell: counts of the real kernel and of the model, and how many extents are equal."""
    head = [f"{title}: real" if side == "real" else side for title in _COLUMNS.values() for side in (*_SIDES, "equal")]
    rows = [[*(["trace"] if several else []), "file system", "files", *head, "verdict"]]
    for cell in cells:
        counts = [f"{of[name]:,}" for name in _COLUMNS for of in (*(cell[side] for side in _SIDES), cell["equal"])]
        names = [*([cell["trace"]] if several else []), cell["fs"]]
        rows.append([*names, f"{cell['real']['files']:,}", *counts, cell["verdict"]])
    return rows


def files(cell: Mapping[str, Any], top: int) -> list[list[str]]:
    """Return a table row for each of the `top` largest files of a cell."""
    head = ["extents: real", "model", "equal", "2 MiB mappable: real", "model"]
    rows = [["file", "size", *head]]
    largest = sorted(cell["by_file"], key=lambda row: -row["bytes"])[:top]
    for row in largest:
        counts = [row["real"]["extents"], row["model"]["extents"], row["equal_extents"]]
        large = [row[side]["mappable_2m"] for side in _SIDES]
        rows.append([row["path"], format_bytes(row["bytes"]), *(f"{count:,}" for count in (*counts, *large))])
    return rows


def verdict(cell: Mapping[str, Any]) -> str:
    """Return one line: the verdict on the model's allocator, and how many extents, bytes and files are equal."""
    real, equal = cell["real"], cell["equal"]
    parts = [
        f"{equal['extents']:,} of {real['extents']:,} extents equal",
        f"{equal['cuts'] - equal['extents']:,} more except for their place",
        f"{percent(equal['bytes'] / max(1, real['bytes']))} of the bytes at their place",
        f"{equal['mappable_2m']:,} of {real['mappable_2m']:,} mappable 2 MiB equal ({cell['model']['mappable_2m']:,} in the model)",
        f"{equal['files']:,} of {real['files']:,} files whole",
    ]
    return f"{cell['fs']}: {cell['verdict']}: {_MEANING[cell['verdict']]}; {', '.join(parts)}"
