"""ext2's kernels against their reference implementation: bytes stored by mechanism, blocks and pointer blocks held."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.records import WORK
from scmsim.fs.ext2 import map
from scmsim.fs.ext2.templates import CACHE_COSTS, ENTRY_COSTS
from tests.conftest import NO_JIT
from tests.fs import drive
from tests.fs.ext2.reference import Slow, way

KIB, BLOCK = 1024, 4096
# Places around the ends of what the inode, the single- and the first double-indirect block name.
edge = st.sampled_from([0, 12, 12 + 1024, 12 + 2 * 1024, 12 + 3 * 1024])
offset = st.builds(
    lambda page, near, byte: max((page + near) * BLOCK + byte, 0),
    edge,
    st.integers(-3, 3),
    st.sampled_from([0, 0, 1, 100, 4000]),
)
length = st.one_of(st.integers(1, 30_000), st.integers(1, 9).map(lambda page: page * BLOCK))
name = st.integers(1, 2)
calls = st.one_of(
    st.tuples(st.just("write"), name, offset, length),
    st.tuples(st.just("fsync"), name),
    st.tuples(st.just("truncate"), name, offset),
)


@settings(max_examples=2 if NO_JIT else 25)
@pytest.mark.parametrize("fs", ["ext2-dax", "ext2"])
@given(trace=st.lists(calls, max_size=6 if NO_JIT else 25))
def test_kernel_and_twin_agree(fs, trace):
    """A file of the driver of ext4 stores its inode only after it got blocks, so `ext2` is checked without its metadata."""
    model, reference = drive.Model(fs, drive.files(0, -1, -1, dirs=[0]), room=1 << 14), Slow(fs == "ext2-dax")
    model.feed(drive.ops(("create", 1), ("create", 2)))
    before = model.space()["metadata_bytes"]
    for row in trace:
        stored = drive.persistent(model.feed(drive.ops(row)), model.sites)["stored"]
        expected = +getattr(reference, row[0])(*row[1:])
        if fs == "ext2":
            stored.pop("metadata", None), expected.pop("metadata", None)
        assert stored == Counter(expected), row
        space = model.space()
        assert space["allocated_bytes"] == BLOCK * reference.pages()
    assert model.space()["metadata_bytes"] - before == BLOCK * reference.pointers()


@given(pages=st.lists(st.integers(0, 3 * 1024 * 1024), min_size=2, max_size=50))
def test_slots_stand_for_pointer_blocks_in_order(pages):
    """One slot a pointer block, its parents below it, none shared."""
    slots = {}
    for page in sorted(pages):
        path, slot = way(page), int(map.slot_of.py_func(page) if not NO_JIT else map.slot_of(page))
        for pointer in reversed(path):
            assert slots.setdefault(slot, pointer) == pointer
            slot = parent(slot)
        assert slot == -1


def parent(slot):
    return int(map.parent_of_slot.py_func(slot) if not NO_JIT else map.parent_of_slot(slot))


@pytest.mark.parametrize("kernel", ["5.13", "6.1"])
def test_metadata_waits_for_a_sync_and_is_then_stored_once(kernel):
    """64 files in a directory: blocks of inodes, the directory's, the bitmaps; a second sync finds nothing."""
    model = drive.Model("ext2-dax", drive.files(0, *[-1] * 64, dirs=[0]), kernel=kernel)
    rows = [("create", i, 0, 0, 0) for i in range(1, 65)]
    assert not drive.persistent(model.feed(drive.ops(*rows)), model.sites)["stored"]
    first = drive.persistent(model.feed(drive.ops(("sync", -1))), model.sites)["stored"]
    assert 4 * BLOCK <= first["metadata"] <= 10 * BLOCK and set(first) == {"metadata"}
    assert not drive.persistent(model.feed(drive.ops(("sync", -1))), model.sites)["stored"]


def test_dirty_metadata_is_stored_when_it_is_old():
    model = drive.Model("ext2-dax", drive.files(0, -1, -1, dirs=[0]))
    late = drive.ops(("create", 1, 0, 0, 0), ("stat", 1), ("stat", 1))
    late.time_ns = np.array([0, 29, 31]) * 10**9
    quiet = drive.persistent(model.feed(late[:2]), model.sites)["stored"]
    assert not quiet and drive.persistent(model.feed(late[2:]), model.sites)["stored"]["metadata"] > 0


