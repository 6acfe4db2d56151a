"""The xfs kernels against their reference implementation, operation by operation, and laws that hold for any run."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.records import KEEP_SIZE, SYNCHRONOUS
from scmsim.fs.linux import state as e
from scmsim.fs.xfs import state as n
from scmsim.fs.xfs.mkfs import default_log
from tests.conftest import NO_JIT
from tests.fs import drive, laws
from tests.fs.laws import SECOND, every_other_page, spaced
from tests.fs.xfs.reference import Slow

traces, side = laws.linux_traces(), laws.linux_files


def same_state(model, reference):
    """Log, files and directories."""
    record, arena = model.record, model.state.arena
    mine = [
        reference.sequence,
        reference.size(),
        len(reference.cil),
        reference.used,
        sum(reference.space.free),
        reference.failed,
    ]
    names = ("sequence", "cil_bytes", "cil_items", "log_used", "free_blocks", "failed")
    assert [int(record[name]) for name in names] == mine
    for file, node in reference.nodes.items():
        f = int(arena[record.rows + file * e.ROW_WORDS])
        fields = [e.INODE, e.LINKS, e.OPENS, e.IS_DIR, e.PAGE_COUNT, e.LEAF_COUNT, n.KNOWN]
        expected = [node.inode, node.links, node.opens, node.is_dir, node.end, len(node.leaves), node.known]
        if node.is_dir:
            forms = ("inode", "block", "leaf", "node")
            fields += [n.NAMES, n.DATA_BYTES, n.FORM, n.HINT]
            expected += [node.names, node.long, forms.index(node.form), node.hint]
        else:
            fields += [e.SIZE, e.EXTENTS, e.MAPPED]
            expected += [node.size, node.extents(), len(node.pages) + len(node.delayed)]
        assert [int(arena[f + field]) for field in fields] == expected, file
        if not node.is_dir and node.end:
            blocks = [int(word) >> e.BLOCK_SHIFT for word in arena[arena[f + e.PAGES] :][: node.end]]
            assert blocks == [node.pages.get(page, (0,))[0] for page in range(node.end)], file


def start(capacity=24 << 20, log=4 << 20, room=1 << 12, files=None, tick=laws.TICK, groups=4, kernel="5.13"):
    own = {"capacity": capacity, "log": log, "allocation_groups": groups, "kernel": kernel}
    model = drive.Model("xfs-dax", files or side(), room, timestamp_tick=tick, **own)
    newer = {"fork": 192, "leaf_by_inode": True} if kernel == "6.12" else {}
    return model, Slow(files or side(), capacity, log=log // 4096, clock_tick=tick, groups=groups, **newer)


FAMILY = laws.ByKind(start, same_state)


@settings(max_examples=5 if NO_JIT else 200)
@given(trace=traces, room=st.sampled_from([2, 100, 1 << 12]), tick=st.sampled_from([0, laws.TICK]))
def test_kernels_agree_with_the_twin(trace, room, tick):
    """Whatever the size of the event buffer, and whether files' times follow a clock."""
    FAMILY.agree(trace, room=room, tick=tick)


@settings(max_examples=3 if NO_JIT else 60)
@given(trace=traces)
def test_on_a_device_that_gets_full(trace):
    """The same with some 40 blocks for data."""
    FAMILY.agree(trace, capacity=(4 << 20) + (12 + 12 + 40) * 4096, groups=1)


def appends_with_fsync(count):
    """More checkpoints than the log has room for: metadata goes in place when it is 3/4 full, and every 30 s."""
    rows = [("create", 1), *[row for i in range(count) for row in (("write", 1, i * 700, 700), ("fsync", 1))]]
    return [*spaced(*rows), (("stat", 1), 40 * SECOND), (("write", 1, 0, 10), 40 * SECOND), (("sync", -1), SECOND)]


def large_writes():
    """Parts of 4 MiB, two allocation groups, unwritten blocks."""
    rows = [("create", 1), ("write", 1, 100, 9 << 20), ("fallocate", 1, 0, 30 << 20), ("write", 1, 8 << 20, 20 << 20)]
    return spaced(
        *rows, ("fsync", 1), ("create", 2), ("write", 2, 0, 13 << 20, -1, SYNCHRONOUS), ("unlink", 1), ("sync", -1)
    )


@pytest.mark.parametrize(
    ("trace", "capacity"),
    [(appends_with_fsync(1300), 24 << 20), (every_other_page(800), 40 << 20), (large_writes(), 80 << 20)],
    ids=["log wraps", "leaves", "large"],
)
def test_long_traces_agree_with_the_twin(trace, capacity):
    assert not FAMILY.agree(trace, capacity).failed


