"""What the library maps: faults, addresses and calls, of the kernels and of the reference implementation, and rules by hand."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scmsim
from scmsim.core import records as r
from scmsim.core.errors import UsageError
from scmsim.fs.engine import costs
from tests.conftest import NO_JIT
from tests.fs import drive, laws
from tests.fs.mapping.test_properties import charges_of, counting, faults_of, of_site
from tests.fs.splitfs.reference import Split

FAN = 512
PAGES = FAN + 259  # of file 2, which exists before
SIZES = (0, -1, PAGES * 4096 - 100, 9000)
ALIGNED = {"data_alignment": 2 << 20}
CHARGED = ("mmap_call", "munmap_call", "page_table", "unmap_table", "tree_node", "unmap_slot")
# Faults of 4 KiB and of 2 MiB: of a load, of a store to what is mapped.
LOAD, STORE = (1, False, False, False), (1, True, True, False)
LARGE_LOAD, LARGE_STORE = (-FAN, *LOAD[1:]), (-FAN, *STORE[1:])


def start(mode="posix", room=1 << 12, capacity=64 << 20, sizes=SIZES, **params):
    files = drive.files(*sizes, dirs=[0])
    return drive.Model("splitfs", files, room, capacity=capacity, journal=4 << 20, mode=mode, **params)


def touched(model, events):
    """Bytes by page: (number of its address, of its place on the device or -1: zeros), the scratch area left out."""
    found, record = Counter(), model.record
    scratch = range(int(record.scratch_at), int(record.scratch_at + record.scratch_bytes))
    for one in of_site(model, events, "user copy", r.LOAD, r.STORE, r.NTSTORE):
        if one.space == r.USER or int(one.addr) in scratch:
            continue
        assert one.order in (12, 21)
        at, end = int(one.vaddr), int(one.vaddr + one.length)
        while at < end:
            stop = min(end, (at | 4095) + 1)
            place = int(one.addr) + at - int(one.vaddr) >> 12 if one.space == r.PM else -1
            found[at >> 12, place] += stop - at
            at = stop
    return found


page = st.sampled_from([0, 1, 2, 255, 256, FAN - 1, FAN, FAN + 1, PAGES - 1, PAGES, PAGES + 3])
span = st.sampled_from([1, 100, 4096, 8191, 70_000, FAN << 12])
file = st.sampled_from([1, 2, 2, 3])


def call(name, *parts):
    return st.tuples(st.just(name), file, *parts)


at = st.tuples(page, st.sampled_from([0, 0, 8, 4090])).map(lambda parts: (parts[0] << 12) + parts[1])
rows = st.lists(
    st.one_of(
        call("read", at, span),
        call("write", at, span),
        call("write", at, span, st.just(-1), st.sampled_from([0, r.SYNCHRONOUS])),
        call("truncate", at),
        call("fallocate", at, span, st.just(-1), st.sampled_from([0, r.KEEP_SIZE, r.PUNCH_HOLE, r.PUNCH_HOLE])),
        call("fsync"),
        call("open"),
        call("close"),
        call("create", st.just(0), st.just(0), st.just(0)),
        call("unlink", st.just(0), st.just(0), st.just(0)),
        call("link", st.just(0), st.just(0), st.just(0)),
        call("rename", st.just(0), st.just(0), st.sampled_from([-1, 1, 2, 3])),
    ),
    max_size=14,
)


def agree(given_rows, mode, room=1 << 12, piece=2 << 20, staging=1 << 16):
    """Feed the kernels and the reference with the same operations."""
    with costs.changed(counting):
        model = start(mode, room, staging=staging, mmap_size=piece)
    slow = Split(drive.files(*SIZES, dirs=[0]), 64 << 20, 4 << 20, mode, staging, piece=piece)
    library = slow.library
    for number, row in enumerate([("create", 1, 0, 0, 0), *given_rows]):
        where = f"operation {number}, {row}"
        batch = drive.ops(row)
        batch.time_ns = number * laws.TICK // 3
        events = model.feed(batch)
        library.start()
        one = batch[0]
        flags = [name for bit, name in laws.FLAGS.items() if one.flag & bit]
        numbers = (int(one.file), int(one.offset), int(one.length))
        stored = slow.apply(row[0], *numbers, flags, int(one.file2), int(one.time_ns))
        assert tuple(laws.stored_by_operation(model, events, 1)[0]) == stored, where
        assert faults_of(events) == library.faults, where
        assert touched(model, events) == library.by_page(), where
        assert bool(len(of_site(model, events, "unmapping", r.UNMAP))) == bool(library.removed), where
        charged = charges_of(model, events)
        calls = [name for name in CHARGED if charged[name] != library.charged[name]]
        assert not calls, f"{where}: {charged}, {library.charged}"
    return model


@settings(max_examples=3 if NO_JIT else 60)
@pytest.mark.parametrize("mode", ["posix", "sync", "strict"])
@given(given_rows=rows, room=st.sampled_from([2, 100, 1 << 12]))
def test_mappings_are_those_of_the_reference(mode, given_rows, room):
    agree(given_rows, mode, room)


LONG, HOLE = 4 << 20, r.PUNCH_HOLE | r.KEEP_SIZE
CASES = {
    "own pages before staged ones": [
        ("write", 1, 0, 4096), ("fsync", 1), ("truncate", 1, 4096), ("write", 1, 4096, 70_000), ("read", 1, 0, 74_096),
        ("write", 1, 0, 74_096),
    ],
    "zeros that have content since": [
        ("fallocate", 1, 0, 16_384), ("read", 1, 0, 16_384), ("write", 1, 0, 100), ("read", 1, 0, 16_384),
    ],
    "a truncate looks at what is left, too": [("read", 3, 0, 9000), ("truncate", 3, 5000), ("read", 3, 0, 5000)],
    "a region is whole again after a truncate": [
        ("truncate", 1, LONG), ("read", 1, 0, 1), ("fallocate", 1, 0, 4096, -1, r.KEEP_SIZE), ("write", 1, 0, 100),
        ("read", 1, 8192, 1), ("truncate", 1, 0), ("truncate", 1, LONG), ("read", 1, 0, 1),
    ],
    "nothing to read": [("truncate", 1, 8), ("read", 1, 8, 1), ("read", 1, 9000, 1)],
    "a name of two is replaced": [("read", 2, 0, 8), ("link", 2), ("rename", 3, 0, 0, 2), ("read", 2, 0, 8)],
    "a file without a name": [
        ("close", 1), ("open", 2), ("read", 2, 0, 8), ("unlink", 2), ("read", 2, 0, 8), ("close", 2),
    ],
    "no hole": [("read", 2, 0, 8), ("fallocate", 2, 0, 0, -1, HOLE), ("read", 2, 0, 8)],
    "a hole": [("write", 1, 0, 70_000), ("read", 2, 0, 8), ("fallocate", 1, 4096, 9000, -1, HOLE), ("read", 1, 0, 70_000)],
}  # fmt: skip


@pytest.mark.parametrize("mode", ["posix", "strict"])
@pytest.mark.parametrize("case", CASES)
def test_cases_that_are_rarely_drawn(case, mode):
    agree(CASES[case], mode)


@settings(max_examples=2 if NO_JIT else 20)
@given(given_rows=rows)
def test_pieces_may_be_longer(given_rows):
    agree(given_rows, "posix", piece=4 << 20)


def fresh(*sizes, **params):
    """A model whose file 1 of so many bytes existed before, and what to feed it with; its device is aligned to 2 MiB."""
    model = start(sizes=(0, *sizes), **{"data_alignment": 2 << 20, **params})

    def feed(*given_rows):
        events = model.feed(drive.ops(*given_rows))
        return events, dict(faults_of(events))

    return model, feed


@pytest.mark.parametrize("row", [("read", 1, 100, 10), ("write", 1, 100, 10)])
@pytest.mark.parametrize(
    ("alignment", "populated", "stored_to"), [(2 << 20, LARGE_LOAD, LARGE_STORE), (4096, LOAD, STORE)]
)
def test_the_first_access_populates_a_piece(row, alignment, populated, stored_to):
    """One run of blocks at a multiple of 2 MiB takes one fault of 2 MiB, one beside it 512 of 4 KiB; the store one more."""
    _, feed = fresh(2 << 20, data_alignment=alignment)
    expected = {populated: 1 if populated == LARGE_LOAD else FAN}
    assert feed(row)[1] == expected | ({stored_to: 1} if row[0] == "write" else {})
    assert feed(row, ("read", 1, 2_000_000, 5000))[1] == {}


def test_a_large_file_keeps_its_alignment_beside_small_files():
    """The multiblock allocator gives 2 MiB at a multiple of 2 MiB; the small file's blocks come from another preallocation."""
    _, feed = fresh(4096, 2 << 20)
    assert feed(("read", 1, 0, 1), ("read", 2, 0, 1))[1] == {LOAD: 1, LARGE_LOAD: 1}