def test_a_create_costs_more_the_more_names_there_are():
    """ext2's own driver searches a directory from end to end twice; the driver of ext4 has hashed ones."""
    costs = {}
    for kernel in ("5.13", "6.1"):
        model = drive.Model("ext2-dax", drive.files(0, *[-1] * 600, dirs=[0]), room=1 << 15, kernel=kernel)
        work = []
        for first in (1, 301):
            events = model.feed(drive.ops(*[("create", i, 0, 0, 0) for i in range(first, first + 300)]))
            work.append(int(events["addr"][events["code"] == WORK].sum()))
        costs[kernel] = work[1] / work[0]
    assert costs["5.13"] > 1.7 and 1.1 < costs["6.1"] < 1.3  # the driver of ext4 looks at one leaf at most


def cost_of(fs, name, amount=0):
    """A cost of the model's table, in thousandths."""
    module = drive.Model(fs, drive.files(0, dirs=[0]))
    return int(module.record.cost[list(CACHE_COSTS).index(name), amount])


def creates(fs, before, pause_s, there=0):
    """WORK instructions (thousandths) of 20 creates in directory `there`, `pause_s` after 20 files of directory 0 went (or not).

    What they look at in the directory, which differs, costs nothing.
    """
    model = drive.Model(fs, drive.files(0, *[-1] * 40, -1, dirs=[0, 41]), room=1 << 15)
    model.record.cost[len(CACHE_COSTS) : len(CACHE_COSTS) + len(ENTRY_COSTS), :3] = 0
    rows = [("mkdir", 41), *[("create", i, 0, 0, 0) for i in range(1, 21)]]
    rows += [("close", i) for i in range(1, 21)] + [("unlink", i, 0, 0, 0) for i in range(1, 21)]
    model.feed(drive.ops(*rows[: 21 + 40 * before]))
    late = drive.ops(*[("create", i, 0, 0, there) for i in range(21, 41)])
    late.time_ns = int(pause_s * 10**9)
    events = model.feed(late)
    return int(events["addr"][events["code"] == WORK].sum())


@pytest.mark.skipif(NO_JIT, reason="three seconds each")
@pytest.mark.parametrize(("pause", "passed"), [(0.5, 0), (2, 20), (59, 20), (61, 0)])
def test_a_new_file_passes_over_inodes_that_were_freed_in_the_last_minute(pause, passed):
    """By the driver of ext4, without a journal: not those of the same second, nor those of another directory of the root."""
    alone, found = creates("ext2", 0, pause), creates("ext2", 1, pause)
    assert found - alone == pytest.approx(20 * passed * cost_of("ext2", "recent_inode"), abs=20)
    assert creates("ext2", 1, pause, there=41) == pytest.approx(creates("ext2", 0, pause, there=41), abs=20)


def test_inodes_that_wait_are_taken_before_the_device_has_none_left():
    """Files that come and go, one a second, on a small device: none is refused."""
    model = drive.Model("ext2", drive.files(0, -1, dirs=[0]), capacity=24 << 20)
    inodes = int(model.record.inode_count)
    rows = drive.ops(*[("create", 1, 0, 0, 0), ("close", 1), ("unlink", 1, 0, 0, 0)] * 100)
    rows.time_ns = np.repeat(np.arange(100), 3) * 10**7 * 11
    model.state.record.next_inode[0] = inodes - 5
    model.feed(rows)
    assert int(model.record.failed) == 0 and int(model.record.next_inode) <= inodes + 1


def test_a_sync_looks_in_vain_at_pointer_blocks_that_were_freed_while_dirty():
    """16 pages a file: its pointer block changes as its pointers go, then it is freed; with 12 pages there is none."""
    work = []
    for pages in (12, 16):
        model = drive.Model("ext2", drive.files(0, -1, dirs=[0]), room=1 << 15)
        model.feed(drive.ops(("create", 1, 0, 0, 0), ("write", 1, 0, pages * BLOCK), ("close", 1), ("sync", -1)))
        model.feed(drive.ops(("unlink", 1, 0, 0, 0)))
        events = model.feed(drive.ops(("sync", -1)))
        assert drive.persistent(events, model.sites)["stored"]["metadata"] > 0
        work.append(int(events["addr"][events["code"] == WORK].sum()))
    assert work[1] - work[0] == pytest.approx(cost_of("ext2", "forgotten_block"), rel=0.01)
