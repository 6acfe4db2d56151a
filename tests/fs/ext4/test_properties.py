"""The ext4 kernels against their reference implementation, operation by operation, and laws that hold for any run."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.records import SYNCHRONOUS
from scmsim.fs.linux import state as e
from tests.conftest import NO_JIT
from tests.fs import drive, lab, laws
from tests.fs.ext4.reference import Slow
from tests.fs.laws import SECOND, every_other_page, spaced

SYSTEMS = ("ext4", "ext4-dax", "ext4-dax-linux4")
traces, side = laws.linux_traces(), laws.linux_files
TIGHT = lab.capacity_with("ext4", side(), 40)  # bytes


def same_state(model, reference):
    """Journal and files, block by block."""
    record, arena = model.record, model.state.arena
    journal = [
        int(record[name]) for name in ("tid", "txn_blocks", "txn_length", "checkpoint_blocks", "log_used", "revokes")
    ]
    assert journal == [
        reference.tid,
        len(reference.txn),
        reference.txn_joins,
        len(reference.held),
        reference.log_used,
        reference.revokes,
    ]
    assert int(record.windowed) == reference.allocator.preallocations.unused()
    for file, node in reference.nodes.items():
        f = int(arena[record.rows + file * e.ROW_WORDS])
        fields = (e.INODE, e.SIZE, e.LINKS, e.OPENS, e.PAGE_COUNT, e.EXTENTS, e.DIRTY, e.ENTRIES)
        mine = [
            node.inode,
            node.size,
            node.links,
            node.opens,
            node.end,
            reference.extents_of(node),
            len(node.dirty()),
            node.used,
        ]
        assert [int(arena[f + field]) for field in fields] == mine, file
        words = arena[arena[f + e.PAGES] :][: node.end] if node.end else []
        blocks = [node.pages[page].block or 0 if page in node.pages else 0 for page in range(node.end)]
        assert [int(word) >> e.BLOCK_SHIFT for word in words] == blocks, file
        assert arena[arena[f + e.LEAVES] :][: arena[f + e.LEAF_COUNT]].tolist() == node.leaves, file


def start(fs, capacity=24 << 20, journal=4 << 20, room=1 << 12, files=None, tick=laws.TICK, folios="kernel"):
    own = {"folios": folios} if fs == "ext4" else {}
    model = drive.Model(fs, files or side(), room, capacity=capacity, journal=journal, timestamp_tick=tick, **own)
    by_dax_io = fs == "ext4-dax-linux4"
    return model, Slow("dax" in fs, files or side(), capacity, journal, by_dax_io=by_dax_io, clock_tick=tick)


def same(model, reference):
    same_state(model, reference)
    record = model.record
    assert int(record.commits) == reference.commits
    free = int(record.free_blocks + record.windowed + record.freed_blocks)
    assert (
        free == reference.free_count()
        and free - int(record.reserved) - int(record.kept_blocks) == reference.available()
    )
    dirty = sum(len(node.dirty()) for node in reference.nodes.values() if not node.is_dir)
    assert model.space()["dirty_bytes"] == 4096 * dirty


FAMILY = laws.ByKind(start, same)


@settings(max_examples=5 if NO_JIT else 300)
@pytest.mark.parametrize("fs", SYSTEMS)
@given(
    trace=traces,
    room=st.sampled_from([2, 100, 1 << 12]),
    tick=st.sampled_from([0, laws.TICK]),
    folios=st.sampled_from(["never", "always"]),
)
def test_kernels_agree_with_the_twin(fs, trace, room, tick, folios):
    """Whatever the size of the event buffer, whether files' times follow a clock, and with large folios."""
    FAMILY.agree(trace, fs, room=room, tick=tick, folios=folios)


@settings(max_examples=3 if NO_JIT else 60)
@pytest.mark.parametrize("fs", SYSTEMS)
@given(trace=traces)
def test_on_a_device_that_gets_full(fs, trace):
    """The same with 40 blocks for data."""
    FAMILY.agree(trace, fs, capacity=TIGHT)


def appends_with_fsync(count):
    """More commits than the log has room for."""
    return spaced(("create", 1), *[row for i in range(count) for row in (("write", 1, i * 700, 700), ("fsync", 1))])


