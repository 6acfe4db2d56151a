"""The kernels of a family beside its reference implementation, operation by operation, and what every family must obey.

A family declares two things: `start`, which gives a fresh model and its reference, and `same`, what they agree in besides what
persistent memory saw.  There are two kinds of reference: one counts by the site of a mechanism (`BySite`), one by the kind of what
is stored, as in the families of Linux (`ByKind`).  What holds of every model alone is in tests/conformance.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from scmsim.core.records import (
    DATA_ONLY,
    FENCE,
    FLUSH,
    KEEP_SIZE,
    NTSTORE,
    OPS,
    PM,
    PUNCH_HOLE,
    STORE,
    SYNCHRONOUS,
)
from tests.fs import drive

SECOND = 10**9
TICK = SECOND // 250  # of the clock that files' times are taken from, ns (CONFIG_HZ=250)
KINDS = ("data", "metadata", "log", "zeroing")
FLAGS = {SYNCHRONOUS: "synchronous", DATA_ONLY: "data only", KEEP_SIZE: "keep size", PUNCH_HOLE: "punch"}

# Files of the traces below: 0 is a directory, 4 existed before.
NAMES = ("/d", "/d/a", "/d/longer-name", "/d/n" + "x" * 60, "/d/old")
SIZES = (0, -1, -1, -1, 10_000)
ZERO, PLAIN, PARENT = st.just(0), st.integers(1, 4), st.sampled_from([-1, 0])


def names_of(paths: Iterable[str]) -> list[str]:
    """Names without their directories."""
    return [path.rsplit("/", 1)[-1] for path in paths]


def command(op: str, *parts: st.SearchStrategy) -> st.SearchStrategy:
    """An operation: its name, then file, offset, length, second file."""
    return st.tuples(st.just(op), *parts)


def commands(
    offsets: st.SearchStrategy,
    lengths: st.SearchStrategy,
    *more: st.SearchStrategy,
    file: st.SearchStrategy = PLAIN,
    parent: st.SearchStrategy = PARENT,
) -> st.SearchStrategy:
    """Calls on data and names of few files; `more` are calls that a family has besides, or that it shall meet more often."""
    replaced = st.tuples(file, st.sampled_from([-1, 1, 2, 3, 4])).filter(lambda pair: pair[0] != pair[1])
    return st.one_of(
        command("create", file, ZERO, ZERO, parent),
        command("write", file, offsets, lengths),
        command("write", file, offsets, lengths),
        command("read", file, offsets, lengths),
        command("truncate", file, offsets),
        command("fallocate", file, offsets, lengths),
        command("fsync", file),
        command("stat", file),
        command("open", file),
        command("close", file),
        command("unlink", file, ZERO, ZERO, parent),
        command("link", file, ZERO, ZERO, parent),
        replaced.map(lambda pair: ("rename", pair[0], 0, 0, pair[1])),
        *more,
    )


def edges_of_blocks(unit: int) -> list[tuple]:
    """Transfers that begin and end at a block's edge, a byte before or behind it, and such of no byte; then cuts there."""
    edges = (0, 1, unit - 1, unit, unit + 1, 2 * unit)
    rows: list[tuple] = [("create", 1, 0, 0, 0)]
    rows += [(op, 1, at, length) for at in edges for length in (unit, 1, 0, unit + 1) for op in ("write", "read")]
    for cut in (3 * unit, 2 * unit + 1, 2 * unit, 2 * unit - 1, 1, 0):
        rows += [("truncate", 1, cut), ("read", 1, 0, 4 * unit), ("write", 1, cut + unit - 1, 2), ("read", 1, cut, 0)]
    return [*rows, ("write", 1, 0, 40 * unit), ("read", 1, 0, 1), ("read", 1, 30 * unit, 0), ("read", 1, 30 * unit, 1)]


def space(found: dict[str, int]) -> None:
    """Conservation: what is live is allocated, and what is allocated is there."""
    assert 0 <= found["live_bytes"] <= found["allocated_bytes"] <= found["capacity_bytes"]
    assert found["waste_bytes"] >= 0


@dataclass(frozen=True)
class BySite:
    """A family whose reference implementation has `do(*row)` and, after it, a Counter by site for each of `fields`."""

    start: Callable[..., tuple[drive.Model, Any]]
    same: Callable[[drive.Model, Any, np.recarray], None]  # after each operation, with its events
    fields: tuple[str, ...] = ("stored", "nt", "flushes", "fences")
    may_fail: bool = False  # then a call that fails does nothing, and the reference does not hear of it
    batch: Callable[[int, tuple], np.recarray] = lambda number, row: drive.ops(row)
    row: Callable[[int, tuple], tuple] = lambda number, row: row  # what `do` takes

    def agree(self, rows: Iterable[tuple], *variant: Any, **params: Any) -> tuple[drive.Model, Any]:
        """Feed a fresh model and its reference with the same operations; returns both."""
        model, slow = self.start(*variant, **params)
        failed = 0
        for number, row in enumerate(rows):
            events, where = model.feed(self.batch(number, row)), f"operation {number}, {row}"
            found = drive.persistent(events, model.sites)
            if self.may_fail and int(model.record.failed) > failed:
                failed += 1
                assert not any(found.values()), f"{where} failed but did something: {found}"
                continue
            assert int(model.record.failed) == failed, where
            slow.do(*self.row(number, row))
            for field in self.fields:
                expected = Counter({site: amount for site, amount in getattr(slow, field).items() if amount})
                assert found[field] == expected, f"{where}, {field}"
            try:
                self.same(model, slow, events)
            except AssertionError as error:
                raise AssertionError(f"{where}: {error}") from error
        space(model.space())
        return model, slow


