"""The kernels of famfs against their reference implementation, and laws of its maps of files."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.errors import UsageError
from scmsim.core.records import FLUSH, KERNEL, LOAD, MAP, PM, STORE
from scmsim.fs.famfs import state
from tests.conftest import NO_JIT
from tests.fs import drive, laws
from tests.fs.famfs.reference import UNIT, Famfs

MIB = 1 << 20
offsets = st.one_of(st.integers(0, 70_000), st.integers(0, 6).map(lambda k: k * MIB), st.integers(0, 6 * MIB))
lengths = st.one_of(st.integers(0, 9), st.integers(1, 20_000), st.integers(1, 9).map(lambda k: k * MIB))
commands = laws.commands(offsets, lengths)


def start(grows, capacity=256 * MIB):
    model = drive.Model(
        "famfs", drive.files(*laws.SIZES, dirs=[0]), capacity=capacity, growth="logged" if grows else "refused"
    )
    return model, Famfs(laws.SIZES, (0,), capacity // UNIT, grows=grows)


def same(model, slow, events):
    record = model.record
    found = (record.free_blocks, record.live_entries, record.beyond, record.unsupported, record.unlinked)
    assert tuple(map(int, found)) == (len(slow.free), slow.entries, slow.beyond, slow.unsupported, slow.unlinked)
    rows = state.file_row.of(model.state, state.FILE_WORDS)
    for number, file in slow.files.items():
        assert rows[number, state.file_row.SIZE] == file.size, number
        units = model.state.arena[rows[number, state.UNITS] :][: rows[number, state.file_row.MAPPED]]
        assert units.tolist() == file.units, number
    assert model.space()["unreachable_bytes"] == slow.lost * UNIT


FAMILY = laws.BySite(start, same)


@pytest.mark.parametrize("grows", [False, True], ids=["refused", "logged"])
@settings(max_examples=40 if NO_JIT else 200, deadline=None)
@given(rows=st.lists(commands, max_size=14))
def test_kernels_do_what_the_reference_does(grows, rows):
    FAMILY.agree(rows, grows)


@pytest.mark.parametrize("grows", [False, True], ids=["refused", "logged"])
def test_edges_of_units(grows):
    FAMILY.agree(laws.edges_of_blocks(UNIT // 2), grows)


def model_of(*sizes, **params):
    return drive.Model("famfs", drive.files(0, *sizes, dirs=[0]), **{"growth": "refused", **params})


def test_a_write_ends_at_the_end_that_the_file_was_made_with():
    """famfs_rw_prep cuts it; a write behind the end returns 0 and copies nothing."""
    model = model_of(-1)
    model.feed(drive.ops(("create", 1), ("fallocate", 1, 0, 10_000)))
    events = model.feed(drive.ops(("write", 1, 9_000, 5_000)))
    assert drive.persistent(events, model.sites)["stored"] == {"copy": 1_000}
    assert (model.short, int(model.record.failed_bytes), int(model.record.beyond)) == ({0: 1_000}, 4_000, 1)
    assert not (model.feed(drive.ops(("write", 1, 10_000, 5_000))).space == PM).any()
    assert model.refused == [0] and int(model.record.failed) == 0


def test_each_entry_of_the_log_has_its_place_and_the_whole_log_is_written_back():
    model = model_of(*[-1] * 4)
    rows = [(op, file, 0, 4096) for file in range(1, 5) for op in ("create", "write")]
    events = model.feed(drive.ops(*rows))
    log = events[(events.space == PM) & (events.site == model.sites.index("log"))]
    entries = log[(log.code == STORE) & (log.length == 544)]
    assert entries.addr.tolist() == [(2 << 20) + 48 + 544 * k for k in range(4)]
    assert (log[log.code == FLUSH].length == 8 << 20).all() and np.count_nonzero(log.code == FLUSH) == 4


def test_a_full_log_refuses_files_while_there_is_memory():
    """8 MiB hold (8 MiB - 48) / 544 = 15,420 entries."""
    model = drive.Model("famfs", drive.files(0, *[-1] * 15_421, dirs=[0]), growth="refused")
    assert model.space()["log_entries_free"] == 15_420
    model.record.live_entries = model.record.logged = 15_419
    model.feed(drive.ops(("create", 1), ("write", 1, 0, 1), ("create", 2), ("write", 2, 0, 1)))
    assert model.space()["log_entries_free"] == 0 and int(model.record.failed) == 1 and model.space()["free_bytes"] > 0


@settings(max_examples=10 if NO_JIT else 100, deadline=None)
@given(st.integers(1, 8), st.integers(0, 2), st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_strips_are_runs_of_different_buckets_and_chunks_take_turns(strips, order, sizes):
    """famfs_meta_to_dax_offset_v2, computed from the places of the first chunks."""
    chunk = UNIT << order
    model = model_of(*[-1] * len(sizes), strips=strips, chunk=chunk, buckets=8, capacity=16 << 30)
    for file, size in enumerate(sizes, 1):
        model.feed(drive.ops(("create", file), ("fallocate", file, 0, size * UNIT - 5)))
        row = state.file_row.of(model.state, state.FILE_WORDS)[file]
        units = model.state.arena[row[state.UNITS] :][: row[state.file_row.MAPPED]].tolist()
        if size * UNIT - 5 < chunk:
            assert units == list(range(units[0], units[0] + size)) and row[state.CHUNK] == 0
            continue
        per = chunk // UNIT
        first = [units[k * per] for k in range(strips)]
        assert len({unit // (16 << 30 >> 21 >> 3) for unit in first}) == strips
        assert len(units) == -(-size // (per * strips)) * per * strips
        for k, unit in enumerate(units):
            stripe, strip, inside = k // per // strips, k // per % strips, k % per
            assert unit == first[strip] + stripe * per + inside
    found = model.extents()
    places = np.sort(found[found["file"] >= 0], order="physical")
    assert (places["physical"][1:] >= (places["physical"] + places["length"])[:-1]).all()
    assert int(places["length"].sum()) == model.space()["allocated_bytes"]


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"strips": 17}, "strips = 17 is out of range; give 1 to 16"),
        ({"strips": 4, "buckets": 3}, "buckets = 3 is out of range; give 4"),
        ({"chunk": "3MiB"}, "chunk = 3MiB is not allowed; give a power of two"),
        ({"strips": 2, "capacity": "4GiB", "buckets": 8}, "less than 1GiB each"),
        ({"log": "9MiB"}, "log = 9MiB is not allowed"),
        ({"capacity": "10MiB"}, "out of range"),
        ({"chase": 5000}, "chase = 5000 is out of range"),
    ],
)
def test_bad_parameters_are_refused(params, text):
    with pytest.raises(UsageError, match=text):
        model_of(-1, **params)


SIZE = 64 * UNIT


def faults(fs, rows, **params):
    model = drive.Model(fs, drive.files(0, -1, dirs=[0]), **params)
    model.feed(drive.ops(("create", 1), ("fallocate", 1, 0, SIZE)))
    return model, model.feed(drive.ops(("mmap", 1, 0, SIZE, -1, 0), *rows))


def mapping(events, model):
    return events[events.site == model.sites.index("mapping")]


TOUCHES = [("load", 1, at, 8) for at in range(0, SIZE, UNIT // 4)]


def test_a_list_is_walked_to_the_extent_and_a_shift_is_not():
    """1,536 extents of a 3 GiB file are passed by in its last fault: a step for each, 24 bytes of the list each."""
    steps = {}
    for lookup in ("stripe", "list", "shift"):
        model, events = faults("famfs", TOUCHES, growth="refused", strips=4, lookup=lookup)
        assert np.count_nonzero(events.code == MAP) == SIZE // UNIT
        steps[lookup] = mapping(events, model)
    walked = steps["list"][steps["list"].code == LOAD].length
    assert walked.tolist() == [24 + 24 * k for k in range(SIZE // UNIT)]
    assert set(steps["stripe"][steps["stripe"].code == LOAD].length) == {24}
    work = {name: int(found[found.code == 10].instructions.sum()) for name, found in steps.items()}
    count = SIZE // UNIT
    assert (
        work["list"] - work["shift"] == 8_000 * sum(range(count)) and work["stripe"] - work["shift"] == 10_000 * count
    )


def test_a_chase_is_a_load_of_a_line_of_its_own_for_each_step():
    with_chase, without = (faults("famfs", TOUCHES, growth="refused", chase=chase) for chase in (4, 0))
    more = mapping(with_chase[1], with_chase[0])
    less = mapping(without[1], without[0])
    chased = more[(more.code == LOAD) & (more.length == 8)]
    assert len(chased) == 4 * SIZE // UNIT and (chased.space == KERNEL).all() and len(set(chased.addr >> 6)) == 4
    assert len(more) - len(less) >= len(chased)


def test_msync_and_fsync_write_nothing_back():
    """noop_fsync: a store after it does not fault again."""
    rows = [("mmap", 1, 0, SIZE, -1, 0), ("store", 1, 0, 4096), ("msync", 1, 0, 4096), ("store", 1, 0, 4096)]
    model, events = faults("famfs", rows, growth="refused")
    assert not (events.code == FLUSH).any()
