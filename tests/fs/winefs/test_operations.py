"""WineFS: what its source says of bytes, fences, aligned extents and CPUs."""

import pytest

from scmsim.core.errors import UsageError
from scmsim.core.records import NTSTORE, STORE
from tests.fs import drive

KIB, MIB = 1 << 10, 1 << 20


def model(*sizes, **params):
    return drive.Model("winefs", drive.files(0, *(sizes or (-1,)), dirs=[0]), **{"capacity": "1GiB", **params})


def once(fs, row):
    return drive.persistent(fs.feed(drive.ops(row)), fs.sites)


@pytest.mark.parametrize(
    ("aligned", "offset", "length", "copies", "fences"),
    [
        (False, 4 * KIB, 16 * KIB, 1, 4),  # log of the inode, log of the slots, two at the commit
        (True, 4 * KIB, 16 * KIB, 2, 7),  # log of the slots and two at the commit once more
        (False, 4 * KIB, KIB, 1, 4),
        (True, 4 * KIB, KIB, 1, 1),  # within one block of an aligned file: in place, then the inode
        (False, 2 * MIB, 2 * MIB, 1, 4),  # a leaf's slots are one call of the log
        (True, MIB, 2 * MIB, 2, 3 + 2 + 2 + 2),
    ],
)
def test_an_overwrite_is_copied_once_or_twice(aligned, offset, length, copies, fences):
    fs = model()
    fill = ("fallocate", 1, 0, 4 * MIB) if aligned else ("write", 1, 0, 4 * MIB)
    fs.feed(drive.ops(("create", 1), fill))
    assert fs.space()["aligned_files"] == aligned
    found = once(fs, ("write", 1, offset, length))
    assert found["stored"]["data copy"] == length
    assert found["stored"]["second copy"] == (copies - 1) * length
    assert sum(found["fences"].values()) == fences
    assert fs.space()["allocated_bytes"] == 4 * MIB


def test_an_append_within_a_block_needs_no_transaction():
    """pmfs_xip_file_write: a strict write copies only if it begins below the file's size; the fence came with issue 1."""
    for barrier in (1, 0):
        fs = model(barrier=barrier)
        fs.feed(drive.ops(("create", 1), ("write", 1, 0, KIB)))
        found = once(fs, ("write", 1, KIB, KIB))
        assert not found["stored"]["journal"] and found["stored"]["inode"] == 16
        assert sum(found["fences"].values()) == 1 + barrier


def test_a_strict_fallocate_loses_the_blocks_that_follow_a_hole():
    """Block 9 exists, 7 and 8 do not: strict mode points all three to a new run, and the old block belongs to nobody.

    So does the real driver (docs/validation/crash-states.md); relaxed mode keeps the block, and loses the new one.
    """
    for name in ("winefs", "winefs-relaxed"):
        fs = drive.Model(name, drive.files(0, -1, dirs=[0]), capacity="1GiB")
        fs.feed(drive.ops(("create", 1), ("write", 1, 0, 4 * KIB), ("write", 1, 36 * KIB, 4 * KIB)))
        (before,) = [at["physical"] for at in fs.extents() if at["file"] == 1 and at["logical"] == 36 * KIB]
        fs.feed(drive.ops(("fallocate", 1, 28 * KIB, 12 * KIB)))
        after = [at for at in fs.extents() if at["file"] == 1 and at["logical"] >= 28 * KIB]
        if name == "winefs":
            assert [at["length"] for at in after] == [12 * KIB] and after[0]["physical"] != before
        else:
            assert [(at["logical"], at["length"]) for at in after] == [(28 * KIB, 8 * KIB), (36 * KIB, 4 * KIB)]
            assert after[1]["physical"] == before
        assert fs.record.lost_blocks == 1 and fs.space()["allocated_bytes"] == 16 * KIB


