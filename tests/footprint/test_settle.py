"""Where a model's own kernel objects go in a replay with footprints: the kernel beside a loop over rows; which models have them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scmsim import footprint
from scmsim.core import registry
from scmsim.core.records import CREATE, EVENT, FSYNC, KERNEL, LOAD, STORE, WORK
from scmsim.footprint.describe import OPERATION
from scmsim.footprint.interleave import OPEN_FILE, PAGE
from scmsim.footprint.settle import LARGE, frame_of_block, home, leave_out_measured, place_beside
from scmsim.jit import kernel

event = st.tuples(
    st.sampled_from([LOAD, STORE, WORK]),
    st.integers(0, 7),
    st.integers(0, (1 << 40) - 1),
    st.sampled_from([-1, 0, 1]),
)


@kernel
def settled(places, events):
    for i in range(len(events)):
        place_beside(places, events[i])


@given(st.sets(st.integers(0, 6)), st.lists(event, max_size=20))
def test_objects_of_the_named_areas_move_to_the_page_and_others_by_their_area(areas, drawn) -> None:
    page = np.zeros(1, PAGE)
    page["vaddr"], page["order"] = -(5 << 30), 21
    events = np.zeros(len(drawn), EVENT)
    for row, (code, area, at, half) in zip(events, drawn, strict=True):
        row["code"], row["space"], row["addr"], row["order"] = code, KERNEL, (area << 40) + at, 12
        row["vaddr"] = half * (1 + at)
    before = events.copy()
    settled((sum(1 << area for area in areas), page), events)
    for old, new, (code, area, _, half) in zip(before, events, drawn, strict=True):
        moved = code != WORK and half < 0 and area in areas
        beside = int(old["vaddr"]) + (area << LARGE)
        assert (new["vaddr"], new["order"]) == ((-(5 << 30), 21) if moved else (beside, old["order"]))
        old["vaddr"], old["order"] = new["vaddr"], new["order"]
        assert old == new


@kernel
def frames(events, out):
    for i in range(len(events)):
        out[i] = frame_of_block(events[i])


def test_only_blocks_of_commits_stay_and_only_if_the_touches_lack_them() -> None:
    events, operations = np.zeros(5, EVENT), np.zeros(2, OPERATION)
    operations["kind"] = FSYNC, CREATE
    events["code"], events["space"], events["length"], events["vaddr"] = LOAD, KERNEL, 4096, -(1 << 40)
    # a block, an inode, a block that is stored, a block that no commit reads, and file data
    events["addr"] = [1 << 40, 2 << 40, 1 << 40, 1 << 40, 3 << 40]
    events["code"][2], events["op"][3] = STORE, 1
    for keeps, left in ((True, [True, False, False, False, True]), (False, [False, False, False, False, True])):
        some = events.copy()
        leave_out_measured(0b10111, some, operations, keeps)
        assert (some["length"] > 0).tolist() == left


def test_blocks_of_a_disk_have_distinct_pages_that_do_not_share_their_low_bits() -> None:
    """Without the mixing, the first blocks of 256 groups of 32,768 blocks would have pages with equal low bits."""
    events, out = np.zeros(256, EVENT), np.zeros(256, np.int64)
    events["addr"] = (1 << 40) + np.arange(256) * (32768 << 12) + 64
    events["vaddr"] = events["addr"] - (1 << 46)
    frames(events, out)
    page, offset = np.divmod(out, 4096)
    assert len(set(page.tolist())) == 256 and set(offset.tolist()) == {64}
    assert (page - (-(1 << 46) + (1 << 40) >> 12) < 1 << 28).all()  # they stay in their area
    assert np.bincount(page % 16).max() < 32


def test_home_is_the_large_page_that_is_touched_most() -> None:
    pages = np.zeros(4, PAGE)
    pages["vaddr"], pages["order"] = [-4, -3, -2, -1], [12, 21, 30, 21]
    pages["cache"] = [0, 0, 0, 1 | OPEN_FILE]
    often = np.array([4, 1, 2, 4])
    assert int(home(pages, often)["vaddr"][0]) == -2
    assert int(home(pages[:1], often[:1])["vaddr"][0]) == -4


@pytest.mark.parametrize(
    ("fs", "source"),
    [
        ("ext4-dax", "ext4-dax"), ("ext4-dax-linux4", "ext4-dax"), ("ext4-linux4", "ext4"), ("splitfs", "ext4-dax"),
        ("ramfs", "ramfs"), ("ext2-ramdisk", "ext2"), ("nova-cow", None), ("pmfs-4k", None),
    ],
)  # fmt: skip
def test_a_model_takes_the_footprints_of_what_it_is_built_on(fs: str, source: str | None) -> None:
    assert footprint.source_of("5.10", fs) == source
    prints = footprint.load("5.10", fs, ["copy"])
    assert prints.general == (source is None)
    assert prints.measured_on.startswith(f"{source or footprint.GENERAL} on Linux 5.10")


def test_models_whose_objects_were_measured_say_where_they_are() -> None:
    measured = {fs for fs in registry.names("fs") if footprint.source_of("6.1", fs)}
    told = {fs for fs in measured if hasattr(registry.load("fs", fs), "KERNEL_OBJECTS")}
    assert told == measured and {"ext4", "ext4-dax", "ext2-dax", "xfs-dax", "tmpfs", "splitfs"} <= measured