def test_edges():
    """Of pages and of directories."""
    trace, files = laws.edges()
    assert not FAMILY.agree(trace, 40 << 20, files=files, step=9).failed


@pytest.mark.parametrize(("size", "pages"), [(9_000, 8), (4_000, 1), (5_000, 2)])
def test_a_truncate_frees_blocks_past_the_end_unless_the_file_grows(size, pages):
    """The file has 5,000 bytes in eight blocks, because it was preallocated with FALLOC_FL_KEEP_SIZE."""
    rows = [("create", 1), ("write", 1, 0, 5_000), ("fallocate", 1, 0, 8 * 4096, -1, KEEP_SIZE), ("truncate", 1, size)]
    reference = FAMILY.agree(spaced(*rows), step=1)
    assert len(reference.nodes[1].pages) == pages


def a_hole_for_one_request(first, offset):
    """A hole of 1500 blocks is free near file 1, which has `first` bytes; then 10 MiB are written from `offset` on."""
    rows = [("create", 1), ("write", 1, 0, first), ("close", 1), ("create", 2), ("write", 2, 0, 1500 * 4096)]
    rows += [("close", 2), ("create", 3), ("write", 3, 0, 16 * 4096), ("close", 3), ("unlink", 2), ("sync", -1)]
    return spaced(*rows, ("open", 1), ("write", 1, offset, 10 << 20), ("close", 1))