def test_only_pieces_that_are_used_are_mapped():
    _, feed = fresh(8 << 20)
    assert feed(("read", 1, (4 << 20) - 1, 2))[1] == {LARGE_LOAD: 2}
    assert fresh(8 << 20, mmap_size=4 << 20)[1](("read", 1, (4 << 20) - 2, 1))[1] == {LARGE_LOAD: 2}


def test_a_file_that_is_made_anew_is_mapped_anew():
    """unlink unmaps; the name's next file has neither its pages nor its addresses."""
    model, feed = fresh(2 << 20)
    before = feed(("read", 1, 0, 8))[0]
    gone, _ = feed(("unlink", 1, 0, 0, 0))
    unmapped = of_site(model, gone, "unmapping", r.UNMAP)
    assert unmapped.vaddr.tolist() == [1 << 46] and unmapped.length.tolist() == [2 << 20]
    after, faults = feed(("create", 1, 0, 0, 0), ("fallocate", 1, 0, 8192), ("write", 1, 0, 8192), ("read", 1, 0, 8192))
    assert faults == {LOAD: 2, (1, True, False, False): 2}  # zeros, and a page of its own for each store
    assert not set(touched(model, before)) & set(touched(model, after))


def test_what_was_staged_stays_at_its_address():
    """Neither the append, nor the relink, nor reading or overwriting it afterwards takes a fault or another translation."""
    model, feed = fresh(-1)
    appended, faults = feed(("create", 1, 0, 0, 0), ("write", 1, 0, 70_000))
    more, then = feed(("fsync", 1), ("close", 1), ("open", 1), ("read", 1, 0, 70_000), ("write", 1, 0, 70_000))
    assert faults == then == {}
    pages = touched(model, appended)
    assert touched(model, more) == {place: 2 * size for place, size in pages.items()}
    assert all(address == place + (1 << 33) for address, place in pages) and sum(pages.values()) == 70_000
    assert set(more.order[(more.space == r.PM) & np.isin(more.code, [r.LOAD, r.NTSTORE])]) == {21}


