"""Share code among the generators: turn columns into OP records, merge rows by sort key, cut pieces into batches."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np

from scmsim.core.errors import UsageError, unknown
from scmsim.core.records import OP, Files, joined
from scmsim.core.units import parse_param

Pieces = Callable[[], Iterable[np.ndarray]]

_WHOLE = np.dtype((np.void, OP.itemsize))  # a record as bytes, see records.joined
PIECE = 1 << 15  # rows that a generator makes at a time: a piece's arrays stay in the cache


class Stream:
    """A records.Source built from pieces: record arrays of any length, in order, without times.

    A subclass sets `header`, `files` and `interval` (nanoseconds between two rows) and yields its rows from `pieces()`, which
    may be called several times and yields the same rows each time.  A subclass that repeats itself has `parts()` instead.
    """

    header: dict[str, Any]
    files: Files
    interval: int = 1000
    fresh = False  # whether each piece is a new array, so that a batch may be a view of a piece

    def parts(self) -> Iterator[tuple[Pieces, int]]:
        """Yield (function that makes the pieces of a pass, number of consecutive passes); a replay may skip repeated passes."""
        yield self.pieces, 1

    def pieces(self) -> Iterator[np.ndarray]:
        """Yield the rows as arrays of OP without times, which `timed` fills in."""
        for make, times in self.parts():
            for _ in range(times):
                yield from make()

    @cached_property
    def rows(self) -> int:
        """Return the number of rows, by generating once unless the generator knows a formula."""
        return sum(len(piece) for piece in self.pieces())

    def batches(self, chunk: int = 1 << 14) -> Iterator[np.recarray]:
        """Yield the operations in record arrays of at most `chunk` rows; `chunk` only affects where they are cut."""
        if chunk < 1:
            raise UsageError(f"a chunk of {chunk} rows is impossible; give at least 1")
        yield from self.timed(self.pieces, chunk, 0)

    def timed(self, make: Pieces, chunk: int, row: int) -> Iterator[np.recarray]:
        """Yield the rows of `make()` in record arrays of at most `chunk`, with times.

        The first row is number `row` of the stream.
        """
        for batch in _cut(make(), chunk, self.fresh):
            batch["time_ns"] = np.arange(row, row + len(batch)) * self.interval
            row += len(batch)
            yield batch.view(np.recarray)


def _cut(pieces: Iterable[np.ndarray], chunk: int, fresh: bool) -> Iterator[np.ndarray]:
    """Cut large pieces and join small ones; unless `fresh`, copy the rows, because a generator may reuse a piece's array."""
    waiting: list[np.ndarray] = []
    count = 0
    for piece in pieces:
        if fresh and len(piece) >= chunk // 2:
            if waiting:
                yield joined(waiting)
                waiting, count = [], 0
            yield from (piece[first : first + chunk] for first in range(0, len(piece), chunk))
            continue
        while count + len(piece) >= chunk:
            head, piece = piece[: chunk - count], piece[chunk - count :]
            yield joined([*waiting, head])
            waiting, count = [], 0
        if len(piece):
            waiting.append(piece)
            count += len(piece)
    if count:
        yield joined(waiting)


def ops(op: Any, file: Any, offset: Any = -1, length: Any = 0, **other: Any) -> np.ndarray:
    """Return records of OP from columns, each an array or one number for all rows; `other` may use OP's aliases.

    By default `offset` and `file2` are -1; `length`, `flag`, `thread` and `buffer` are 0.
    """
    columns = {"op": op, "file": file, "offset": offset, "length": length, "file2": -1, **other}
    rows = max(np.size(column) for column in columns.values())
    if min(np.size(column) for column in columns.values()) == 0:
        rows = 0
    row = np.zeros(1, OP)
    for name, column in columns.items():
        if np.ndim(column) == 0:
            row[name] = column
    out = np.repeat(row.view(_WHOLE), rows).view(OP)
    for name, column in columns.items():
        if np.ndim(column):
            out[name] = column
    return out


def in_pieces(rows: Iterable[tuple[int, ...]]) -> Iterator[np.ndarray]:
    """Yield tuples (op, file, offset, length, file2, flag[, thread]) as record arrays of at most 4096 operations."""
    names, left = ("op", "file", "offset", "length", "file2", "flag", "thread"), iter(rows)
    while piece := list(islice(left, 4096)):
        yield ops(**dict(zip(names, np.array(piece, np.int64).T, strict=False)))


def weave(*parts: tuple[Any, np.ndarray]) -> np.ndarray:
    """Merge parts, each (sort keys of its rows, rows), by ascending key; rows with equal keys keep the order of the parts."""
    rows = joined([rows for _, rows in parts])
    place = np.concatenate([np.broadcast_to(np.asarray(place, np.int64), len(rows)) for place, rows in parts])
    return rows[np.argsort(place, kind="stable")]


