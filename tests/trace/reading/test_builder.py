"""A conversion in work: tables beside the same rows one by one, and the bounds of what a record may say."""

from pathlib import Path

import numpy as np
import pytest

from scmsim.core.records import DATA_ONLY, FALLOCATE, FSYNC, READ, WRITE, joined
from scmsim.trace.reading.builder import EMPTY, FAR, OUTSIDE, TRIM
from scmsim.trace.reading.importing import Import
from scmsim.trace.reading.input import Input
from scmsim.trace.reading.lines import BadLine
from scmsim.trace.store import TraceWriter, open_trace

PATHS = ["/d/a", "/d/b", "/out/c", "/d/e"]


def built(folder: Path, fill, granularity: str = "file"):
    """Rows, first sizes and account of what `fill` does with a builder and the numbers of files."""
    (folder / "in").write_text("x\n")
    with TraceWriter(folder / "out", {}) as writer:
        builder = Import(Input(folder / "in"), writer, under="/d").builder(granularity)
        files = [builder.file(path, first) for path, first in zip(PATHS, (0, 50, 0, 0), strict=True)]
        fill(builder, files)
        builder.finish("test", "a test", clock="of a test")
    trace = open_trace(folder / "out")
    rows = joined(list(trace.batches())).tolist()
    return rows, trace.files.first_size.tolist(), +builder.report.left_out, builder.jumps


@pytest.mark.parametrize("granularity", ["file", "block"])
@pytest.mark.parametrize("seed", range(3))
def test_a_table_is_what_its_rows_are(tmp_path: Path, granularity: str, seed: int) -> None:
    random, n = np.random.default_rng(seed), 60
    times = 1000 + np.cumsum(random.choice([0, 5, 7, -3, -50, FAR], n, p=[0.3, 0.3, 0.3, 0.05, 0.03, 0.02]) % (2 * FAR))
    op, which = random.choice([READ, WRITE, READ, WRITE, FSYNC], n), random.integers(0, 4, n)
    offset, length = random.integers(0, 100, n), random.choice([0, 1, 40], n)
    thread, flag = random.integers(0, 3, n), random.choice([0, DATA_ONLY], n)

    def at_once(builder, files):
        for part in (slice(0, 25), slice(25, 25), slice(25, n)):
            columns = (times[part], op[part], np.array(files)[which[part]], offset[part], length[part])
            builder.table(*columns, thread[part], flag[part])

    def one_by_one(builder, files):
        for i in range(n):
            builder.report.lines += 1
            now, file = builder.at(int(times[i])), files[which[i]]
            if op[i] == FSYNC:
                reason = builder.other(now, FSYNC, file, int(offset[i]), int(length[i]), int(thread[i]), int(flag[i]))
            else:
                reason = builder._transfer(
                    now, int(op[i]), file, int(offset[i]), int(length[i]), int(thread[i]), int(flag[i])
                )
            if reason is None:
                builder.report.calls += 1
            else:
                builder.report.left_out[reason] += 1
        builder.flush()

    fast, slow = built(tmp_path, at_once, granularity), built(tmp_path, one_by_one, granularity)
    assert fast[0] == slow[0] and fast[2:] == slow[2:]
    if granularity == "file":
        assert fast[1] == slow[1]
    else:  # a device has all its bytes from the start
        inside = [0, 1, 3]
        ends = [
            max(offset[k] + length[k] for k in np.flatnonzero((which == i) & (op != FSYNC) & (length > 0)))
            for i in inside
        ]
        assert fast[1] == [max(end, first) for end, first in zip(ends, (0, 50, 0), strict=True)]


def test_what_is_read_before_it_was_written_was_there(tmp_path: Path) -> None:
    def fill(builder, files):
        a, b, _, e = files
        moves = [
            (WRITE, a, 0, 10),
            (READ, a, 0, 10),
            (READ, a, 5, 6),
            (WRITE, a, 90, 10),
            (READ, a, 0, 99),
            (READ, b, 0, 40),
            (READ, e, 3, 4),
        ]
        for number, (op, file, offset, length) in enumerate(moves):
            builder.report.lines += 1
            builder.report.calls += 1
            (builder.write if op == WRITE else builder.read)(builder.at(number), file, offset, length)
        assert builder.make("/d/new", 7, exact=True) == 3
        builder.transferred(READ, 3, 1000)

    assert built(tmp_path, fill)[1] == [11, 50, 7, 7]


def test_bounds_of_a_record(tmp_path: Path) -> None:
    def fill(builder, files):
        a, _, outside, _ = files
        assert outside == -1 and builder.read(0, -1, 0, 5) == builder.other(0, FSYNC, -1) == OUTSIDE
        assert builder.read(0, a, 5, 0) == builder.write(0, a, 5, 0) == EMPTY
        for offset, length in ((FAR, 0), (FAR - 1, 1), (0, FAR)):
            for call in (builder.read, builder.write, builder.trim):
                with pytest.raises(BadLine, match="is beyond 2"):
                    call(0, a, offset, length)
        assert (
            builder.read(0, a, FAR - 2, 1)
            is builder.trim(0, a, 0, FAR - 1)
            is builder.sync(0, a, data_only=True)
            is builder.sync(0, a)
            is None
        )
        builder.report.lines = builder.report.calls = 4

    rows, *_ = built(tmp_path, fill)
    assert len(rows) == 4
    trace = joined(list(open_trace(tmp_path / "out").batches()))
    assert trace["op"].tolist() == [READ, FALLOCATE, FSYNC, FSYNC] and trace["flag"].tolist() == [0, TRIM, DATA_ONLY, 0]


@pytest.mark.parametrize(
    ("under", "inside"), [("/d", [1, 1, 0, 0, 0]), ("d/", [1, 1, 0, 0, 0]), ("/", [1, 1, 1, 1, 0]), (None, [1] * 5)]
)
def test_what_lies_below_a_directory(tmp_path: Path, under: str | None, inside: list[int]) -> None:
    (tmp_path / "in").write_text("x\n")
    with TraceWriter(tmp_path / "out", {}) as writer:
        builder = Import(Input(tmp_path / "in"), writer, under=under).builder()
        found = [builder.file(path) for path in ("/d", "/d/a", "/da", "/e/d", "d")]
        numbers = iter(range(5))
        assert found == [next(numbers) if is_inside else -1 for is_inside in inside]
        assert [builder.thread(key) for key in (7, 9, 7, "x")] == [0, 1, 0, 2]
        builder.report.lines = builder.report.calls = 1
        builder.sync(0, 0)
        builder.finish("test", "a test", clock="of a test")