@pytest.mark.parametrize(("length", "slots"), [(KIB, 0), (4 * KIB, 0), (16 * KIB, 4), (2 * MIB, 512)])
def test_a_relaxed_overwrite_goes_in_place(length, slots):
    """Of several blocks, it has a transaction and allocates blocks that it frees again (recursive_alloc_blocks)."""
    found, blocks = [], []
    for name in ("winefs", "winefs-relaxed"):
        fs = drive.Model(name, drive.files(0, -1, dirs=[0]), capacity="1GiB")
        fs.feed(drive.ops(("create", 1), ("write", 1, 0, 4 * MIB)))
        before = fs.space()["allocated_bytes"]
        events = fs.feed(drive.ops(("write", 1, 4 * KIB, length)))
        found.append(drive.persistent(events, fs.sites))
        blocks.append(int(events[events["code"] == NTSTORE]["addr"][0]))
        assert fs.space()["allocated_bytes"] == before
    strict, relaxed = found
    assert relaxed["stored"]["data copy"] == length and not relaxed["stored"]["cow copy"]
    assert blocks[0] != blocks[1]  # the strict one went to fresh blocks
    if slots:
        assert strict["stored"]["index"] - relaxed["stored"]["index"] == 8 * slots
        assert strict["stored"]["journal"] == relaxed["stored"]["journal"]
    else:
        assert not relaxed["stored"]["journal"] and not relaxed["stored"]["index"]


def test_the_first_name_of_a_directory_takes_a_block_and_a_tree():
    """mkdir does not note the last record, so the first name goes to a second block, below a cleared node (dir.c)."""
    fs = drive.Model("winefs", drive.files(0, -1, -1, dirs=[0], names=["/d", "/d/a", "/d/b"]), capacity="1GiB")
    first, second = (once(fs, ("create", i, 0, 0, 0)) for i in (1, 2))
    assert first["nt"] == {"index": 4096} and not second["nt"]


def test_the_first_read_after_a_change_sets_the_access_time():
    fs = model()
    fs.feed(drive.ops(("create", 1), ("write", 1, 0, 8 * KIB)))
    assert [once(fs, ("read", 1, 0, KIB))["stored"]["inode"] for _ in range(2)] == [4, 0]
    once(fs, ("write", 1, 0, KIB))
    assert once(fs, ("read", 1, 0, KIB))["flushes"] == {"inode": 1}


def test_small_files_break_one_extent_after_the_other():
    """300 files of 12 KiB need 900 blocks, and directories and trees some more: two or three extents, not 300."""
    fs = model(*[-1] * 300)
    before = fs.space()["aligned_free_bytes"]
    fs.feed(drive.ops(*[row for i in range(1, 301) for row in (("create", i), ("write", i, 0, 12 * KIB))]))
    assert before - fs.space()["aligned_free_bytes"] <= 6 * MIB
    fs.feed(drive.ops(*[("unlink", i) for i in range(1, 301)]))
    assert before - fs.space()["aligned_free_bytes"] <= 4 * MIB  # those of the directory's blocks


def test_each_cpu_has_its_journal_and_its_range():
    fs = model(-1, -1, cpus=2, journal="4MiB")
    where = {}
    for thread in (0, 1):
        batch = drive.ops(("create", thread + 1), ("write", thread + 1, 0, 64 * KIB))
        batch.thread = thread
        events = fs.feed(batch)
        for site, code in (("data copy", NTSTORE), ("journal", STORE)):
            chosen = events[(events["site"] == fs.sites.index(site)) & (events["code"] == code)]
            where[site, thread] = int(chosen["addr"][chosen["addr"] >= 36 * KIB].min())
    assert where["data copy", 0] < 512 * MIB <= where["data copy", 1]
    assert where["journal", 1] - where["journal", 0] >= 4 * MIB - 64 * KIB


def test_names_are_found_without_looking_at_records():
    fs = model(*[-1] * 400)
    found = drive.persistent(fs.feed(drive.ops(*[("create", i) for i in range(1, 401)])), fs.sites)
    assert not found["loaded"]["directory scan"] and fs.space()["scanned_dirents"] == 0


def test_parameters_are_checked():
    with pytest.raises(UsageError, match="cpus = 65 is out of range; give 1 to 64"):
        model(cpus=65)
    with pytest.raises(UsageError, match="ends at 16TiB"):
        model(capacity="17TiB")