@pytest.mark.parametrize(
    ("first", "offset", "extents"),
    [
        (6144, 6144, [(0, 12, 2), (2, 24, 1024), (1026, 1540, 1536)]),
        (4096, 4196, [(0, 12, 1), (1, 24, 1025), (1026, 1540, 1536)]),
    ],
    ids=["after a page with a block", "from within a page"],
)
def test_a_request_for_blocks_has_4_mib_from_its_first_byte(first, offset, extents):
    """The extents (page, block, blocks) are those of Linux 6.1 on a device of 2 GiB, measured in the lab."""
    names = ["/d", *[f"/d/{file}" for file in (1, 2, 3)]]
    files = drive.files(0, -1, -1, -1, dirs=[0], names=names)
    trace = a_hole_for_one_request(first, offset)
    model = drive.Model("xfs-dax", files, capacity="2GiB")
    model.feed(drive.ops(*[row for row, _ in trace]))
    mine = [row for row in model.extents() if row["file"] == 1]
    fields = ("logical", "physical", "length")
    assert [tuple(int(row[field]) // 4096 for field in fields) for row in mine] == extents
    assert not FAMILY.agree(trace, 80 << 20, files=files, step=1, groups=1).failed


def test_a_leaf_of_extents_goes_when_the_inode_holds_them_again():
    """By a truncate, and by a write that joins unwritten extents to written ones."""
    every_other = [("write", 1, page * 4096, 4096) for page in range(0, 60, 2)]
    rows = [("create", 1), ("fallocate", 1, 0, 60 * 4096), *every_other]
    reference = FAMILY.agree(spaced(*rows), step=1)
    assert reference.nodes[1].extents() == 60 and len(reference.nodes[1].leaves) == 1
    for more in (("truncate", 1, 20 * 4096), ("write", 1, 0, 60 * 4096)):
        reference = FAMILY.agree(spaced(*rows, more, ("create", 2), ("write", 2, 0, 4096)), step=1)
        assert not reference.nodes[1].leaves


def single_pages(count):
    """A file of eight blocks, and then `count` extents of one block each."""
    return spaced(
        ("create", 1), ("write", 1, 0, 8 * 4096), *[("write", 1, (9 + 2 * i) * 4096, 4096) for i in range(count)]
    )


@pytest.mark.parametrize(("kernel", "most"), [("6.1", 21), ("6.12", 12)])
def test_an_inode_of_newer_kernels_has_room_for_extended_attributes(kernel, most):
    """The most extents without a leaf are those of Debian's kernels, measured in the lab."""
    for count in (most, most + 1):
        reference = FAMILY.agree(single_pages(count - 1), kernel=kernel)
        assert reference.nodes[1].extents() == count and len(reference.nodes[1].leaves) == (count > most)


@pytest.mark.parametrize(("kernel", "leaf"), [("6.1", 12), ("6.12", 15)])
def test_a_leaf_of_extents_is_near_the_inode_on_newer_kernels(kernel, leaf):
    """Blocks 12 to 15 are free, and the inode is in block 16; measured in the lab."""
    reference = FAMILY.agree(single_pages(22), kernel=kernel)
    assert [item.home for item in reference.nodes[1].leaves] == [leaf]


@pytest.mark.parametrize(("kernel", "most"), [("6.1", 33), ("6.12", 18)])
def test_a_directory_in_an_inode_of_newer_kernels_has_less_room(kernel, most):
    """An entry of two letters has ten bytes (xfs_dir2_sf_entsize)."""
    files = drive.files(0, *[-1] * (most + 1), dirs=[0], names=["/d", *[f"/d/{i:02d}" for i in range(most + 1)]])
    rows = [("create", i, 0, 0, 0) for i in range(1, most + 2)]
    for count, form in ((most, "inode"), (most + 1, "block")):
        assert FAMILY.agree(spaced(*rows[:count]), files=files, kernel=kernel).nodes[0].form == form


def test_a_rename_over_a_file_takes_its_place():
    """On 6.12 the directory has a block for 19 names, and gives it back once: the rename adds no name on the way (xfs_rename)."""
    files = drive.files(0, *[-1] * 20, dirs=[0], names=["/d", *[f"/d/{i:02d}" for i in range(20)]])
    rows = [("create", i, 0, 0, 0) for i in range(1, 20)]
    reference = FAMILY.agree(spaced(*rows, ("rename", 1, 0, 0, 2)), files=files, step=1, kernel="6.12")
    freed = [extent for group in reference.space.busy for extent in group.extents()]
    assert reference.nodes[0].form == "inode" and sum(end - start for start, end in freed) == 1


@settings(max_examples=3 if NO_JIT else 40)
@given(trace=traces)
def test_kernels_agree_with_the_twin_of_a_newer_kernel(trace):
    FAMILY.agree(trace, kernel="6.12")


def test_a_directory_of_long_names():
    """In its inode, in a block, beside a leaf, and back; some names fit a block that others did not."""
    trace, files = laws.long_names()
    assert not FAMILY.agree(trace, 40 << 20, files=files, step=1).failed


def test_a_directory_of_the_longest_names_becomes_a_tree():
    """The free space of its blocks, two bytes each, takes more than one of the 128 bytes that a log item counts by."""
    every = range(1, n.ONE_LEAF + 3)
    files = drive.files(0, *[-1] * len(every), dirs=[0], names=["/d", *[f"/d/{file:0250d}" for file in every]])
    reference = FAMILY.agree(spaced(*[("create", file, 0, 0, 0) for file in every]), 40 << 20, files=files)
    assert reference.nodes[0].form == "node" and reference.nodes[0].end > 32


def test_what_fits_of_a_write_on_a_device_that_is_nearly_full():
    assert FAMILY.agree(laws.nearly_full(), (4 << 20) + (12 + 12 + 40) * 4096, step=1, groups=1).short_writes


def test_a_directory_grows_and_shrinks():
    """1200 names: all four forms, three leaves and more; renames; then all names go."""
    count = 1200
    files = drive.files(0, *[-1] * count, dirs=[0], names=["/d", *[f"/d/{i:0{7 + i % 40}d}" for i in range(count)]])
    every = range(1, count + 1)
    rows = [("create", i, 0, 0, 0) for i in every] + [("fsync", 5)] + [("rename", i) for i in every if i % 3]
    rows += [("link", i, 0, 0, 0) for i in every if i % 5 == 0] + [("sync", -1)]
    reference = FAMILY.agree(spaced(*rows), 40 << 20, files=files)
    assert reference.nodes[0].form == "node" and len(reference.nodes[0].leaves) > 3
    rows += [("unlink", i, 0, 0, 0) for i in every if i % 5 == 0] + [("unlink", i, 0, 0, 0) for i in every]
    reference = FAMILY.agree(spaced(*rows, ("sync", -1)), 40 << 20, files=files)
    assert reference.nodes[0].form == "inode" and len(reference.nodes) == 2 and not reference.nodes[0].names


@pytest.mark.parametrize(
    ("device", "log"),
    [(1 << 18, 1 << 15), (300 << 10, 1 << 16), (1 << 20, 1 << 16), (1 << 29, 1 << 18), (100 << 30, 1 << 21)],
)
def test_the_log_has_the_size_that_mkfs_chooses(device: int, log: int) -> None:
    """KiB: a 2048th of the device, at least 64 MiB and at most 2 GiB; an eighth of a device that mkfs.xfs 6.1 refuses."""
    assert 4 * default_log(device // 4) == log


def test_a_log_unit_may_be_as_large_as_a_log_buffer():
    model = drive.Model("xfs-dax", drive.files(0, -1, dirs=[0]), capacity="64MiB", log_unit="32KiB", log_buffer="32KiB")
    assert len(model.feed(drive.ops(("create", 1, 0, 0, 0), ("fsync", 1))))
