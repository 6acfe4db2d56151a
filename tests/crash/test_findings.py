"""Crash checks of systems that promise nothing: what a crash leaves is counted, and goes away where the order is made right."""

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.core.records import FENCE, FLUSH, STORE
from scmsim.fs.recovery.expected import BROKEN, DATA, NAME, SHARED, SIZE, UNWRITTEN
from scmsim.fs.recovery.observe import Event
from scmsim.trace import TraceWriter
from tests.crash.test_crash import MIB, check, without
from tests.fs import drive

NEW = ("create", 1, 0, 0, 0)
FENCED = Event(FENCE, "lock", 0, 1, 0)
TAKEN = [NEW, ("fallocate", 1, 0, 8192), ("write", 1, 0, 8192)]  # a file whose overwrites need no page


def kinds(report):
    assert not report.promised
    assert {failure.kind for failure in report.failures} == set(report.found)
    return set(report.found)


# ctFS: nothing is fenced before the call ends


def test_ctfs_keeps_what_it_writes_back_and_only_that():
    """Whole lines and tails are durable at return; the head's write-back goes to the line behind it (ctfs_cpy.c, avx_cpy)."""
    assert kinds(check("ctfs", [*TAKEN, ("write", 1, 4096, 4096), ("write", 1, 64, 640)], first=3)) == set()
    report = check("ctfs", [*TAKEN, ("write", 1, 100, 500)], first=3)
    assert kinds(report) == {DATA} and report.failures[0].before == "the next call"
    assert "data copy" in report.failures[0].lost[0] and "byte 96" in report.failures[0].wrong


def test_ctfs_stores_a_name_with_its_inode_in_one_epoch():
    def ordered(events):
        """A fence before the number of the inode is stored."""
        commits = [i for i, e in enumerate(events) if e.site == "directory" and e.code == STORE and e.addr % 256 == 0]
        return [one for i, e in enumerate(events) for one in ([FENCED, e] if i in commits else [e])]

    rows = [NEW, ("create", 2, 0, 0, 0), ("mkdir", 3, 0, 0, 0)]
    assert kinds(check("ctfs", rows)) == {BROKEN}
    assert kinds(check("ctfs", rows, change=ordered)) == set()


def test_ctfs_resizes_before_it_writes():
    """The size is ahead of the data, and for a moment that of the partition (inode_resize_lvl)."""
    report = check("ctfs", [NEW, ("write", 1, 0, 8192)], first=1)
    assert kinds(report) == {UNWRITTEN, SIZE, DATA}
    assert "has 2097152 bytes" in next(one.wrong for one in report.failures if one.kind == SIZE)


@pytest.mark.parametrize("broken", [(FENCE, "lock"), (FLUSH, "data copy"), (FLUSH, "page table"), (FLUSH, "inode")])
def test_ctfs_without_a_fence_or_a_write_back(broken):
    rows = [*TAKEN, ("write", 1, 64, 1000)]
    assert kinds(check("ctfs", rows, first=3)) == set()
    assert kinds(check("ctfs", rows, first=3, change=without(*broken)))


def test_ctfs_moves_a_file_and_takes_its_name():
    rows = [*TAKEN, ("write", 1, 3 * MIB, 4096), ("unlink", 1, 0, 0, 0)]
    assert NAME in kinds(check("ctfs", rows, first=4)), "unlink is not written back"
    assert UNWRITTEN not in kinds(check("ctfs", rows, {"update": "atomic"})), "data of atomic writes is not followed"


# SIMFS: nothing is written back


def flushed(events):
    """Each store is written back and fenced before the next."""
    out = []
    for event in events:
        back = [Event(FLUSH, *event[1:]), Event(FENCE, event.site, 0, 1, 0)] if event.code == STORE else []
        out += [event, *back]
    return out


@pytest.mark.parametrize("update", ["in-place", "atomic"])
def test_simfs_loses_what_was_synced(update):
    rows = [NEW, ("write", 1, 0, 9000), ("fsync", 1), ("write", 1, 100, 900), ("fsync", 1)]
    assert kinds(check("simfs", rows, {"update": update})) >= {BROKEN, NAME}
    assert kinds(check("simfs", rows, {"update": update}, change=flushed)) == set()


