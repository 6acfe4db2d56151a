"""The kernels of hugetlbfs and device-dax against their reference implementation, and the faults of pages of one size."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core import records as r
from scmsim.fs.engine import file_row
from scmsim.fs.hugetlbfs import state
from tests.conftest import NO_JIT
from tests.fs import drive, laws
from tests.fs.hugetlbfs.reference import Pool

MIB, GIB = 1 << 20, 1 << 30
PAGES = {"4KiB": 1 << 12, "2MiB": 2 * MIB, "1GiB": GIB}
offsets = st.one_of(st.integers(0, 70_000), st.integers(0, 9).map(lambda k: k * MIB), st.integers(0, 6 * MIB))
lengths = st.one_of(st.integers(0, 9), st.integers(1, 20_000), st.integers(1, 5).map(lambda k: k * MIB))
mmap = laws.command("mmap", laws.PLAIN, st.integers(0, 4).map(lambda k: 2 * MIB * k), lengths.filter(bool))
commands = laws.commands(offsets, lengths, mmap)
CASES = [("hugetlbfs", "page", "2MiB"), ("device-dax", "align", "2MiB"), ("device-dax", "align", "4KiB")]


def start(fs, parameter, page):
    capacity = 128 * MIB
    model = drive.Model(fs, drive.files(*laws.SIZES, dirs=[0]), capacity=capacity, writes="ported", **{parameter: page})
    size = PAGES[page]
    return model, Pool(laws.SIZES, (0,), size, capacity // size, device=fs == "device-dax")


def agree(rows, case):
    """Each operation moves the same bytes of pages, and leaves the same pages in each file."""
    model, slow = start(*case)
    sites = [model.sites.index(name) for name in ("copy", "zeroing")]
    space = r.PM if slow.device else r.KERNEL
    for row in rows:
        events = model.feed(drive.ops(row))
        slow.do(*row)
        found: Counter = Counter()
        for event in events[(events.space == space) & np.isin(events.site, sites)]:
            found[model.sites[event.site]] += int(event.length)
        assert found == +slow.moved, row
        rows_now = file_row.of(model.state, state.FILE_WORDS)
        for number, file in slow.files.items():
            at, order = rows_now[number, state.PAGES : state.PAGES + 2]
            words = model.state.arena[at : at + (1 << order)] if at else model.state.arena[:0]
            held = {int(k): int(words[k]) - state.FIRST for k in np.flatnonzero(words >= state.FIRST)}
            assert (held, int(rows_now[number, file_row.SIZE])) == (file.pages, file.size), (row, number)
            assert set(np.flatnonzero(words == state.RESERVED).tolist()) == file.promised
        promised = sum(len(file.promised) for file in slow.files.values())
        assert (int(model.record.free_blocks), int(model.record.reserved)) == (len(slow.free), promised)
    laws.space(model.space())
    assert not int(model.record.failed)


@pytest.mark.parametrize("case", CASES, ids=[f"{fs}-{page}" for fs, _, page in CASES])
@settings(max_examples=30 if NO_JIT else 200, deadline=None)
@given(rows=st.lists(commands, max_size=12))
def test_kernels_do_what_the_reference_does(case, rows):
    agree(rows, case)


@pytest.mark.parametrize("case", CASES[:2], ids=["hugetlbfs", "device-dax"])
def test_edges_of_pages(case):
    agree(laws.edges_of_blocks(MIB), case)


SYSTEMS = [("hugetlbfs", {"page": "2MiB"}), ("hugetlbfs", {"page": "1GiB"})]
SYSTEMS += [("device-dax", {"align": align}) for align in PAGES]


def mapped(fs, rows, length=4 * GIB, **params):
    model = drive.Model(fs, drive.files(0, -1, dirs=[0]), capacity="16GiB", writes="refused", **params)
    model.feed(drive.ops(("create", 1)))
    return model, model.feed(drive.ops(("mmap", 1, 0, length, -1, r.WRITABLE_SHARED), *rows))


@pytest.mark.parametrize(("fs", "params"), SYSTEMS)
@settings(max_examples=10 if NO_JIT else 60, deadline=None)
@given(touches=st.lists(st.integers(0, 4 * GIB - 8), min_size=1, max_size=25), stores=st.booleans())
def test_each_page_faults_once_and_by_its_size(fs, params, touches, stores):
    """Whatever the order: as many faults as different pages, each for the whole page; accesses have its order."""
    page = PAGES[next(iter(params.values()))]
    touches = [at & ~7 for at in touches]
    model, events = mapped(fs, [("store" if stores else "load", 1, at, 8) for at in touches], **params)
    faults = events[events.code == r.MAP]
    assert sorted(faults.vaddr) == sorted({at // page * page + (1 << 46) for at in touches})
    assert (faults.length == page).all() and (faults.order == page.bit_length() - 1).all()
    accesses = events[events.site == model.sites.index("mapped access")]
    assert accesses.vaddr.tolist() == [at + (1 << 46) for at in touches]
    assert (accesses.order == page.bit_length() - 1).all() and not (accesses.vaddr - accesses.addr & page - 1).any()
    cleared = events[events.site == model.sites.index("zeroing")]
    assert int(cleared[cleared.code == r.STORE].length.sum()) == (0 if fs == "device-dax" else page * len(faults))


@pytest.mark.parametrize(("fs", "params"), SYSTEMS)
def test_an_unmapped_range_is_invalidated_by_its_page_size_and_faults_again(fs, params):
    rows = [("load", 1, 0, 8), ("munmap", 1, 0, 4 * GIB), ("mmap", 1, 0, 4 * GIB), ("load", 1, 0, 8)]
    model, events = mapped(fs, rows, **params)
    page = PAGES[next(iter(params.values()))]
    gone = events[events.code == r.UNMAP]
    assert len(gone) == 1 and gone.order[0] == page.bit_length() - 1
    assert np.count_nonzero(events.code == r.MAP) == 2


@pytest.mark.parametrize(
    ("fs", "rows"),
    [
        ("hugetlbfs", ("mmap", 1, 4096, 2 * MIB)),
        ("device-dax", ("mmap", 1, 4096, 2 * MIB)),
        ("device-dax", ("mmap", 1, 0, 2 * MIB + 4096)),
        ("device-dax", ("mmap", 1, 0, 2 * MIB, -1, r.PRIVATE)),
    ],
)
def test_mappings_that_do_not_fit_the_pages_are_refused(fs, rows):
    model, _ = mapped(fs, [("load", 1, 0, 8), rows], length=2 * MIB)
    assert model.mapped.errors() == {"EINVAL": 1}


def test_hugetlbfs_rounds_a_length_up():
    model, events = mapped("hugetlbfs", [("load", 1, 2 * MIB + 5000, 8)], length=2 * MIB + 8192)
    assert not model.mapped.errors() and int(model.record.reserved) == 1
    assert model.space()["file_bytes"] == 4 * MIB, "a writable mapping extends the file (hugetlbfs_file_mmap)"


@pytest.mark.parametrize(("fs", "counted"), [("hugetlbfs", 0), ("device-dax", 1)])
def test_populating_a_mapping_of_hugetlbfs_counts_no_faults(fs, counted):
    """Linux maps these pages by follow_hugetlb_page, past the counting of faults."""
    model = drive.Model(fs, drive.files(0, -1, dirs=[0]), capacity="1GiB", writes="refused")
    events = model.feed(drive.ops(("create", 1), ("mmap", 1, 0, 4 * MIB, -1, r.WRITABLE_SHARED | r.POPULATE)))
    entries = events[events.code == r.MAP]
    assert entries.length.tolist() == [2 * MIB] * 2 and (entries.fault_flags & 1).tolist() == [counted] * 2


def test_mmap_reserves_the_pages_that_faults_take():
    model = drive.Model("hugetlbfs", drive.files(0, -1, -1, dirs=[0]), capacity=8 * MIB, writes="refused")
    model.feed(drive.ops(("create", 1), ("mmap", 1, 0, 6 * MIB, -1, r.WRITABLE_SHARED), ("create", 2)))
    assert (model.space()["reserved_bytes"], model.space()["free_bytes"]) == (6 * MIB, 8 * MIB)
    model.feed(drive.ops(("mmap", 2, 0, 4 * MIB), ("fallocate", 2, 0, 4 * MIB)))
    assert int(model.record.failed) == 2, "two pages are left of which one is reserved"
    model.feed(drive.ops(("store", 1, 0, 8), ("fallocate", 2, 0, 2 * MIB)))
    assert int(model.record.failed) == 2 and model.space()["reserved_bytes"] == 4 * MIB
    assert model.space()["free_bytes"] == 4 * MIB


def test_calls_that_linux_refuses_move_nothing():
    for fs, count in (("hugetlbfs", 1), ("device-dax", 2)):
        model = drive.Model(fs, drive.files(0, 4096, dirs=[0]), writes="refused")
        events = model.feed(drive.ops(("write", 1, 0, 4096), ("truncate", 1, 5000), ("read", 1, 0, 4096)))
        assert int(model.record.unwritable) == count and int(model.record.failed_bytes) == 4096
        assert not (events.site == model.sites.index("zeroing")).any()
        assert bool((events.site == model.sites.index("copy")).any()) == (fs == "hugetlbfs")
        assert any(f"--set {fs}.writes=ported" in text for text in model.module.remarks(model.state))
        assert model.refused == ([0, 1, 2] if fs == "device-dax" else [0, 1])


def test_a_device_is_one_file():
    model = drive.Model("device-dax", drive.files(0, -1, -1, dirs=[0]), capacity="1GiB", writes="refused")
    model.feed(drive.ops(("create", 1), ("create", 2), ("open", 2)))
    assert (model.space()["allocated_bytes"], model.space()["free_bytes"]) == (GIB, 0)
    assert any("calls on other files" in text for text in model.module.remarks(model.state))
    assert model.extents()["length"].tolist() == [GIB]


def test_a_punched_hole_gives_whole_pages_back():
    model = drive.Model("hugetlbfs", drive.files(0, -1, dirs=[0]), writes="refused")
    model.feed(drive.ops(("create", 1), ("fallocate", 1, 0, 8 * MIB)))
    flag = r.PUNCH_HOLE | r.KEEP_SIZE
    events = model.feed(drive.ops(("fallocate", 1, MIB, 6 * MIB, -1, flag)))
    assert model.space()["allocated_bytes"] == 4 * MIB
    cleared = events[(events.site == model.sites.index("zeroing")) & (events.code == r.STORE)]
    assert cleared.length.tolist() == [MIB, MIB]
