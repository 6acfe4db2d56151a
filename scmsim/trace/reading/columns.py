"""Read tables of numbers as text, one record per line: whole blocks by Arrow's reader, a block with a bad line line by line.

Both ways give the same columns (tested); reading by lines finds which line is bad and why, and supports quoted cells.
Title lines before the first row and comments (`#`) are left out.
"""

import csv as text_csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.trace.reading.builder import BLANK, FAR, TraceBuilder
from scmsim.trace.reading.lines import MOST_TITLES, BadLine, byte_blocks, clip, is_title, whole

_BLOCK = 1 << 22
_NOT_WHOLE = (b"0x", b"0X", b"-0")  # prefixes of numbers that Arrow accepts and `whole` rejects
_MOST_COLUMNS = 1000
_LONGEST_TIME = 40  # maximum length of a time stamp, characters
_FAR_TIME = 1 << 62  # limit of a time stamp, ns


@dataclass
class Column:
    """One column: its name, its index in a line, and its kind.

    `kind` is "whole" (0 or more, returned times `unit`), "time" (a decimal number of `unit` ns, returned in ns)
    or "word"; `codes` maps the allowed words to numbers (None: any word); `hint` is advice for an unknown word.
    """

    name: str
    place: int
    kind: str = "whole"
    unit: int = 1
    codes: dict[str, int] | None = None
    hint: str = ""


@dataclass
class Words:
    """A column of words: `codes` index `values`."""

    codes: np.ndarray
    values: list[str]

    def __len__(self) -> int:
        return len(self.codes)

    def numbers(self, number: Callable[[str], int]) -> np.ndarray:
        """Return the column as numbers (int64): `number` maps a word to its number."""
        return np.array([number(value) for value in self.values], "i8")[self.codes]

    def joined(self, other: "Words", separator: str) -> "Words":
        """Return the words of this column and of another column, joined in pairs by `separator`."""
        pairs, codes = np.unique(self.codes * len(other.values) + other.codes, return_inverse=True)
        split = (divmod(int(pair), len(other.values)) for pair in pairs)
        return Words(codes, [f"{self.values[one]}{separator}{other.values[two]}" for one, two in split])


Table = dict[str, Any]


def tables(
    builder: TraceBuilder, columns: list[Column], width: int | None, delimiter: str, what: str
) -> Iterator[Table]:
    """Yield the columns of block after block, as int64 arrays or `Words`; count blank and bad lines.

    Parameters
    ----------
    builder : TraceBuilder
        Its report counts lines that are left out; `TraceBuilder.table` counts the lines of the tables themselves.
    columns : list of Column
    width : int, optional
        Number of columns of a line; None: at least up to the last requested column, equal in all lines of a block.
    delimiter : str
        One character.
    what : str
        Name of the format, for messages.
    """
    reader = Reader(columns, width, delimiter)
    first, at_start = builder.report.lines, True
    for block in byte_blocks(builder.given, what, builder.progress, _BLOCK):
        if at_start:
            titles = reader.titles(block, builder)
            first, block, at_start = first + titles[0], titles[1], not titles[1]
            if at_start:
                continue
        table = reader.fast(block)
        count = block.count(b"\n") + (not block.endswith(b"\n"))
        if table is None or len(next(iter(table.values()), ())) != count:
            table = reader.slow(block, first, builder)
        first += count
        yield table
        builder.report.expect_rows(builder.given.path)


