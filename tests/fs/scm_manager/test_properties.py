"""The kernels of the SCM manager, FAT, ext2 and FAT on NAND against their reference implementation, operation by operation."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.records import NTSTORE
from scmsim.fs.engine import file_row
from scmsim.fs.scm_manager import state as n
from tests.conftest import NO_JIT
from tests.fs import drive, laws
from tests.fs.scm_manager.reference import EXT2, FAT, MANAGER
from tests.fs.scm_manager.reference_calls import Calls

NAMES = ("/d", "/d/a", "/d/longer-name.text", "/d/n" + "x" * 60, "/d/old")
SIZES = (0, -1, -1, -1, 20_000)
PLAIN = st.integers(1, 4)
PARENT = st.sampled_from([-1, 0, 0, 3])  # 3 is a plain file, which has no names

offsets = st.one_of(
    st.integers(0, 30_000), st.integers(0, 40).map(lambda unit: unit * 512), st.integers(250_000, 300_000)
)
lengths = st.one_of(st.integers(1, 9_000), st.integers(1, 90).map(lambda unit: unit * 512), laws.ZERO)


renamed = laws.command("rename", PLAIN, laws.ZERO, laws.ZERO, st.sampled_from([-1, 1, 2, 3, 4]))  # onto itself, too
files = laws.commands(offsets, lengths, renamed, parent=PARENT).filter(
    lambda row: row[0] != "link"
)  # files have one name
objects = st.one_of(
    laws.command("malloc", PLAIN, laws.ZERO, st.one_of(st.integers(1, 5_000), st.integers(1, 128 << 10))),
    laws.command("store", PLAIN, offsets, lengths),
    laws.command("load", PLAIN, offsets, lengths),
    laws.command("free", PLAIN),
    laws.command("mm_to_file", PLAIN, laws.ZERO, laws.ZERO, PARENT),
    laws.command("file_to_mm", PLAIN, laws.ZERO, laws.ZERO, PARENT),
)

VARIANTS = {
    "scm-manager": ("scm-manager", MANAGER, {}),
    "four first objects": ("scm-manager", MANAGER, {"first_objects": 4}),
    "fat": ("fat-scm", FAT, {}),
    "fat sync": ("fat-scm", FAT, {"mount": "sync"}),
    "ext2": ("ext2-scm", EXT2, {}),
    "ext2 sync": ("ext2-scm", EXT2, {"mount": "sync"}),
    "nand": ("fat-nand", FAT, {}),
    "nand sync": ("fat-nand", FAT, {"mount": "sync"}),
}


def start(variant, capacity=8 << 20):
    fs, kind, params = VARIANTS[variant]
    model = drive.Model(fs, drive.files(*SIZES, dirs=[0], names=NAMES), capacity=capacity, **params)
    more = {"first_objects": params["first_objects"]} if "first_objects" in params else {}
    sync = params.get("mount") == "sync"
    return model, Calls(kind, laws.names_of(NAMES), SIZES, (0,), capacity, sync, fs == "fat-nand", **more)


def same(model, slow, events):
    stored = drive.persistent(events, model.sites)
    assert stored["nt"] == stored["stored"]
    free = sum(size // 512 for size, _ in slow.space.free) if slow.kind == MANAGER else len(slow.free)
    assert int(model.record.free_blocks) == free


FAMILY = laws.BySite(start, same, ("stored", "loaded", "fences"))


@pytest.mark.parametrize("variant", VARIANTS)
@settings(max_examples=4 if NO_JIT else 30, deadline=None)
@given(data=st.data())
def test_kernels_do_what_the_twin_does(variant, data):
    calls = st.one_of(files, objects) if VARIANTS[variant][1] == MANAGER else files
    FAMILY.agree(data.draw(st.lists(calls, max_size=14)), variant)


@pytest.mark.parametrize("variant", VARIANTS)
def test_edges_of_blocks(variant):
    FAMILY.agree(laws.edges_of_blocks(512), variant)


@pytest.mark.parametrize("variant", VARIANTS)
def test_files_that_grow_side_by_side(variant):
    """Units of two files lie between each other; then one goes and its gaps are used."""
    rows = [("create", i, 0, 0, 0) for i in (1, 2)]
    rows += [("write", 1 + k % 2, k // 2 * 1500, 1500) for k in range(60)]
    rows += [
        ("fsync", 1),
        ("unlink", 1, 0, 0, 0),
        ("create", 3, 0, 0, 0),
        ("write", 3, 0, 60_000),
        ("read", 3, 7, 50_000),
    ]
    FAMILY.agree([*rows, ("fsync", 3), ("read", 2, 0, 60_000), ("write", 2, 600, 20_000), ("fsync", 2)], variant)


def test_a_memory_object_becomes_a_file_and_back_without_a_copy():
    """Figure 3 of the paper: 2 KiB are four data objects; then the name goes, and `free` gives everything back."""
    model, _ = FAMILY.agree([("malloc", 1, 0, 2048), ("store", 1, 0, 2048)], "scm-manager")
    model.feed(drive.ops(("create", 3, 0, 0, 0)))
    free = int(model.record.free_blocks)
    found = drive.persistent(model.feed(drive.ops(("mm_to_file", 1, 0, 2048, 0))), model.sites)
    assert found["stored"] == {"conversion": 4 * 4, "inode": 64, "directory": 8}
    assert model.space()["moved_bytes"] == 0 and model.space()["files"] == 2 and model.space()["memory_objects"] == 0
    read = drive.persistent(model.feed(drive.ops(("read", 1, 0, 4096))), model.sites)
    assert read["loaded"]["data copy"] == 2048
    model.feed(drive.ops(("file_to_mm", 1, 0, 2048, 0)))
    assert model.space()["memory_objects"] == 1 and model.space()["files"] == 1
    model.feed(drive.ops(("load", 1, 0, 2048), ("free", 1)))
    assert model.space()["memory_objects"] == 0 and int(model.record.free_blocks) == free + 4


def test_a_small_object_moves_only_when_it_outgrows_its_place():
    model, _ = FAMILY.agree([("malloc", 1, 0, 40), ("mm_to_file", 1, 0, 40, 0), ("write", 1, 40, 20)], "scm-manager")
    assert model.space()["moved_bytes"] == 0
    model.feed(drive.ops(("write", 1, 60, 20)))
    assert model.space()["moved_bytes"] == 60


def test_dirty_data_are_written_after_30_seconds():
    model = drive.Model("fat-scm", drive.files(*SIZES, dirs=[0], names=NAMES))
    rows = drive.ops(("create", 1, 0, 0, 0), ("write", 1, 0, 4096), ("stat", 1))
    rows.time_ns = [0, 1_000, 29_000_000_000]
    assert not drive.persistent(model.feed(rows), model.sites)["stored"]
    late = drive.ops(("stat", 1))
    late.time_ns = 31_000_000_000
    assert drive.persistent(model.feed(late), model.sites)["stored"]["write-back"] == 4096
    assert model.space()["dirty_bytes"] == 0


@pytest.mark.parametrize("fs", ["fat-scm", "ext2-scm"])
def test_a_file_outlives_the_directory_that_it_was_renamed_out_of(fs):
    """Its entry went with the directory, which is not dirty any more: a write-back of it never ended."""
    model = drive.Model(fs, drive.files(0, -1, -1, dirs=[0, 2], names=["/d", "/d/f", "/d/e"]), capacity=8 << 20)
    model.feed(drive.ops(("mkdir", 2, 0, 0, 0), ("create", 1, 0, 0, 2), ("rename", 1), ("rmdir", 2, 0, 0, 0)))
    model.feed(drive.ops(("write", 1, 0, 1000)))
    rows = file_row.of(model.state, n.FILE_WORDS)
    assert rows[2, n.DIRTY_UNITS] == 0 and rows[1, n.DIRTY_UNITS] > 0
    model.feed(drive.ops(("sync", -1)))
    assert int(model.space()["dirty_bytes"]) == 0


def test_a_device_without_spare_units_folds_for_every_rewrite():
    """NAND of 2 MiB and a bit: four spare units; a file rewritten sector by sector."""
    model = drive.Model("fat-nand", drive.files(*SIZES, dirs=[0], names=NAMES), capacity=4 << 20)
    model.feed(drive.ops(("create", 1, 0, 0, 0), ("write", 1, 0, 2 << 20), ("fsync", 1)))
    for k in range(100):
        model.feed(drive.ops(("write", 1, k * 20_000 % (2 << 20), 512), ("fsync", 1)))
    space = model.space()
    assert space["nand_folds"] > 100 and space["nand_erases"] == space["nand_folds"]
    assert space["nand_page_programs"] > 31 * 100 and 0 <= int(model.record.spare) <= 8


def test_a_full_buddy_system_refuses_and_recovers():
    """malloc of a chunk each until none is left, and of more than a chunk; what is freed can be had again."""
    model = drive.Model("scm-manager", drive.files(0, *[-1] * 60, dirs=[0]), capacity=4 << 20)
    model.feed(drive.ops(("malloc", 60, 0, (128 << 10) + 1)))
    assert int(model.record.failed) == 1
    model.feed(drive.ops(*[("malloc", i, 0, 128 << 10) for i in range(1, 41)]))
    taken = model.space()["memory_objects"]
    assert taken == 41 - int(model.record.failed) and taken >= 20 and int(model.record.free_blocks) == 0
    model.feed(drive.ops(("create", 50, 0, 0, 0), ("free", 1), ("create", 51, 0, 0, 0), ("write", 51, 0, 1000)))
    assert model.space()["files"] == 1 and model.space()["live_bytes"] == (taken - 1) * (128 << 10) + 1000


def test_free_space_in_pieces_has_no_room_for_a_larger_object():
    model = drive.Model("scm-manager", drive.files(0, *[-1] * 80, dirs=[0]), capacity=4 << 20)
    model.feed(drive.ops(*[("malloc", i, 0, 64 << 10) for i in range(1, 78)], *[("free", i) for i in range(1, 78, 2)]))
    failed = int(model.record.failed)
    assert failed > 0 and int(model.record.free_blocks) << 9 > 512 << 10
    model.feed(drive.ops(("malloc", 79, 0, 128 << 10)))
    assert int(model.record.failed) == failed + 1
    model.feed(drive.ops(("malloc", 79, 0, 64 << 10)))
    assert int(model.record.failed) == failed + 1


def test_a_file_made_of_a_memory_object_needs_room_for_its_name():
    """The data of the object stay where they are, so a full device refuses only the name."""
    model = drive.Model("scm-manager", drive.files(0, *[-1] * 60, dirs=[0]), capacity=4 << 20)
    model.feed(drive.ops(*[("malloc", i, 0, 128 << 10) for i in range(1, 41)]))
    failed, taken = int(model.record.failed), model.space()["memory_objects"]
    assert int(model.record.free_blocks) == 0
    model.feed(drive.ops(("mm_to_file", 1, 0, 128 << 10, 0)))
    assert int(model.record.failed) == failed + 1 and model.space()["memory_objects"] == taken
    model.feed(drive.ops(("free", 2), ("mm_to_file", 1, 0, 128 << 10, 0)))
    assert int(model.record.failed) == failed + 1 and model.space()["files"] == 1


def test_an_overwrite_needs_no_room_for_indirect_blocks():
    """The device of ext2 has three blocks left, fewer than a write that allocates asks for."""
    model = drive.Model("ext2-scm", drive.files(0, -1, -1, dirs=[0], names=["/d", "/d/a", "/d/b"]), capacity=4 << 20)
    model.feed(drive.ops(("create", 1, 0, 0, 0), ("write", 1, 0, 12 << 10), ("create", 2, 0, 0, 0)))
    end = 0
    while model.record.free_blocks > 5:
        model.feed(drive.ops(("write", 2, end, 1024)))
        end += 1024
    model.feed(drive.ops(("write", 1, 12 << 10, 1024)))  # and its first indirect block
    assert model.record.free_blocks == 3 and not model.record.failed
    model.feed(drive.ops(("write", 1, 0, 13 << 10)))
    assert not model.record.failed
    model.feed(drive.ops(("write", 2, end, 1024)))
    assert model.record.failed == 1


@pytest.mark.parametrize("fs", ["fat-scm", "ext2-scm"])
def test_neighbouring_units_are_written_back_in_one_request(fs):
    model = drive.Model(fs, drive.files(0, -1, dirs=[0], names=["/d", "/d/f"]), capacity=4 << 20)
    events = model.feed(drive.ops(("create", 1, 0, 0, 0), ("write", 1, 0, 8192), ("fsync", 1)))
    written = events[(events.site == model.sites.index("write-back")) & (events.code == NTSTORE)]
    assert [int(event.length) for event in written] == [8192]


MIXED = st.one_of(
    laws.command("create", st.integers(0, 4), laws.ZERO, laws.ZERO, st.integers(-1, 4)),
    laws.command("mkdir", st.integers(0, 4), laws.ZERO, laws.ZERO, st.integers(-1, 4)),
    laws.command("write", st.integers(0, 4), st.sampled_from([0, 40, 7000]), st.sampled_from([40, 600, 9000])),
    laws.command("truncate", st.integers(0, 4), st.sampled_from([0, 30, 8000])),
    laws.command("read", st.integers(0, 4), offsets, lengths),
    laws.command("unlink", st.integers(0, 4), laws.ZERO, laws.ZERO, st.integers(-1, 4)),
    laws.command("rmdir", st.integers(0, 4), laws.ZERO, laws.ZERO, st.integers(-1, 4)),
    laws.command("rename", st.integers(0, 4), laws.ZERO, laws.ZERO, st.integers(-1, 4)),
    laws.command("malloc", st.integers(1, 4), laws.ZERO, st.sampled_from([40, 600])),
    laws.command("mm_to_file", st.integers(1, 4), laws.ZERO, st.sampled_from([40, 600]), st.integers(-1, 4)),
)  # fmt: skip


@pytest.mark.parametrize("variant", ["scm-manager", "fat", "ext2"])
@settings(max_examples=4 if NO_JIT else 30, deadline=None)
@given(rows=st.lists(MIXED, max_size=20))
def test_space_holds_for_a_trace_that_mixes_up_files_and_directories(variant, rows):
    fs, _, params = VARIANTS[variant]
    model = drive.Model(fs, drive.files(*SIZES, dirs=[0], names=NAMES), capacity=8 << 20, **params)
    for row in rows:
        model.feed(drive.ops(row))
        space = model.space()
        assert 0 <= space["live_bytes"] <= space["allocated_bytes"] <= space["capacity_bytes"], row


def test_a_plain_file_as_parent_and_data_of_a_directory():
    """Names of a plain file go to the directory that no trace names; a directory has no data (EISDIR)."""
    model = drive.Model("scm-manager", drive.files(*SIZES, dirs=[0], names=NAMES))
    model.feed(drive.ops(("malloc", 1, 0, 40), ("mm_to_file", 1, 0, 40, 0), ("create", 2, 0, 0, 1)))
    space = model.space()
    assert space["live_bytes"] == space["file_bytes"] == 40
    found = drive.persistent(model.feed(drive.ops(("write", 0, 0, 100_000), ("truncate", 0, 1 << 30))), model.sites)
    assert not found["stored"] and model.space() == space
    model.feed(drive.ops(("rmdir", 0), ("create", 0, 0, 0, -1), ("unlink", 1), ("unlink", 2)))
    assert model.space()["files"] == 1 and model.space()["live_bytes"] == 0
