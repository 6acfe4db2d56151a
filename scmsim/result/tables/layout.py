"""Lay out rows of cells as aligned text in blocks of columns, as Markdown, or as CSV."""

import csv
import io
import shutil
import sys
from collections.abc import Sequence

from scmsim.core.text import printable

Rows = Sequence[Sequence[str]]
_GAP = 2


def grid(rows: Rows, width: int | None = None) -> str:
    """Return aligned text with the first column left-aligned; with `width`, in blocks of as many columns as fit."""
    shown = [list(map(printable, row)) for row in rows]
    widths = [max(len(row[i]) for row in shown) for i in range(len(shown[0]))]
    return "\n\n".join(
        "\n".join(
            "  ".join([row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in columns)]).rstrip() for row in shown
        )
        for columns in _blocks(widths, width)
    )


def terminal_width() -> int | None:
    """Return the width of the terminal on stdout, in characters; None for a file or a pipe, which take any width."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _blocks(widths: Sequence[int], width: int | None) -> list[list[int]]:
    """Return the columns after the first one in groups that fit beside it; a column that is too wide is a group of its own."""
    blocks: list[list[int]] = [[]]
    used = widths[0]
    for i in range(1, len(widths)):
        if width is not None and blocks[-1] and used + _GAP + widths[i] > width:
            blocks.append([])
            used = widths[0]
        blocks[-1].append(i)
        used += _GAP + widths[i]
    return blocks


def markdown(rows: Rows) -> str:
    """Return a Markdown table with figures right-aligned."""
    lines = ["| " + " | ".join(printable(cell.strip()).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" + "|---:" * (len(rows[0]) - 1) + "|", *lines[1:]])


def comma_separated(rows: Sequence[Sequence[object]]) -> str:
    """Return CSV without the last line end; text that a spreadsheet would read as a formula is prefixed with a quote."""
    out = io.StringIO()
    for row in rows:
        cells = ["" if cell is None else printable(cell) if isinstance(cell, str) else cell for cell in row]
        safe = [f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@") else cell for cell in cells]
        csv.writer(out, lineterminator="\n").writerow(safe)
    return out.getvalue().rstrip("\n")
