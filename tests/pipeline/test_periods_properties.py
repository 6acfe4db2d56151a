"""Passes that repeat: what is left out and multiplied gives the very counts of a replay of every pass."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scmsim
from scmsim.core import registry
from scmsim.core.records import APPENDS, CLOSE, CREATE, FSYNC, OPEN, READ, SETUP, STAT, UNLINK, WRITE, joined
from scmsim.workload import _stream, thesis
from scmsim.workload._stream import ops
from tests.conftest import NO_JIT

MODELS = [name for name in registry.names("fs") if "STATISTICS" in vars(registry.load("fs", name))]
PAGE = 4096


class Cell(_stream.Stream):
    """A file that is filled, the same pass over it many times, and what comes after."""

    header = {"tool": "test"}  # noqa: RUF012

    def __init__(self, rows, times, interval, pages=4):
        self.files = _stream.table(["/d", "/d/f", "/d/g"], [0, -1, -1], [True, False, False])
        self.rows_of_a_pass, self.times, self.interval, self.pages = rows, times, interval, pages

    def parts(self):
        fill = [ops(CREATE, 1, file2=0, flag=SETUP), ops(WRITE, 1, np.arange(self.pages) * PAGE, PAGE, flag=SETUP)]
        yield lambda: fill, 1
        yield lambda: [joined([_row(*row) for row in self.rows_of_a_pass])], self.times
        yield lambda: [ops(FSYNC, 1), ops(READ, 1, 0, PAGE), ops(UNLINK, 1, file2=0)], 1


def _row(kind, page, pages):
    if kind == "fresh":  # a file that is made, written, closed and removed within the pass
        made = [ops(CREATE, 2, file2=0), ops(WRITE, 2, 0, PAGE * pages, flag=APPENDS), ops(CLOSE, 2)]
        return joined([*made, ops(UNLINK, 2, file2=0)])
    code = {"read": READ, "write": WRITE, "fsync": FSYNC, "stat": STAT, "open": OPEN, "close": CLOSE}[kind]
    return ops(code, 1, page * PAGE if code in (READ, WRITE) else -1, pages * PAGE if code in (READ, WRITE) else 0)


class Whole:
    """The same stream without its parts: every pass is replayed."""

    def __init__(self, source):
        self.header, self.files, self.rows, self.batches = source.header, source.files, source.rows, source.batches


def both(source, fs, **more):
    """(The run with passes left out, without what differs; what differs; the run of every pass.)"""
    runs = [dataclasses.asdict(scmsim.replay(one, fs, **more).runs[0]) for one in (source, Whole(source))]
    repeated = [run.pop("repeated") for run in runs]
    assert repeated[1] == 0
    return runs[0], repeated[0], runs[1]


def test_the_thesis_file_systems_take_part():
    assert {"ext4", "ext4-dax", "nova-fast16", "nova-cow", "nova-inplace"} <= set(MODELS)


ROW = st.tuples(
    st.sampled_from(["read", "write", "write", "fsync", "stat", "fresh"]), st.integers(0, 3), st.integers(1, 3)
)


@pytest.mark.parametrize("fs", MODELS)
@settings(max_examples=3 if NO_JIT else 15, deadline=None)
@given(
    rows=st.lists(ROW, min_size=1, max_size=5),
    times=st.integers(1, 70),
    interval=st.sampled_from(
        [1000, 10**6, 3 * 10**8, 10**10]
    ),  # ns: commits and write-back fall between passes, or into them
    paging=st.sampled_from(["directmap-1g", "base-4k"]),
    by=st.sampled_from(["site", "op", "file"]),
)
def test_every_count_is_that_of_a_whole_replay(fs, rows, times, interval, paging, by):
    found, _, whole = both(Cell(rows, times, interval), fs, paging=paging, by=by)
    assert found == whole


@pytest.mark.parametrize("interval", [1000, 1_000_000])
@pytest.mark.parametrize("fs", MODELS)
def test_reads_are_left_out_once_the_state_has_come_back(fs, interval):
    """Whether or not the clock of files' times ticks between them.  Footprints take up to 130 passes to come back."""
    found, repeated, whole = both(Cell([("read", 0, 2), ("read", 2, 2)], 400, interval), fs)
    assert found == whole and repeated > 250


def test_passes_are_left_out_with_caches_too():
    found, repeated, whole = both(Cell([("read", 0, 2), ("read", 2, 2)], 400, 1000), "nova-cow", caches="stream")
    assert found == whole and repeated > 250 and found["counters"]["cache_load_l1_hit"] > 0


@pytest.mark.parametrize("fs", ["ext4", "ext4-dax"])
def test_commits_and_write_back_come_at_their_time(fs):
    """Passes of 10 ms: each 500th commits, writes back, or both; those between repeat, and none is left out past it."""
    source = Cell([("write", 0, 4), ("read", 1, 1)], 4000, 5_000_000)
    found, repeated, whole = both(source, fs, params={fs: {"timestamp_tick": "0ns"}})
    assert found == whole and 4000 < repeated < 8000 and whole["space"]["commits"] > 3


def test_a_thesis_cell_is_that_of_a_whole_replay():
    source = thesis.Workload("rewrite", 1 << 20, 1 << 20, 256 << 10, 256 << 10, 3000 << 20)
    found, repeated, whole = both(source, "ext4-dax", params={"ext4-dax": {"timestamp_tick": "0ns"}})
    assert found == whole and found["operations"] == 12000 and repeated > 6000
