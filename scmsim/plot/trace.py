"""Draw a trace with a panel for each file: the offsets of reads and writes over time, or the bytes moved at each offset."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import READ, WRITE
from scmsim.plot.files import check, save
from scmsim.plot.library import Style, altair
from scmsim.plot.theme import COLOURS
from scmsim.trace._rewrite import CHUNK
from scmsim.trace.store import StoredTrace, open_trace

_COLOURS = {"read": COLOURS[0], "write": COLOURS[5]}
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, which spreads consecutive numbers (Fibonacci hashing)
_BARS = "Offsets of reads and writes over time, a panel for each file; a bar spans the bytes of a transfer."
_COLUMNS, _ROWS = 120, 40  # cells of a heat map
_NAME = 60  # maximum shown length of a file's name, characters
_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))
_TIMES = ((10**9, "s"), (10**6, "ms"), (10**3, "µs"), (1, "ns"))


def plot_trace(
    source: "str | os.PathLike[str]",
    out: "str | os.PathLike[str]",
    *,
    files: int = 6,
    points: int = 1500,
    style: Style | None = None,
) -> dict[str, Any]:
    """Draw the `files` files with the most bytes moved, each with at most about `points` reads and `points` writes.

    Of more transfers, about one in k is drawn, selected by a hash of its number, because taking every k-th could alias with a
    pattern of the trace.

    Parameters
    ----------
    out : path
        The suffix selects the format: .svg, .png, .pdf or .html (one self-contained file).

    Returns
    -------
    dict
        Numbers of drawn `files` and of drawn `transfers`, and of all transfers of these files (`of`).

    Raises UsageError for another suffix, or a trace without a read or write; EnvironmentProblem if the extra `report`
    is not installed.
    """
    check(out)
    trace = open_trace(source)
    chosen, calls = _busiest(trace, files)
    every = -(-calls // max(points, 1))
    every[~np.isin(np.arange(len(every)), chosen)] = 0
    rows = _sample(trace, every)
    spec = _chart(altair(), trace, chosen, every, rows).to_dict()
    save(spec, out, style, _BARS)
    return {"files": len(chosen), "transfers": len(rows), "of": int(calls[chosen].sum())}


def plot_heat(
    source: "str | os.PathLike[str]", out: "str | os.PathLike[str]", *, files: int = 6, style: Style | None = None
) -> dict[str, Any]:
    """Draw the bytes read and written over time in each part of the `files` files with the most bytes moved.

    All transfers are counted.  Parameters, result and errors are those of `plot_trace`.
    """
    check(out)
    trace = open_trace(source)
    chosen, calls = _busiest(trace, files)
    last, ends = _extents(trace)
    scale, time_unit = next(unit for unit in _TIMES if unit[0] <= max(last, 1))
    alt, panels = altair(), []
    for file in chosen:
        sums = heat(trace, file, last, int(ends[file]))
        panels.append(_hot_panel(alt, _name(trace.files.path[file]), sums, (last / scale, int(ends[file])), time_unit))
    title = alt.TitleParams(f"Bytes moved by time and offset: {_name(trace.path.name)}", anchor="start")
    chart = alt.vconcat(*panels, title=title).resolve_scale(x="shared", y="independent", color="independent")
    save(chart.to_dict(), out, style, "Bytes read and written in each part of a file over time, of all transfers.")
    moved = int(calls[chosen].sum())
    return {"files": len(chosen), "transfers": moved, "of": moved}


def heat(trace: StoredTrace, file: int, last: int, end: int) -> np.ndarray:
    """Return the bytes moved in a file as an array over equal parts of the time [0, `last`] ns and of the bytes [0, `end`)."""
    sums = np.zeros((_COLUMNS, _ROWS), np.int64)
    edges = np.arange(_ROWS + 1) * end // _ROWS
    for rows in _transfers(trace):
        rows = rows[rows["file"] == file]
        column = rows["time_ns"] * _COLUMNS // (last + 1)
        start, stop = rows["offset"], rows["offset"] + rows["length"]
        for part in range(_ROWS):
            inside = np.minimum(stop, edges[part + 1]) - np.maximum(start, edges[part])
            np.add.at(sums[:, part], column, np.maximum(inside, 0))
    return sums


def _extents(trace: StoredTrace) -> tuple[int, np.ndarray]:
    """Return (time of the last transfer, end of the furthest transfer of each file)."""
    last, ends = 0, np.zeros(len(trace.files), np.int64)
    for rows in _transfers(trace):
        last = max(last, int(rows["time_ns"].max(initial=0)))
        np.maximum.at(ends, rows["file"], rows["offset"] + rows["length"])
    return last, ends


def _hot_panel(altair: Any, name: str, sums: np.ndarray, most: tuple[float, int], time_unit: str) -> Any:
    """Return the panel of one file; a cell without transfers stays empty."""
    last, end = most
    unit, unit_name = next(unit for unit in _UNITS if unit[0] <= max(end, 1))
    values = [
        {
            "t": column * last / _COLUMNS, "t2": (column + 1) * last / _COLUMNS,
            "from": row * end / _ROWS / unit, "to": (row + 1) * end / _ROWS / unit, "bytes": int(sums[column, row]),
        }
        for column, row in np.argwhere(sums).tolist()
    ]  # fmt: skip
    return (
        altair.Chart(altair.Data(values=values), title=altair.TitleParams(name, anchor="start", fontSize=11))
        .mark_rect()
        .encode(
            x=altair.X("t:Q", title=f"time ({time_unit})"),
            x2="t2:Q",
            y=altair.Y("from:Q", title=f"offset ({unit_name})"),
            y2="to:Q",
            color=altair.Color(
                "bytes:Q", title="bytes", scale=altair.Scale(scheme="viridis", reverse=True, type="log")
            ),
        )
        .properties(width=640, height=120)
    )


def _busiest(trace: StoredTrace, files: int) -> tuple[list[int], np.ndarray]:
    """Return (ids of the files with the most bytes moved, (reads, writes) of every file)."""
    moved, calls = np.zeros(len(trace.files)), np.zeros((len(trace.files), 2), np.int64)
    for rows in _transfers(trace):
        np.add.at(moved, rows["file"], rows["length"].astype(np.float64))
        np.add.at(calls, (rows["file"], (rows["op"] == WRITE).astype(int)), 1)
    chosen = [i for i in np.argsort(-moved, kind="stable")[:files].tolist() if moved[i]]
    if not chosen:
        raise UsageError(f"{str(trace.path)!r} has no read or write that moves a byte; there is nothing to draw")
    return chosen, calls


def _sample(trace: StoredTrace, every: np.ndarray) -> np.ndarray:
    """Return a sample of transfers: about one in every[file, is it a write]; none where `every` is 0."""
    parts, seen = [], 0
    for rows in _transfers(trace):
        number = np.arange(seen, seen + len(rows), dtype=np.uint64)
        seen += len(rows)
        wanted = every[rows["file"], (rows["op"] == WRITE).astype(int)].astype(np.uint64)
        keep = wanted > 0
        keep[keep] = (number[keep] * _GOLDEN >> np.uint64(32)) % wanted[keep] == 0
        parts.append(rows[keep])
    return np.concatenate(parts)


def _transfers(trace: StoredTrace) -> Iterator[np.ndarray]:
    """Yield the reads and writes of each batch of a trace."""
    for batch in trace.batches(CHUNK):
        rows = batch.view(np.ndarray)
        yield rows[(rows["op"] == READ) | (rows["op"] == WRITE)]


def _chart(altair: Any, trace: StoredTrace, chosen: list[int], every: np.ndarray, rows: np.ndarray) -> Any:
    scale, time_unit = next(unit for unit in _TIMES if unit[0] <= max(int(rows["time_ns"].max(initial=0)), 1))
    panels = []
    for file in chosen:
        mine = rows[rows["file"] == file]
        parts = [f"about 1 in {k:,} {op}s" for k, op in zip(every[file].tolist(), _COLOURS, strict=True) if k > 1]
        shown = f"   ({', '.join(parts)})" if parts else ""
        if len(mine):
            panels.append(_panel(altair, _name(trace.files.path[file]) + shown, mine, scale, f"time ({time_unit})"))
    title = altair.TitleParams(f"Offsets over time: {_name(trace.path.name)}", subtitle=_BARS, anchor="start")
    return altair.vconcat(*panels, title=title).resolve_scale(x="shared", y="independent")


def _panel(altair: Any, name: str, rows: np.ndarray, scale: int, time: str) -> Any:
    """Return the panel of one file: a vertical bar over the bytes of each transfer, at least two pixels long."""
    top = int((rows["offset"] + rows["length"]).max())
    unit, unit_name = next(unit for unit in _UNITS if unit[0] <= max(top, 1))
    least = top / 60
    values = [
        {
            "t": t / scale,
            "from": at / unit,
            "to": (at + max(length, least)) / unit,
            "op": "read" if op == READ else "write",
        }
        for t, at, length, op in zip(*(rows[c].tolist() for c in ("time_ns", "offset", "length", "op")), strict=True)
    ]
    colour = altair.Scale(domain=list(_COLOURS), range=list(_COLOURS.values()))
    return (
        altair.Chart(altair.Data(values=values), title=altair.TitleParams(name, anchor="start", fontSize=11))
        .mark_rule(strokeWidth=1.5, opacity=0.7)
        .encode(
            x=altair.X("t:Q", title=time),
            y=altair.Y("from:Q", title=f"offset ({unit_name})"),
            y2="to:Q",
            color=altair.Color("op:N", scale=colour, title=None, legend=altair.Legend(orient="bottom")),
        )
        .properties(width=640, height=120)
    )


def _name(path: str) -> str:
    """Return a name that is safe in markup: unprintable characters are escaped; of a long name only the end is kept."""
    plain = "".join(c if c.isprintable() and c not in "<>&" else f"\\x{ord(c):02x}" for c in path)
    return plain if len(plain) <= _NAME else "…" + plain[1 - _NAME :]
