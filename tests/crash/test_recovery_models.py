"""Crash checks of single systems: the orders that their own mechanisms live by, broken one by one."""

import dataclasses

import numpy as np
import pytest

from scmsim import crash
from scmsim.core.errors import UsageError
from scmsim.core.records import FENCE, FLUSH, NTSTORE, STORE
from tests.crash.test_crash import MIB, check, without
from tests.fs import drive

NEW = ("create", 1, 0, 0, 0)
ALIGNED = [NEW, ("fallocate", 1, 0, 2 * MIB), ("write", 1, 0, 8192)]  # WineFS: a file whose overwrites stay in place


@pytest.mark.parametrize("fs", ["pmfs-4k", "winefs"])
def test_a_record_as_long_as_that_of_a_new_directory(fs):
    """27 bytes, a name of 15 characters."""
    side = drive.files(0, -1, -1, dirs=[0])
    side = dataclasses.replace(side, path=["/d", "/d/load.db-journal", "/d/load.db-folders"])
    batch = drive.ops(NEW, ("write", 1, 0, 100), ("mkdir", 2, 0, 0, 0), ("fsync", 1))
    assert crash.check(drive.source(side, batch), fs, params={"capacity": "256MiB"}, samples=24).failures == []


def test_an_append_inside_a_word_is_no_change_of_what_precedes_it():
    assert check("winefs", [NEW, ("write", 1, 0, 7), ("write", 1, 7, 29), ("write", 1, 36, 17)]).failures == []


def test_winefs_writes_an_aligned_file_twice():
    """Both transactions of an overwrite keep the file, each call on another CPU's journal, across leaves of the tree too."""
    rows = [
        *ALIGNED,
        ("write", 1, 100, 9000),
        ("write", 1, 2 * MIB - 4096, 12_288),
        ("write", 1, 2 * MIB + 100, 20_000),
    ]
    batch = drive.ops(*rows)
    batch.thread = np.arange(len(rows))
    source = drive.source(drive.files(0, -1, dirs=[0]), batch)
    report = crash.check(source, "winefs", params={"capacity": "256MiB"}, samples=24)
    assert report.operations == len(rows) and report.failures == []


def test_winefs_in_place_before_the_fresh_blocks_are_committed():
    def early(events):
        """The second copy goes before the first."""
        again = [event for event in events if event.site == "second copy"]
        rest = [event for event in events if event.site != "second copy"]
        first = next((i for i, event in enumerate(rest) if event.site == "data copy"), 0)
        return rest[:first] + again + rest[first:]

    rows = [*ALIGNED, ("write", 1, 0, 8192)]
    assert check("winefs", rows, first=3).failures == []
    failure = check("winefs", rows, first=3, change=early).failures[0]
    assert failure.call == "write /d/file-1 0+8192" and "expected page" in failure.wrong


def test_winefs_second_commit_before_the_fence_of_the_second_copy():
    def early(events):
        last = max((i for i, event in enumerate(events) if event.site == "second copy"), default=len(events))
        commit = next((i for i in range(last, len(events)) if events[i].code == FENCE), -1)
        return [event for i, event in enumerate(events) if i != commit]

    failure = check("winefs", [*ALIGNED, ("write", 1, 0, 8192)], first=3, change=early).failures[0]
    assert failure.lost and "expected page" in failure.wrong


def test_winefs_tears_what_it_writes_in_place():
    """A write inside one block of an aligned file, and of a file that is one block, has no copy (xip.c)."""
    for rows in ([*ALIGNED, ("write", 1, 100, 200)], [NEW, ("write", 1, 0, 4096), ("write", 1, 512, 1024)]):
        report = check("winefs", rows)
        assert (
            report.failing_operations == 1 and report.failures[0].call == f"write /d/file-1 {rows[-1][2]}+{rows[-1][3]}"
        )
    assert check("winefs", [NEW, ("write", 1, 0, 8192), ("write", 1, 512, 1024)]).failures == []


BIG = [
    NEW, ("write", 1, 0, 3 * MIB), ("write", 1, 3 * MIB, 2 * MIB), ("close", 1), ("create", 2, 0, 0, 0), ("write", 2, 0, 5000),
    ("truncate", 1, MIB), ("unlink", 1, 0, 0, 0), ("write", 2, 5000, MIB),
]  # fmt: skip


@pytest.mark.parametrize("fs", ["scmfs", "scmfs-lp"])
def test_scmfs_keeps_names_sizes_and_page_tables(fs):
    """Across a move to a larger range, a migration to superpages, and a file that takes over a null file's pages."""
    assert check(fs, BIG).failures == []
    names = [NEW, ("link", 1, 0, 0, 0), ("unlink", 1, 0, 0, 0), ("mkdir", 3, 0, 0, 0), ("rmdir", 3, 0, 0, 0)]
    assert check(fs, [*names, ("create", 3, 0, 0, 0), ("write", 3, 0, 70_000)]).failures == []