def interleaved(count):
    """Two growing files side by side, closed once, and overwritten: windows."""
    rows = [("create", 1), ("create", 2)]
    rows += [("write", 1 + i % 2, i // 2 * 5000, 5000) for i in range(count)]
    rows += [
        ("close", 1),
        ("fsync", 1),
        ("fsync", 2),
        *[("write", 2, i << 19, 1 << 19) for i in range(20)],
        ("fsync", 2),
    ]
    return spaced(*rows, *[("write", 1 + i % 2, i * 9000, 9000, -1, SYNCHRONOUS) for i in range(20)])


def fallocated(count):
    """Scattered pages of fallocated blocks, written one by one: leaves; then the pages behind them, which add no extent."""
    rows = [("create", 1), ("fallocate", 1, 0, 4 * count << 12), ("fsync", 1)]
    for i in range(2 * count):
        rows.append(("write", 1, 4 * (i * 7 % count) + i // count << 12, 4096))
        rows += [("fsync", 1)] * (i % 50 == 0)
    return spaced(*rows)


def large_writes():
    """Slices of 16 MiB, steps of write-back of 2048 pages, two block groups, timed write-back and checkpoint."""
    rows = spaced(
        ("create", 1), ("write", 1, 100, 40 << 20), ("write", 1, 30 << 20, 20 << 20), ("read", 1, 0, 60 << 20)
    )
    rows += [(("create", 2), SECOND), (("write", 2, 0, 90 << 20), 31 * SECOND), (("stat", 1), 6 * SECOND)]
    return [*rows, (("fsync", 2), 40 * SECOND), (("stat", 1), SECOND), (("unlink", 1), SECOND), (("sync", -1), SECOND)]


def short_of_blocks():
    """More than half of the free blocks promised, by several files, one of them cut to nothing before its close."""
    rows = [("create", 1), ("create", 2), ("write", 1, 0, 3 << 20), ("truncate", 1, 0), ("write", 1, 5000, 2 << 20)]
    rows += [("close", 1), ("fallocate", 2, 1 << 20, 1 << 20), ("write", 2, 0, 7 << 20), ("write", 1, 3 << 20, 9 << 20)]
    rows += [("create", 3), ("write", 3, 0, 12 << 20), ("write", 2, 5 << 20, 9 << 20), ("sync", -1)]
    return spaced(*rows, ("write", 3, 1 << 20, 3 << 20), ("rename", 3, 0, 0, 2), ("write", 1, 0, 100), ("fsync", 1))


@pytest.mark.parametrize("fs", SYSTEMS)
@pytest.mark.parametrize(
    ("trace", "capacity"),
    [
        (appends_with_fsync(400), 24 << 20),
        (every_other_page(800), 40 << 20),
        (interleaved(300), 64 << 20),
        (fallocated(1000), 64 << 20),
        (large_writes(), 300 << 20),
        (short_of_blocks(), 64 << 20),
    ],
    ids=["log wraps", "leaves", "windows", "fallocated", "large", "short of blocks"],
)
def test_long_traces_agree_with_the_twin(fs, trace, capacity):
    reference = FAMILY.agree(trace, fs, capacity)
    assert not reference.failed


@pytest.mark.parametrize("fs", SYSTEMS)
def test_edges(fs):
    """Of pages and of directories."""
    trace, files = laws.edges()
    assert not FAMILY.agree(trace, fs, 40 << 20, files=files).failed


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_directory_of_long_names(fs):
    """An index block and leaves."""
    trace, files = laws.long_names()
    assert not FAMILY.agree(trace, fs, 40 << 20, files=files, step=1).failed


@pytest.mark.parametrize("last", [92, 93, 104, 105, 116, 117])
def test_a_directory_whose_block_is_full_to_the_byte(last):
    trace, files = laws.full_block_of_names(last)
    assert not FAMILY.agree(trace, "ext4-dax", 40 << 20, files=files, step=1).failed


@pytest.mark.parametrize("fs", SYSTEMS)
def test_what_fits_of_a_write_on_a_device_that_is_nearly_full(fs):
    assert FAMILY.agree(laws.nearly_full(), fs, capacity=TIGHT, step=1).short_writes


def test_a_new_name_takes_the_first_gap():
    """Which place of the directory each file's entry has: those of 10 names, of which three go and come again in another order."""
    model = drive.Model("ext4", drive.files(0, *[-1] * 12, dirs=[0]))

    def places(*files):
        arena, rows = model.state.arena, int(model.record.rows)
        return [int(arena[arena[rows + file * e.ROW_WORDS] + e.SLOT]) for file in files]

    model.feed(drive.ops(*[("create", file, 0, 0, 0) for file in range(1, 11)]))
    assert places(*range(1, 11)) == list(range(10))
    gone = (9, 3, 6)
    model.feed(drive.ops(*[("unlink", file, 0, 0, 0) for file in gone]))
    model.feed(drive.ops(*[("create", file, 0, 0, 0) for file in (*gone, 11, 12)]))
    assert places(*gone, 11, 12, 1, 10) == [2, 5, 8, 10, 11, 0, 9]


@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_directory_grows(fs):
    """700 names of 40 bytes and more: an index block and leaves, kept when the names go; more than 254 blocks in a
    commit."""
    count = 500 if NO_JIT else 700
    files = drive.files(
        -1, *[-1] * count, dirs=[0], names=["/d", *[f"/d/{'n' * (40 + i % 9)}{i}" for i in range(count)]]
    )
    rows = [("mkdir", 0), *[("create", i, 0, 0, 0) for i in range(1, count + 1)], ("sync", -1)]
    rows += [(name, i, 0, 0, 0) for i in range(1, count + 1) for name in ("link", "unlink", "unlink")]
    rows += [("mkdir", i, 0, 0, 0) for i in range(1, count + 1)]
    rows += [("sync", -1), *[("rmdir", i, 0, 0, 0) for i in range(1, count + 1)], ("sync", -1)]
    reference = FAMILY.agree(spaced(*rows), fs, 64 << 20, files=files)
    assert reference.nodes[0].end > 8


@pytest.mark.parametrize("fs", SYSTEMS)
@pytest.mark.parametrize("journal", ["4MiB", "8MiB"])
def test_stored_bytes_of_an_fsync(fs, journal):
    """A descriptor, the journaled blocks and a commit block for each fsync, by hand; overwrites that change the file's
    times journal the inode only."""
    model = drive.Model(fs, side(), journal=journal, timestamp_tick=0)
    warm = drive.ops(("create", 1, 0, 0, 0), ("write", 1, 0, 4096), ("fsync", 1))
    model.feed(warm)
    batch = drive.ops(("write", 1, 4096, 4096), ("fsync", 1), ("write", 1, 0, 4096), ("fsync", 1), ("fsync", 1))
    rows = laws.stored_by_operation(model, model.feed(batch), len(batch)).tolist()
    page = 4096
    if (
        "dax" in fs
    ):  # new block: inode, superblock, bitmap, descriptor; dax_io does not zero it, and has a fence of its own
        zeroed, fences = (page, 1) if fs == "ext4-dax" else (0, 2)
        assert rows == [
            [page, 0, 0, zeroed, 0, fences], [0, 0, 6 * page, 0, 0, 4], [page, 0, 0, 0, 0, fences], [0, 0, 3 * page, 0, 0, 4],
            [0, 0, 0, 0, 0, 2],
        ]  # fmt: skip
    else:  # new block: inode, bitmap, descriptor
        assert rows == [
            [0] * 6, [page, 0, 5 * page, 0, 0, 4], [0] * 6, [page, 0, 3 * page, 0, 0, 4], [0, 0, 0, 0, 0, 2]
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("at", "size", "flushed"), [(0, 4096, 0), (8, 64, 0), (1, 64, 2), (8, 3, 1), (4, 4, 0), (4090, 12, 2)]
)
def test_unaligned_ends_of_a_dax_copy_are_written_back(at, size, flushed):
    model = drive.Model("ext4-dax", side())
    model.feed(drive.ops(("create", 1), ("write", 1, 0, 8192)))
    events = model.feed(drive.ops(("write", 1, at, size)))
    found = drive.persistent(events, model.sites)
    assert found["flushes"] == Counter({"copy": flushed} if flushed else {}) and found["stored"] == Counter(
        {"copy": size}
    )


@pytest.mark.parametrize(
    ("at", "size", "cleared", "flushed"),
    [(0, 4096, 0, 0), (0, 1024, 3072, 48), (100, 100, 3996, 63), (5000, 4000, 4192, 67)],
)
def test_dax_io_clears_the_edges_of_new_blocks(at, size, cleared, flushed):
    """A write into a file without blocks: what it leaves of its first and last block is cleared and written back."""
    model = drive.Model("ext4-dax-linux4", side())
    found = drive.persistent(model.feed(drive.ops(("create", 1), ("write", 1, at, size))), model.sites)
    assert found["stored"] == Counter({"copy": size, "zeroing": cleared})
    assert found["flushes"] == Counter({"zeroing": flushed} if flushed else {})
    assert found["fences"] == Counter({"copy": 2})


def test_dax_io_copied_by_a_rep_string_before_the_functions_for_persistent_memory():
    """Linux 4.0 to 4.2: nothing goes past the caches, and nothing is written back or ordered."""
    model = drive.Model("ext4-dax-linux4", side(), copy="cached")
    found = drive.persistent(model.feed(drive.ops(("create", 1), ("write", 1, 0, 1024))), model.sites)
    assert found["stored"] == Counter({"copy": 1024, "zeroing": 3072})
    assert not any(found[field] for field in ("nt", "flushes", "fences"))