@pytest.mark.parametrize("site", ["page table", "inode", "directory", "data copy"])
def test_simfs_with_all_written_back_but_one(site):
    rows = [NEW, ("write", 1, 0, 9000), ("fsync", 1)]
    report = check("simfs", rows, change=lambda events: without(FLUSH, site)(flushed(events)))
    assert kinds(report) and report.failures[0].lost


# ext2, FAT: blocks in no order


def test_ext2_syncs_a_file_but_not_its_name():
    """The driver of ext2 (ext2-dax) leaves the directory to the write-back; that of ext4 stores it for a new name."""
    rows = [NEW, ("write", 1, 0, 8192), ("fsync", 1)]
    report = check("ext2-dax", rows)
    assert kinds(report) == {NAME} and report.failures[0].call == "fsync /d/file-1" and not report.failures[0].lost
    assert NAME not in kinds(check("ext2", rows))
    assert kinds(check("ext2-dax", [NEW, ("sync", 1), *rows[1:]], first=2)) <= {UNWRITTEN, DATA}


def test_ext2_blocks_that_were_handed_on():
    """The freed blocks of a file that a crash brings back are another's by then."""
    rows = [
        NEW,
        ("write", 1, 0, 20_000),
        ("sync", 1),
        ("unlink", 1, 0, 0, 0),
        ("create", 2, 0, 0, 0),
        ("write", 2, 0, 20_000),
        ("sync", 2),
    ]
    assert kinds(check("ext2", rows, first=3, samples=200)) & {SHARED, BROKEN, DATA}


@pytest.mark.parametrize("fs", ["ext2", "ext2-dax"])
def test_ext2_is_as_synced_once_a_sync_is_over(fs):
    rows = [NEW, ("write", 1, 0, 90_000), ("sync", 1), ("rename", 1), ("truncate", 1, 50_000), ("sync", 1), ("stat", 1)]
    assert kinds(check(fs, rows, first=6)) == set()
    assert kinds(check(fs, rows, first=5, change=without(FENCE, "metadata")))


@pytest.mark.parametrize("fs", ["fat-scm", "fat-nand"])
def test_fat_syncs_data_then_table_then_entry(fs):
    rows = [
        NEW,
        ("write", 1, 0, 5000),
        ("fsync", 1),
        ("write", 1, 5000, 3000),
        ("fsync", 1),
        ("rename", 1),
        ("sync", 1),
    ]
    assert kinds(check(fs, rows)) == set()

    def late(site):
        """The write-back of a mechanism's first blocks goes last."""

        def change(events):
            first = [event for event in events if event.site == site][:2]
            return [event for event in events if event not in first] + first

        return change

    assert kinds(check(fs, rows, change=late("write-back"))) == {UNWRITTEN}
    assert BROKEN in kinds(check(fs, rows, change=late("metadata write-back"))), "the entry before the table"


def test_fat_after_a_cluster_was_handed_on():
    rows = [
        NEW,
        ("write", 1, 0, 2000),
        ("fsync", 1),
        ("unlink", 1, 0, 0, 0),
        ("create", 2, 0, 0, 0),
        ("write", 2, 0, 2000),
        ("fsync", 2),
    ]
    report = check("fat-scm", rows)
    assert kinds(report) == {DATA} and "holds bytes of another unit or file" in report.failures[0].wrong


def test_ext2_on_the_driver_stores_the_name_before_the_inode():
    rows = [NEW, ("write", 1, 0, 90_000), ("fsync", 1)]
    assert kinds(check("ext2-scm", rows)) == {BROKEN}
    assert kinds(check("ext2-scm", [NEW, ("sync", 1), *rows[1:]], first=2)) == set()
    late = check("ext2-scm", rows, change=lambda events: sorted(events, key=lambda event: event.site == "write-back"))
    assert UNWRITTEN in kinds(late)


def test_the_command_counts_and_does_not_fail(tmp_path):
    path = tmp_path / "t.parquet"
    with TraceWriter(path, {"tool": "test"}) as writer:
        writer.append(drive.ops(NEW, ("write", 1, 0, 4096), ("fsync", 1)))
        writer.close(drive.files(0, -1, dirs=[0]))
    run = CliRunner().invoke(cli.main, ["crash", str(path), "--fs", "ext2-dax"], standalone_mode=False)
    assert run.return_value == 0 and "nothing is promised" in run.output
    assert "  1 lost or stale names" in run.output and "lost or stale names: call 2: fsync" in run.output