def test_scmfs_lp_switches_only_to_entries_that_arrived():
    """The moved file's second write needs the entries that the migration hung."""
    report = check("scmfs-lp", BIG, change=without(FLUSH, "page table"), first=1, failures=1)
    assert report.failures[0].lost and "not mapped" in report.failures[0].wrong


def test_scmfs_inode_before_the_entries_of_its_pages():
    def early(events):
        """The size goes before everything else of a write."""
        at = next((i for i, event in enumerate(events) if event.site == "inode" and event.code == STORE), 0)
        return events[at:] + events[:at]

    rows = [NEW, ("write", 1, 0, 8192)]
    failure = check("scmfs", rows, first=1, change=early).failures[0]
    assert "its size covers page 0, which is not mapped" in failure.wrong


def test_scmfs_rename_is_two_steps():
    """The old record goes before the new one comes (a reconstruction: the paper says nothing of it)."""
    report = check("scmfs", [NEW, ("rename", 1)])
    assert report.failing_operations == 1 and "has no name" in report.failures[0].wrong


def test_simfs_orders_nothing_at_all():
    """That is why there is nothing to check."""
    from scmsim.fs.engine.model import Model
    from scmsim.fs.recovery.observe import observe
    from scmsim.pipeline import model_params

    for update in ("in-place", "atomic"):
        given = model_params("fs", "simfs", {"capacity": "256MiB", "update": update})
        model = Model("simfs", given, drive.files(0, -1, dirs=[0]))
        batch = drive.ops(NEW, ("write", 1, 0, 8192), ("write", 1, 100, 50), ("fsync", 1), ("close", 1))
        events = [event for i in range(len(batch)) for event in observe(model, batch[i : i + 1])[0]]
        assert events and not any(event.code in (FLUSH, FENCE) for event in events)


def test_xfs_needs_the_flush_before_a_checkpoint():
    """Else the checkpoint that has a file's size may be there without its data, and show what was never written.

    Without the fence of the copy, that is, which orders the data already when it is there.
    """

    def late(events):
        first = next((i for i, event in enumerate(events) if (event.code, event.site) == (NTSTORE, "log")), 0)
        return [event for i, event in enumerate(events) if i != first - 1 or event.code != FENCE]

    rows = [NEW, ("write", 1, 0, 8192), ("fsync", 1)]
    unfenced = {"copy_fence": 0}
    assert check("xfs-dax", rows, unfenced).failures == check("xfs-dax", rows, change=late).failures == []
    assert "bytes never written" in check("xfs-dax", rows, unfenced, change=late).failures[0].wrong


def test_xfs_writes_back_the_ends_of_an_unaligned_copy():
    rows = [NEW, ("write", 1, 3, 100), ("fsync", 1)]
    assert check("xfs-dax", rows).failures == []
    failure = check("xfs-dax", rows, change=without(FLUSH, "copy")).failures[0]
    assert failure.call == "fsync /d/file-1" and len(failure.lost) == 1 and "byte 96" in failure.wrong


OBJECTS = [NEW, ("write", 1, 0, 9000), ("write", 1, 20_000, 700), ("fallocate", 1, 0, 30_000), ("truncate", 1, 40_000)]
OBJECTS += [
    ("mkdir", 3, 0, 0, 0),
    ("rmdir", 3, 0, 0, 0),
    ("unlink", 1, 0, 0, 0),
    NEW,
    ("write", 1, 5, 600),
    ("fsync", 1),
]


def test_scm_manager_stores_sizes_and_names_last():
    assert check("scm-manager", OBJECTS).failures == []


@pytest.mark.parametrize(
    ("site", "call", "wrong"),
    [("inode", "write", "its size covers data objects"), ("directory", "create", "no metadata object")],
)
def test_scm_manager_stores_them_too_early(site, call, wrong):
    def early(events):
        """The last store of the mechanism, and the fence that stands for the board's order, go first."""
        at = [i for i, event in enumerate(events) if event.site == site and event.code == NTSTORE]
        return events[at[-1] : at[-1] + 2] + events[: at[-1]] + events[at[-1] + 2 :] if at else events

    failure = check("scm-manager", OBJECTS[:2], change=early).failures[0]
    assert failure.call.startswith(call) and wrong in failure.wrong


def test_scm_manager_truncates_and_renames_in_two_steps():
    """The reconstruction gives data objects back before the size changes, and takes the old name away before the new one comes."""
    report = check("scm-manager", [*OBJECTS[:2], ("truncate", 1, 100)])
    assert report.failing_operations == 1 and "which a truncate has freed" in report.failures[0].wrong
    assert "has no name" in check("scm-manager", [NEW, ("rename", 1)]).failures[0].wrong