def alternating(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the rows of two arrays of equal length in turn, beginning with the first row of `one`."""
    return joined([one, other]).reshape(2, -1).T.ravel()


def transfers(op: int, file: Any, sizes: np.ndarray, unit: int, **other: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return READs or WRITEs of whole files in units of bytes: (index of the file of every row, rows).

    `file` and `sizes` (bytes) have an entry per file.  The last call of a file is shorter; an empty file has no row.
    """
    sizes = np.asarray(sizes, np.int64)
    calls = -(-sizes // unit)
    which = np.repeat(np.arange(len(sizes)), calls)
    offset = (np.arange(calls.sum()) - np.repeat(np.cumsum(calls) - calls, calls)) * unit
    length = np.minimum(unit, sizes[which] - offset)
    return which, ops(op, np.broadcast_to(file, sizes.shape)[which], offset, length, **other)


def place_in_run(numbers: np.ndarray) -> np.ndarray:
    """Return the index of each entry within its run of equal numbers: 7 7 7 3 3 -> 0 1 2 0 1."""
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    return np.arange(len(numbers)) - np.repeat(starts, np.diff(starts, append=len(numbers)))


def repeated(make: Callable[[], Iterable[np.ndarray]], rows: int, times: int) -> Iterator[np.ndarray]:
    """Yield the pieces of `make()`, `rows` rows in all, `times` times; make a short pass once and tile it."""
    if rows > PIECE // 2:
        for _ in range(times):
            yield from make()
        return
    step = min(max(1, PIECE // max(rows, 1)), times)
    many = np.tile(joined(list(make())), step)
    for first in range(0, times, step):
        yield many[: rows * min(step, times - first)]


def together(make: Pieces, rows: int, moved: int, times: int) -> Iterator[tuple[Pieces, int]]:
    """Yield the parts (see `Stream.parts`) of `times` passes of `rows` rows that move `moved` bytes each.

    Short passes are combined, up to 8192 rows and 256 MiB, so that the cost per pass stays relatively small.
    """
    many = max(1, min((1 << 13) // max(rows, 1), (1 << 28) // max(moved, 1), times))
    if many == 1:
        yield make, times
        return
    tiled = np.tile(joined(list(make())), many)
    yield lambda: [tiled], times // many
    if times % many:
        yield lambda: [tiled[: rows * (times % many)]], 1


def table(paths: list[str], first_size: Any, is_dir: Any) -> Files:
    """Return the side table from columns (lists, arrays or one value for all rows)."""
    rows = len(paths)
    sizes = np.broadcast_to(np.asarray(first_size, np.int64), rows).copy()
    return Files(paths, sizes, np.broadcast_to(np.asarray(is_dir, bool), rows).copy())


class Params(SimpleNamespace):
    """Parameters of a workload, by their names in PARAMS; numbers are in bytes and nanoseconds."""

    def at_least(self, minimum: int, *names: str) -> None:
        """Raise UsageError for the first of the named parameters below `minimum`."""
        for name in names:
            if getattr(self, name) < minimum:
                raise UsageError(f"{name} = {getattr(self, name)}; it must be at least {minimum}")


def declared(
    table: Mapping[str, tuple[str, str, str]],
) -> Callable[[Callable[[Any, Params], None]], Callable[..., None]]:
    """Return a decorator: the constructor accepts the parameters of a table PARAMS and receives them as one object.

    The decorated constructor also sets `interval` and `header`.
    """
    named = [(name, parse_param(default, unit)) for name, (default, unit, _) in table.items()]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    own = [inspect.Parameter("self", kind), *(inspect.Parameter(name, kind, default=value) for name, value in named)]
    signature = inspect.Signature(own)

    def decorated(init: Callable[[Any, Params], None]) -> Callable[..., None]:
        @functools.wraps(init)
        def construct(*args: Any, **given: Any) -> None:
            bound = signature.bind(*args, **given)
            bound.apply_defaults()
            source = bound.arguments.pop("self")
            p = Params(**bound.arguments)
            source.interval = getattr(p, "interval", 1000)
            source.header = header(init.__module__.rpartition(".")[2].replace("_", "-"), p)
            init(source, p)

        construct.__signature__ = signature  # type: ignore[attr-defined]
        return construct

    return decorated


def header(kind: str, p: Params) -> dict[str, Any]:
    """Return the provenance of a generated workload."""
    return {"tool": f"scmsim synth {kind}", "workload": {"kind": kind, **vars(p)}}


def choose(what: str, given: str, allowed: Iterable[str]) -> None:
    """Raise UnknownName unless `given` is one of `allowed`."""
    allowed = list(allowed)
    if given not in allowed:
        raise unknown(what, given, allowed)