def test_after_a_truncate_the_file_is_mapped():
    """The library forgets what is in staging files, the kernel unmaps what was mapped."""
    model, feed = fresh(-1)
    feed(("create", 1, 0, 0, 0), ("write", 1, 0, 70_000), ("fsync", 1), ("truncate", 1, 60_000))
    events, faults = feed(("read", 1, 0, 60_000))
    assert faults == {LOAD: 15} and sum(touched(model, events).values()) == 60_000
    unmapped = of_site(model, feed(("truncate", 1, 50_000))[0], "unmapping", r.UNMAP)
    assert unmapped.length.tolist() == [15 * 4096]
    assert feed(("read", 1, 0, 1))[1] == {LOAD: 1}


def test_a_new_staging_file_is_populated_and_filled():
    """2 MiB at a time, once the first staging file is used up."""
    _, feed = fresh(-1, staging=1 << 20)
    assert feed(("create", 1, 0, 0, 0), ("write", 1, 0, 1 << 20))[1] == {}
    assert feed(("write", 1, 1 << 20, 4096))[1] == {LARGE_LOAD: 1, LARGE_STORE: 1}
    assert feed(("write", 1, (1 << 20) + 4096, (2 << 20) - 4096))[1] == {}
    assert feed(("write", 1, 3 << 20, 1))[1] == {LARGE_LOAD: 1, LARGE_STORE: 1}


def test_a_hole_is_read_as_a_page_of_zeros():
    model, feed = fresh(-1)
    events, faults = feed(("create", 1, 0, 0, 0), ("truncate", 1, 10_000), ("read", 1, 0, 10_000))
    assert faults == {LOAD: 3} and {place for _, place in touched(model, events)} == {-1}
    assert not drive.persistent(events, model.sites)["loaded"]["user copy"]


def test_the_logs_and_the_scratch_area_are_mapped_from_the_start():
    model, feed = fresh(70_000, mode="strict")
    events, faults = feed(("write", 1, 0, 70_000))
    stored = events[np.isin(events.code, [r.NTSTORE, r.STORE]) & (events.space == r.PM)]
    assert faults == {} and len(stored) == 2
    assert (stored.vaddr == stored.addr + (1 << 45)).all() and set(stored.order) == {21}


@pytest.mark.parametrize("length", [1 << 20, 3 << 20, 1 << 30])
def test_a_piece_is_a_power_of_two(length):
    with pytest.raises(UsageError, match="mmap_size = .* is not allowed; give a power of two from 2MiB to 512MiB"):
        start(mmap_size=length)


@pytest.mark.parametrize("paging", ["base-4k", "directmap-2m"])
@pytest.mark.parametrize(("alignment", "small", "large"), [("2MiB", 0, 4), ("4KiB", 0, 4)])
def test_the_mmu_sees_the_pages_of_the_mapping(paging, alignment, small, large):
    """A load from each page of 8 MiB: a walk a page, of the size that it is mapped with, whatever the direct map has."""
    rows = [("read", 1, page << 12, 64) for page in range(4 * FAN)]
    given = {"splitfs": {"data_alignment": alignment}}
    run = scmsim.replay(
        drive.source(drive.files(0, 8 << 20, dirs=[0]), drive.ops(*rows)),
        "splitfs",
        paging=paging,
        params=given,
        footprints="none",
    ).runs[0]
    copies = run.sites["user copy"]
    walks = [copies[f"dtlb_load_misses_walk_completed_{size}"] for size in ("4k", "2m_4m")]
    assert walks == [small, large] and copies["dtlb_user_misses_walk_completed"] >= small + large
    assert (run.counters["page_faults_pte"], run.counters["page_faults_pmd"]) == (small, large)
    assert (run.counters["mapped_bytes_4k"], run.counters["mapped_bytes_2m"]) == (small << 12, large << 21)
