"""The kernels of DaxFS against their reference implementation, and laws of its table, its pool and its maps of files."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scmsim
from scmsim.core.errors import UsageError
from scmsim.core.records import FENCE, FLUSH, LOAD, MAP, PM, STORE
from scmsim.fs.daxfs import state
from tests.conftest import NO_JIT
from tests.fs import drive, laws
from tests.fs.daxfs.reference import DaxFS, mixed

MIB = 1 << 20
offsets = st.one_of(st.integers(0, 70_000), st.integers(0, 20).map(lambda k: k * 4096))
lengths = st.one_of(st.integers(0, 9), st.integers(1, 20_000), st.sampled_from([4096, 8192, 255 * 4096, 257 * 4096]))
commands = laws.commands(offsets, lengths)


def start(gaps, buckets=1 << 14, capacity=64 * MIB):
    model = drive.Model(
        "daxfs", drive.files(*laws.SIZES, dirs=[0], names=laws.NAMES), capacity=capacity, buckets=buckets, gaps=gaps
    )
    slow = DaxFS(laws.SIZES, (0,), capacity, buckets, filled=gaps == "filled")
    slow.lengths = [len(name) for name in laws.names_of(laws.NAMES)]
    return model, slow


def same(model, slow, events):
    record = model.record
    assert (int(record.pool_alloc), int(record.freed)) == (slow.top, len(slow.free))
    assert (int(record.entries), int(record.next_ino)) == (len(slow.table.buckets), slow.next)
    assert (int(record.refused_calls), int(record.cut_reads), int(record.lost_pages)) == (
        slow.refused,
        slow.cut,
        slow.lost,
    )
    used = model.state.arena[record.used : record.used + record.bucket_count // 64]
    assert set(np.flatnonzero(np.unpackbits(used.view(np.uint8), bitorder="little"))) == set(slow.table.buckets)
    rows = state.file_row.of(model.state, state.FILE_WORDS)
    for number, file in slow.files.items():
        assert rows[number, state.file_row.SIZE] == file.size, number
        words = state.x.table_of(model.state, rows[number], state.PAGES)
        held = np.flatnonzero(words & state.PLACE)
        assert {int(page): int(words[page] & state.PLACE) - 1 for page in held} == file.pages, number
        assert set(np.flatnonzero(words & state.CACHED)) == file.known, number


FAMILY = laws.BySite(start, same, fields=("stored", "loaded", "nt", "flushes", "fences"))


@pytest.mark.parametrize("gaps", ["published", "filled"])
@pytest.mark.parametrize("buckets", [1 << 14, 4096])
@settings(max_examples=30 if NO_JIT else 150, deadline=None)
@given(rows=st.lists(commands, max_size=14))
def test_kernels_do_what_the_reference_does(buckets, gaps, rows):
    FAMILY.agree(rows, gaps, buckets)


@pytest.mark.parametrize("gaps", ["published", "filled"])
def test_edges_of_pages(gaps):
    FAMILY.agree(laws.edges_of_blocks(4096), gaps)


def test_a_small_table_makes_files_share_their_home_buckets():
    """Up to 2^20 buckets the home of a page is its number alone, so the first pages of all files form one run."""
    model = drive.Model("daxfs", drive.files(0, *[-1] * 300, dirs=[0]), capacity="256MiB", buckets=1 << 16)
    site = model.sites.index("hash table")
    looked = []
    for file in range(1, 301):
        model.feed(drive.ops(("create", file, 0, 0, 0)))
        events = model.feed(drive.ops(("write", file, 0, 4096)))
        looked.append(int(events.length[(events.site == site) & (events.code == LOAD)].sum()))
    assert looked[299] - looked[100] >= 2 * 16 * 190


def test_fsync_writes_nothing_back():
    """daxfs issue 23: daxfs_mem_sync is a store barrier."""
    model = drive.Model("daxfs", drive.files(0, -1, dirs=[0]))
    events = model.feed(drive.ops(("create", 1), ("write", 1, 0, 100_000), ("fsync", 1)))
    assert not np.isin(events.code, (FLUSH, FENCE)).any() and (events.code == STORE).any()


def test_a_write_of_several_new_pages_stores_them_twice():
    """daxfs_write_prealloc clears what the copy overwrites; one whole page is not cleared."""
    model = drive.Model("daxfs", drive.files(0, -1, dirs=[0]))
    stored = [
        drive.persistent(model.feed(drive.ops(row)), model.sites)["stored"]["zeroing"]
        for row in (("create", 1), ("write", 1, 0, 65_536), ("write", 1, 65_536, 4096), ("write", 1, 69_632, 100))
    ]
    assert stored == [0, 65_536, 0, 4096]


def test_nothing_is_freed_as_published():
    model = drive.Model("daxfs", drive.files(0, -1, -1, dirs=[0]), capacity="16MiB", gaps="published")
    full = model.space()["free_bytes"] // 4096
    model.feed(drive.ops(("create", 1), ("write", 1, 0, (full - 2) * 4096), ("unlink", 1)))
    space = model.space()
    assert space["allocated_bytes"] == 0 and space["unreachable_bytes"] == (full - 2) * 4096
    model.feed(drive.ops(("create", 2), ("write", 2, 0, 4 * 4096)))
    assert model.short or model.record.failed


def test_a_file_ends_at_20_bits_of_pages():
    """daxfs issue 22: ENOSPC, and not EFBIG."""
    end = (state.LAST_PAGE + 1) << 12
    model = drive.Model("daxfs", drive.files(0, -1, dirs=[0]), capacity="1TiB", gaps="published", buckets=1 << 16)
    model.feed(drive.ops(("create", 1), ("write", 1, end - 8192, 12_288)))
    assert model.short == {1: 8192}
    model.feed(drive.ops(("write", 1, end, 10)))
    assert int(model.record.failed) == 1 and model.space()["free_bytes"] > 0


def test_a_small_file_takes_two_pages_of_the_pool():
    """Its entries, 336 bytes, end before the next multiple of 4 KiB, where its page begins."""
    model = drive.Model("daxfs", drive.files(0, *[-1] * 100, dirs=[0]), capacity="16MiB")
    rows = [(op, file, 0, 100, 0) for file in range(1, 101) for op in ("create", "write")]
    model.feed(drive.ops(*rows[:2]))
    before = model.space()["free_bytes"]
    model.feed(drive.ops(*rows[2:]))
    assert before - model.space()["free_bytes"] == 2 * 99 * 4096


def test_reads_end_at_a_hole_as_published():
    rows = [("create", 1), ("write", 1, 0, 4096), ("write", 1, 12_288, 4096)]
    for gaps, copied in (("published", 4096), ("filled", 8192)):
        model = drive.Model("daxfs", drive.files(0, -1, dirs=[0]), gaps=gaps)
        model.feed(drive.ops(*rows))
        events = model.feed(drive.ops(("read", 1, 0, 16_384)))
        assert drive.persistent(events, model.sites)["loaded"]["copy"] == copied
        assert int(model.record.cut_reads) == (gaps == "published")


def test_faults_map_pages_of_4_kib_and_a_store_after_a_load_faults_again():
    size = 8 * MIB
    model = drive.Model("daxfs", drive.files(0, -1, dirs=[0]), gaps="published")
    model.feed(drive.ops(("create", 1), ("write", 1, 0, size // 2), ("truncate", 1, size), ("mmap", 1, 0, size, -1, 0)))
    touches = [("load", 1, at, 8) for at in range(0, size // 2, 4096)]
    events = model.feed(drive.ops(*touches))
    assert set(events[events.code == MAP].order) == {12} and np.count_nonzero(events.code == MAP) == size // 8192


def mapped(rows, **params):
    model = drive.Model("daxfs", drive.files(0, -1, dirs=[0]), **{"gaps": "published", **params})
    model.feed(drive.ops(("create", 1), ("write", 1, 0, 4096), ("truncate", 1, 40_960)))
    return model, [model.feed(drive.ops(row)) for row in rows]


def test_a_store_to_a_hole_takes_a_cleared_page():
    shared = scmsim.core.records.WRITABLE_SHARED
    rows = [("mmap", 1, 0, 40_960, -1, shared), ("store", 1, 8192, 8), ("load", 1, 0, 8), ("store", 1, 0, 8)]
    model, events = mapped(rows)
    assert [np.count_nonzero(part.code == MAP) for part in events] == [0, 1, 1, 1]
    assert drive.persistent(events[1], model.sites)["stored"]["zeroing"] == 4096
    assert model.space()["allocated_bytes"] == 8192


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"buckets": 100}, "buckets = 100 is not allowed; give a power of two from 64"),
        ({"buckets": 32}, "buckets = 32 is not allowed"),
        ({"capacity": "1MiB", "buckets": 65_536}, "out of range"),
        ({"capacity": "32TiB"}, "out of range"),
    ],
)
def test_bad_parameters_are_refused(params, text):
    with pytest.raises(UsageError, match=text):
        drive.Model("daxfs", drive.files(0, -1, dirs=[0]), **params)


@given(st.lists(st.integers(0, 1 << 30), min_size=1, max_size=50, unique=True))
def test_names_are_spread_by_a_function_of_32_bits(numbers):
    assert len({mixed(number) for number in numbers}) == len(numbers)


def test_places_are_inside_the_pool_and_apart():
    model = drive.Model("daxfs", drive.files(0, *[-1] * 5, dirs=[0]), capacity="16MiB")
    rows = [("write", file, at * 8192, 5000) for at in range(6) for file in range(1, 6)]
    events = model.feed(drive.ops(*[("create", file) for file in range(1, 6)], *rows))
    found = model.extents()
    places = np.sort(found[found["file"] >= 0], order="physical")
    assert (places["physical"][1:] >= (places["physical"] + places["length"])[:-1]).all()
    assert int(places["length"].sum()) == model.space()["allocated_bytes"]
    copies = events[(events.space == PM) & (events.site == model.sites.index("copy"))]
    assert (copies.addr >= model.record.pool_at).all()


def test_a_write_to_a_file_from_before_the_trace_that_does_not_fit_is_refused_whole():
    model = drive.Model("daxfs", drive.files(0, 64 * MIB, dirs=[0]), capacity=32 * MIB, buckets=1 << 14)
    model.feed(drive.ops(("write", 1, 0, 100_000)))
    assert (int(model.record.failed), int(model.record.short), model.refused) == (1, 0, [0])