# The files of families of Linux: 0 and 7 are directories (7 is made in the trace, if at all), 5 and 6 existed before.
LINUX_SIZES = (0, -1, -1, -1, -1, 30_000, 1, -1)
LINUX_NAMES = ("/d", "/d/a", "/d/b" + "x" * 200, "/d/c", "/d/" + "y" * 255, "/d/old", "/d/older", "/d/sub")


def linux_files() -> Any:
    """Side table of these files."""
    return drive.files(*LINUX_SIZES, dirs=[0, 7], names=LINUX_NAMES)


def linux_traces() -> st.SearchStrategy:
    """Lists of (operation, nanoseconds before it)."""
    plain, folder = st.integers(1, 6), st.sampled_from([-1, 0, 0, 7])
    offset = st.one_of(st.integers(0, 60_000), st.integers(0, 20).map(lambda page: page * 4096))
    length = st.one_of(st.integers(0, 30_000), st.integers(1, 9).map(lambda page: page * 4096), st.integers(1, 9))

    def call(name, file=plain, at=0, size=0, file2=-1, flag=0):
        parts = (st.just(part) if isinstance(part, int) else part for part in (at, size, file2, flag))
        return st.tuples(st.just(name), file, *parts)

    calls = st.one_of(
        call("create", file2=folder),
        call("write", at=offset, size=length, flag=st.sampled_from([0, 0, SYNCHRONOUS])),
        call("write", at=offset, size=length),
        call("read", at=offset, size=length),
        call("fsync", st.integers(0, 7), flag=st.sampled_from([0, DATA_ONLY])),
        call("truncate", at=offset),
        call("fallocate", at=offset, size=length.filter(bool), flag=st.sampled_from([0, KEEP_SIZE, PUNCH_HOLE])),
        call("unlink", file2=folder),
        call("rename", file2=st.sampled_from([-1, 1, 2, 5, 6])),
        call("link", file2=folder),
        call("mkdir", st.just(7), file2=st.just(0)),
        call("rmdir", st.just(7), file2=st.just(0)),
        call("open"),
        call("close"),
        call("stat"),
        call("sync", st.just(-1)),
    )
    return st.lists(
        st.tuples(calls, st.sampled_from([1000] * 8 + [3 * SECOND // 1000, SECOND, 4 * SECOND, 40 * SECOND])),
        max_size=60,
    )


def spaced(*rows: tuple, wait: int = 1000) -> list[tuple]:
    """Operations at equal distances."""
    return [(row, wait) for row in rows]


def every_other_page(count: int) -> list[tuple]:
    """Each page an extent of its own: leaves, some of them freed again."""
    rows = [("create", 1), *[("write", 1, 8192 * i, 100) for i in range(count)], ("fsync", 1)]
    rows += [("write", 1, 8192 * (count - 1), 9000, -1, SYNCHRONOUS), ("truncate", 1, 4096 * count), ("fsync", 1)]
    return spaced(*rows, ("write", 1, 4096, 5000), ("sync", -1), ("unlink", 1), ("sync", -1))


def edges(count: int = 60) -> tuple[list[tuple], Any]:
    """Ends of a file that move within a page, and names that take the places of others; and the files."""
    rows: list[tuple] = [("create", 1, 0, 0, 0), ("write", 1, 0, 100), ("fsync", 1)]
    rows += [("truncate", 1, size) for size in (200, 150, 4096, 4097, 8192, 5000)]
    rows += [
        ("write", 1, 4999, 2),
        ("truncate", 1, 6000),
        ("fsync", 1),
        ("truncate", 1, 1),
        ("truncate", 1, 4000),
        ("fsync", 1),
    ]
    rows += [("create", file, 0, 0, 0) for file in range(2, count)]
    rows += [("unlink", file, 0, 0, 0) for file in range(2, count) if file % 3 or file > count - 9]
    rows += [("create", file, 0, 0, 0) for file in range(count - 1, 1, -1) if file % 3]
    rows += [(op, file, 0, 0, -1) for file in range(3, count, 3) for op in ("rename", "stat")]
    names = [f"/d/{'n' * (file * 7 % 90 if file > 40 else 0)}{file}" for file in range(count)]  # short ones first
    return spaced(*rows, ("sync", -1)), drive.files(0, *[-1] * count, dirs=[0], names=["/d", *names])


def long_names(count: int = 66) -> tuple[list[tuple], Any]:
    """A directory whose names are as long as can be or short, so that it soon has several blocks; and the files."""
    every = range(1, count + 1)
    rows: list[tuple] = [("create", file, 0, 0, 0) for file in every]
    rows += [("link", file, 0, 0, 0) for file in every if file % 7 == 0] + [("fsync", 5)]
    rows += [(op, file, 0, 0, -1) for file in range(1, count, 9) for op in ("rename", "stat")]
    rows += [("unlink", file, 0, 0, 0) for file in every if file % 3 == 0]
    rows += [("create", file, 0, 0, 0) for file in every if file % 6 == 0] + [("sync", -1)]
    rows += [("unlink", file, 0, 0, 0) for file in every for _ in (1, 2)]
    names = [f"/d/{'n' * (200 + file % 50 if file % 3 else file % 11)}{file}" for file in every]
    return spaced(*rows, ("sync", -1)), drive.files(0, *[-1] * count, dirs=[0], names=["/d", *names])


def full_block_of_names(last: int) -> tuple[list[tuple], Any]:
    """A directory of 15 names as long as can be, one of `last` bytes, and a short one; and the files."""
    names = [*(f"/d/{file:0255d}" for file in range(1, 16)), "/d/" + "n" * last, "/d/z"]
    rows: list[tuple] = [("create", file, 0, 0, 0) for file in range(1, 18)] + [("stat", 16), ("unlink", 16, 0, 0, 0)]
    return spaced(*rows, ("create", 16, 0, 0, 0), ("sync", -1)), drive.files(
        0, *[-1] * 17, dirs=[0], names=["/d", *names]
    )


def nearly_full() -> list[tuple]:
    """Writes of which a part fits: behind a file's end, over its holes, over blocks and holes, not from a page's start."""
    rows = [("create", 1, 0, 0, 0), *[("write", 1, 16_384 * page, 4096) for page in range(5)]]
    rows += [("write", 1, 5000, 600_000), ("fsync", 1), ("unlink", 1, 0, 0, 0), ("sync", -1), ("create", 2, 0, 0, 0)]
    rows += [("write", 2, 300_000, 20_000), ("fsync", 2), ("write", 2, 80_000, 500_000), ("fsync", 2)]
    rows += [
        ("truncate", 2, 90_000),
        *[("write", 2, (1 << 20) + 40_960 * k, 4096) for k in range(6)],
        ("write", 2, 1 << 20, 400_000),
        ("fsync", 2),
        ("write", 2, 100, 1 << 20),
        ("sync", -1),
    ]
    return spaced(*rows, ("unlink", 2, 0, 0, 0), ("sync", -1))


@dataclass(frozen=True)
class ByKind:
    """A family whose reference has `apply(...)`, which returns (data, metadata, log, zeroing, flushed lines, fences) of a call."""

    start: Callable[..., tuple[drive.Model, Any]]
    same: Callable[[drive.Model, Any], None]  # at the end

    def agree(self, trace: list[tuple], *variant: Any, step: int = 0, **params: Any) -> Any:
        """Run a fresh model and its reference over a trace and compare all that both know; returns the reference.

        What they hold is compared at the end, or after every `step` operations.
        """
        model, slow = self.start(*variant, **params)
        batch = drive.ops(*[parts for parts, _ in trace])
        batch.time_ns = np.cumsum([0, *[wait for _, wait in trace]])[1:]
        step = step or max(len(batch), 1)
        for start in range(0, len(batch), step):
            part = batch[start : start + step]
            found = stored_by_operation(model, model.feed(part), len(part))
            for i, row in enumerate(part):
                flags = [name for bit, name in FLAGS.items() if row.flag & bit]
                numbers = (int(row.file), int(row.offset), int(row.length))
                expected = slow.apply(OPS[row.op], *numbers, flags, int(row.file2), int(row.time_ns))
                assert tuple(found[i]) == expected, (start + i, OPS[row.op], row)
            self.same(model, slow)
        now, nodes = model.space(), [node for node in slow.nodes.values() if not node.is_dir]
        assert (int(model.record.failed), int(model.record.short)) == (slow.failed, slow.short_writes)
        assert now["file_bytes"] == sum(node.size for node in nodes) and now["files"] == len(nodes)
        assert now["live_bytes"] <= now["file_bytes"]
        assert now["allocated_bytes"] + now["metadata_bytes"] + now["preallocated_bytes"] <= now["capacity_bytes"]
        space(now)
        return slow


def stored_by_operation(model: drive.Model, events: np.recarray, count: int) -> np.ndarray:
    """(data, metadata, log, zeroing, flushed lines, fences) of each operation."""
    kinds, rows = list(model.module.SITES.values()), np.zeros((count, len(KINDS) + 2), np.int64)
    for event in events:
        code, at, size = int(event.code), int(event.addr), int(event.length)
        if code in (STORE, NTSTORE) and event.space == PM:
            rows[event.op, KINDS.index(kinds[event.site])] += size
        elif code == FLUSH:
            rows[event.op, -2] += drive.lines(at, size)
        elif code == FENCE:
            rows[event.op, -1] += size
    return rows
