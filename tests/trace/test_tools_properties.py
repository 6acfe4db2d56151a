"""The trace tools against their row-by-row reference implementations, on traces of any operations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.records import OP, OPS, READ, SETUP, WRITE, Files, joined
from scmsim.trace import _pages, open_trace
from scmsim.trace._rewrite import write
from scmsim.trace._sizes import Sizes
from scmsim.trace.cut import cut_trace
from scmsim.trace.merge import merge_traces
from scmsim.trace.stats import stats
from tests.reference import trace_slow

FILES = 4
CHANGING = (
    "create", "write", "truncate", "fallocate", "unlink", "rename", "mkdir", "rmdir", "malloc", "free",
)  # fmt: skip
rows_of_traces = st.lists(
    st.tuples(
        st.integers(0, len(OPS) - 1),
        st.integers(0, FILES - 1),
        st.integers(-1, FILES - 1),
        st.integers(0, 12) | st.integers(0, 40_000),
        st.integers(0, 3) | st.integers(0, 30_000),
        st.sampled_from([0, 0, 0, SETUP, 128, 256]),
        st.integers(0, 1),
        st.sampled_from([0, 100, 4096]),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=40,
)


def trace_of(listed):
    rows = np.zeros(len(listed), OP)
    names = ("op", "file", "file2", "offset", "length", "flag", "thread", "buffer", "time_ns")
    for name, column in zip(names, zip(*listed, strict=True), strict=True):
        rows[name] = column
    rows["time_ns"] = np.cumsum(rows["time_ns"])
    return rows


class Memory:
    """A source of rows in memory."""

    header: dict = {}

    def __init__(self, rows, cut=1 << 30):
        self.content, self.cut, self.rows = rows, cut, len(rows)
        self.files = Files([f"/f{i}" for i in range(FILES)], np.array([0, -1, 5000, 100]), np.zeros(FILES, bool))

    def batches(self, chunk=1 << 14):
        step = min(chunk, self.cut)
        for first in range(0, len(self.content), step):
            yield self.content[first : first + step].view(np.recarray)


@given(rows_of_traces, st.integers(1, 7))
def test_sizes(listed, cut):
    source = Memory(trace_of(listed), cut)
    fast, slow = Sizes(source.files), trace_slow.Sizes(source.files.first_size)
    for batch in source.batches():
        slowly = [slow.step(row) for row in batch]
        changing = np.isin(batch["op"], [OPS.index(name) for name in CHANGING])
        assert fast.follow(batch.view(np.ndarray)).tolist() == np.where(changing, slowly, 0).tolist()
        assert fast.now.tolist() == [slow.now[i] for i in range(FILES)]


@given(rows_of_traces, st.integers(1, 50), st.booleans())
def test_stats(listed, cut, setup):
    source = Memory(trace_of(listed), cut)
    found = stats(source, setup=setup)
    slow = trace_slow.stats(source.content, source.files.first_size, setup)
    assert found["ops"] == slow["ops"]
    assert (found["read"]["sequential"], found["write"]["sequential"]) == slow["sequential"]
    assert (found["working_set"]["bytes"], found["working_set"]["written_bytes"]) == slow["working_set"]
    assert found["working_set"]["complete"] and found["buffers"]["bytes"] == slow["buffers"]
    assert (found["overwritten"] or 0) * found["write"]["bytes"] == pytest.approx(slow["overwritten_bytes"])
    assert (found["appends"] or 0) * found["write"]["calls"] == pytest.approx(slow["appends"])
    transfers = found["read"]["calls"] + found["write"]["calls"]
    assert (found["buffers"]["shared"] or 0) * transfers == pytest.approx(slow["shared"])
    assert sum(found["read"]["sizes"].values()) == found["read"]["calls"]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 300_000), st.integers(0, 60_000)), min_size=1, max_size=60))
@settings(max_examples=60)
def test_pages(ranges):
    pages, slow = _pages.Pages(), set()
    for first in range(0, len(ranges), 7):
        thing, offset, length = (np.array(column) for column in zip(*ranges[first : first + 7], strict=True))
        pages.add(thing, offset, length)
        if first % 2:
            pages._settle()
    for thing, offset, length in ranges:
        if length:
            slow |= {(thing, page) for page in range(offset // 4096, (offset + length - 1) // 4096 + 1)}
    assert pages.count() == len(slow) and pages.complete


def test_too_many_ranges_give_a_lower_bound():
    pages = _pages.Pages(most=10)
    pages.add(np.zeros(20, int), np.arange(20) * 8192, np.ones(20, int))
    assert pages.count() == 20 and not pages.complete
    pages.add(np.array([1]), np.array([0]), np.array([1]))
    assert pages.count() == 20


@given(rows_of_traces, st.integers(0, 60), st.integers(1, 60), st.booleans())
@settings(max_examples=40)
def test_a_cut_starts_with_the_sizes_of_its_moment(tmp_path_factory, listed, start, length, prepare):
    folder = tmp_path_factory.mktemp("cut")
    source = Memory(trace_of(listed))
    write(folder / "a.parquet", {}, [source.content], source.files)
    times = source.content["time_ns"]
    inside = (times >= start) & (times < start + length)
    if not inside.any():
        return
    count = cut_trace(folder / "a.parquet", folder / "b.parquet", start=start, stop=start + length, prepare=prepare)
    made = open_trace(folder / "b.parquet")
    rows = joined(list(made.batches()))
    assert count == len(rows) == np.count_nonzero(times < start + length) if prepare else inside.sum()
    slow = trace_slow.Sizes(source.files.first_size)
    for row in source.content[: 0 if prepare else int(np.argmax(inside))]:
        slow.step(row)
    for path, size in zip(made.files.path, made.files.first_size, strict=True):
        assert size == slow.now[int(path[2:])]
    counted = rows[len(rows) - inside.sum() :]
    original = source.content[inside]
    assert (counted["time_ns"] == original["time_ns"] - start).all() and (counted["length"] == original["length"]).all()
    assert [made.files.path[i] for i in counted["file"]] == [f"/f{i}" for i in original["file"]]
    if prepare:
        assert (rows["flag"][: len(rows) - inside.sum()] & SETUP != 0).all()


@given(st.lists(rows_of_traces, min_size=2, max_size=3))
@settings(max_examples=30)
def test_a_merge_has_all_rows_by_time(tmp_path_factory, many):
    folder = tmp_path_factory.mktemp("merge")
    traces = [trace_of(listed) for listed in many]
    names = [folder / f"{i}.parquet" for i in range(len(traces))]
    for name, rows in zip(names, traces, strict=True):
        write(name, {}, [rows], Memory(rows).files)
    assert merge_traces(names, folder / "out.parquet") == sum(map(len, traces))
    merged = joined(list(open_trace(folder / "out.parquet").batches()))
    expected = []
    threads = 0
    for number, rows in enumerate(traces):
        moved = rows.copy()
        moved["file"] += number * FILES
        moved["file2"][rows["file2"] >= 0] += number * FILES
        moved["thread"] += threads
        threads = int(moved["thread"].max()) + 1
        expected += list(moved)
    expected.sort(key=lambda row: row["time_ns"])  # stable: equal times stay in the order of the sources
    assert merged.tolist() == [row.tolist() for row in expected]


def test_extreme_rows_overflow_nothing():
    rows = np.zeros(6, OP)
    rows["op"], rows["file2"] = [WRITE, READ, WRITE, WRITE, READ, WRITE], -1
    rows["offset"] = [0, 0, 1 << 61, 0, 1 << 61, 5]
    rows["length"] = [1 << 61, 1 << 61, 1 << 61, 1 << 61, 1 << 61, 0]
    found = stats(Memory(rows))
    assert found["write"]["bytes"] == 3 << 61 and found["read"]["bytes"] == 2 << 61
    assert found["working_set"]["bytes"] == 2 << 61 and found["overwritten"] == pytest.approx(1 / 3)
    assert found["write"]["sizes"] == {"0": 1, str(1 << 61): 3}