def test_scm_manager_refuses_what_it_does_not_check():
    with pytest.raises(UsageError, match="'link'.*not checked for 'scm-manager'"):
        check("scm-manager", [NEW, ("link", 1, 0, 0, 0)])


def test_ext4_writes_data_back_before_the_commit():
    """Else the commit has the file's old size; what the page cache holds is lost."""
    rows = [NEW, ("write", 1, 0, 8192), ("fsync", 1)]
    assert check("ext4", rows).failures == []
    late = check("ext4", rows, change=lambda events: sorted(events, key=lambda event: event.site == "writeback"))
    assert "has 0 bytes, expected 8192" in late.failures[0].wrong
    lost = check("ext4", rows, change=lambda events: [event for event in events if event.site != "writeback"])
    assert "fsync" in lost.failures[0].call


SMALL = [
    NEW,
    ("write", 1, 0, 9000),
    ("fsync", 1),
    ("write", 1, 100, 5000),
    ("fsync", 1),
    ("truncate", 1, 4096),
    ("fsync", 1),
]


@pytest.mark.parametrize(
    ("fs", "params", "broken"),
    [
        ("pmfs-1g", {}, [(FLUSH, "data copy"), (FLUSH, "journal")]),
        ("pmfs-1g", {"data_path": "cow"}, [(FENCE, "journal")]),
        ("vsm-1g", {}, [(FENCE, "mcow data"), (FLUSH, "mcow log"), (FLUSH, "mcow swap")]),
    ],
)
def test_blocks_of_1_gib(fs, params, broken):
    """The pages of a block that its file reaches are followed, what was cleared behind them as pieces."""
    given = {"capacity": "6GiB", **params}
    assert check(fs, SMALL, given).failures == []
    for code, site in broken:
        assert check(fs, SMALL, given, without(code, site), failures=1).failures[0].lost


def test_a_migration_exchanges_entries_of_2_mib_at_once():
    rows = [NEW, ("write", 1, 0, 3 * MIB), ("close", 1), ("write", 1, 3 * MIB, 8192), ("fsync", 1)]
    assert check("vsm-1g", rows, {"capacity": "6GiB"}, first=2).failures == []
    report = check("vsm-1g", rows, {"capacity": "6GiB"}, without(FLUSH, "zfdm swap"), first=2, failures=1)
    assert "zfdm swap" in " ".join(report.failures[0].lost)


APPENDS = [
    NEW, ("write", 1, 0, 8192), ("write", 1, 8192, 4096), ("fsync", 1), ("write", 1, 12_288, 8192), ("close", 1),
    ("write", 1, 0, 4096), ("fsync", 1), ("create", 2, 0, 0, 0), ("rename", 1), ("mkdir", 3, 0, 0, 0), ("unlink", 2), ("sync", 1),
]  # fmt: skip


@pytest.mark.parametrize("mode", ["sync", "strict"])
def test_splitfs_replays_its_logs(mode):
    given = {"mode": mode}
    assert check("splitfs", APPENDS, given).failures == []
    entry = check("splitfs", APPENDS, given, without(FENCE, "operation log"), failures=1).failures[0]
    assert "operation log" in entry.lost[0] and "no name" in entry.wrong
    early = check("splitfs", APPENDS, given, without(FENCE, "lock"), failures=1).failures[0]
    assert early.call.startswith("write") and "bytes never written" in early.wrong


def test_splitfs_commits_nothing_at_an_fsync():
    """What has no log entry is lost: names in posix mode, truncates in every mode."""
    posix = check("splitfs", [NEW, ("write", 1, 0, 8192), ("fsync", 1)])
    assert posix.failures[0].call == "fsync /d/file-1" and "has no name" in posix.failures[0].wrong
    assert check("splitfs", [NEW, ("sync", 1), ("write", 1, 0, 8192), ("fsync", 1)]).failures == []
    cut = check("splitfs", [NEW, ("write", 1, 0, 8192), ("truncate", 1, 100)], {"mode": "strict"})
    assert cut.failures[0].call == "truncate /d/file-1 100" and "has 8192 bytes" in cut.failures[0].wrong


def test_pmfs_clears_only_4_kib_behind_a_cut():
    """pmfs_block_truncate_page clears to the end of a page of 4 KiB, whatever the block: a file that grows shows old bytes."""
    rows = [
        NEW,
        ("write", 1, 0, 20_000),
        ("truncate", 1, 888),
        ("fsync", 1),
        ("fallocate", 1, 8192, 8192),
        ("fsync", 1),
    ]
    assert check("pmfs-4k", rows).failures == []
    failure = check("pmfs-2m", rows).failures[0]
    assert not failure.lost and "byte 4096 holds page 1 of operation 1" in failure.wrong