class Reader:
    """A reader of blocks of lines: `fast` reads a whole block, `slow` line by line."""

    def __init__(self, columns: list[Column], width: int | None, delimiter: str) -> None:
        self.columns, self.width, self.delimiter = columns, width, delimiter

    def titles(self, block: bytes, builder: TraceBuilder) -> tuple[int, bytes]:
        """Count the title lines at the start of a table; return how many, and the block after them."""
        count = 0
        while block and count < MOST_TITLES:
            line, _, rest = block.partition(b"\n")
            if not is_title(title := line.decode("latin-1"), self.delimiter):
                break
            self._check_titles(title)
            count, block = count + 1, rest
            builder.report.lines += 1
            builder.report.left_out["title" if line.strip() else BLANK] += 1
        return count, block

    def _check_titles(self, line: str) -> None:
        """Raise UsageError for a title line that has a column of the format at another index."""
        there = [title.strip(' \t"').lower() for title in line.lstrip("#").split(self.delimiter)]
        for column in self.columns if self.width else ():
            name = column.name.lower()
            if there.count(name) == 1 and there.index(name) != column.place:
                raise UsageError(
                    f"column {column.name!r} is number {there.index(name) + 1} of the title line, not {column.place + 1} as in "
                    "this format; name the columns of the table with --format csv --columns"
                )

    def fast(self, block: bytes) -> Table | None:
        """Return the columns of a block, or None if a line needs `slow`."""
        import pyarrow as pa
        from pyarrow import csv

        if b'"' in block or (self.delimiter == " " and (b"  " in block or b"\n " in b"\n" + block or b" \n" in block)):
            return None
        edges = b"\n", self.delimiter.encode()
        for sign in (sign for sign in _NOT_WHOLE if sign in block):
            if block.startswith(sign) or any(edge + sign in block for edge in edges):
                return None
        width = self.width or block.split(b"\n", 1)[0].count(self.delimiter.encode()) + 1
        if not max(column.place for column in self.columns) < width <= _MOST_COLUMNS:
            return None
        names = [str(place) for place in range(width)]
        types = {"whole": pa.int64(), "time": pa.decimal128(38, 9), "word": pa.dictionary(pa.int32(), pa.string())}
        wanted = {str(column.place): types[column.kind] for column in self.columns}
        try:
            found = csv.read_csv(
                pa.BufferReader(block),
                csv.ReadOptions(
                    use_threads=False, block_size=2 * len(block) + 1, column_names=names, encoding="latin-1"
                ),
                csv.ParseOptions(delimiter=self.delimiter, quote_char=False, ignore_empty_lines=False),
                csv.ConvertOptions(
                    column_types=wanted, include_columns=list(wanted), null_values=[], strings_can_be_null=False
                ),
            )
            return self._table(found)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None

    def _table(self, found: Any) -> Table | None:
        out: Table = {}
        for column in self.columns:
            array = found.column(str(column.place)).combine_chunks()
            if array.null_count or not len(array):
                return None
            if column.kind == "word":
                words = Words(
                    np.from_dlpack(array.indices).astype("i8"), [word.strip() for word in array.dictionary.to_pylist()]
                )
                if column.codes is not None and not all(word in column.codes for word in words.values):
                    return None
                out[column.name] = words if column.codes is None else words.numbers(column.codes.__getitem__)
                continue
            values = np.from_dlpack(array) if column.kind == "whole" else _scaled(array, column.unit)
            if values is None or values.min() < 0 or values.max() >= _limit(column):
                return None
            out[column.name] = values * column.unit if column.kind == "whole" else values
        return out

    def slow(self, block: bytes, before: int, builder: TraceBuilder) -> Table:
        """Return the columns of the good lines of a block, and count the other lines."""
        rows: list[list[Any]] = []
        lines = block.decode("latin-1").removesuffix("\n").split("\n")
        for number, line in enumerate(lines, before + 1):
            if not line.strip():
                builder.report.lines += 1
                builder.report.left_out[BLANK] += 1
                continue
            try:
                rows.append(self._row(line))
            except BadLine as error:
                builder.report.lines += 1
                if line.startswith("#"):
                    builder.report.left_out["comment"] += 1
                    continue
                builder.bad(str(error), number)
        columns = list(zip(*rows, strict=True)) or [()] * len(self.columns)
        return {column.name: _packed(column, values) for column, values in zip(self.columns, columns, strict=True)}

    def _row(self, line: str) -> list[Any]:
        cells = _split(line, self.delimiter)
        needed = self.width or max(column.place for column in self.columns) + 1
        if len(cells) < needed or (self.width and len(cells) > self.width):
            raise BadLine(f"{len(cells)} columns instead of {needed}")
        return [_cell(column, cells[column.place]) for column in self.columns]


def _split(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line, without quotes and surrounding blanks."""
    if delimiter == " ":
        return line.split(maxsplit=_MOST_COLUMNS)
    if '"' not in line:
        return [cell.strip() for cell in line.split(delimiter, _MOST_COLUMNS)]
    try:
        found = next(text_csv.reader((line,), delimiter=delimiter, skipinitialspace=True))
    except text_csv.Error as error:  # a cell of more than 128 KiB, or a quote that does not end
        raise BadLine(f"the line is not valid CSV: {error}") from None
    return [cell.strip() for cell in found[: _MOST_COLUMNS + 1]]


def _cell(column: Column, text: str) -> Any:
    if column.kind == "word":
        if column.codes is None:
            return text
        if text not in column.codes:
            raise BadLine(f"unknown {column.name} {clip(text)!r}; known: {', '.join(column.codes)}{column.hint}")
        return column.codes[text]
    if column.kind == "whole":
        number = whole(text.strip(), column.name)
    else:
        number = _decimal(text.strip(), column)
    if number >= _limit(column):
        raise BadLine(f"{column.name} {clip(text)!r} is too large")
    return number * column.unit if column.kind == "whole" else number


def _limit(column: Column) -> int:
    return _FAR_TIME if column.kind == "time" else FAR // column.unit


def _decimal(text: str, column: Column) -> int:
    try:
        if len(text) > _LONGEST_TIME:
            raise InvalidOperation
        number = Decimal(text)
        if not (number.is_finite() and 0 <= number and number.adjusted() < 20):
            raise InvalidOperation
        return int(number * column.unit)
    except InvalidOperation:
        raise BadLine(f"{column.name} {clip(text)!r} is not a number of 0 or more") from None


def _packed(column: Column, values: tuple) -> Any:
    if column.kind != "word" or column.codes is not None:
        return np.array(values, "i8")
    seen = {value: code for code, value in enumerate(dict.fromkeys(values))}
    return Words(np.array([seen[value] for value in values], "i8"), list(seen))


def _scaled(array: Any, unit_ns: int) -> np.ndarray | None:
    """Return decimals with nine digits after the point as whole ns; None if a value is negative or too large."""
    words = np.frombuffer(array.buffers()[1], "i8").reshape(-1, 2)[array.offset : array.offset + len(array)]
    low, high = words[:, 0], words[:, 1]
    if (high != 0).any() or (low < 0).any():
        return None
    whole_units, part = np.divmod(low, 10**9)
    if whole_units.max(initial=0) >= _FAR_TIME // unit_ns:
        return None
    return whole_units * unit_ns + part * unit_ns // 10**9
