"""What SplitFS stores, by its own description: an append in a staging file, a 64-byte entry, no kernel; fsync relinks."""

import pytest

from tests.fs import drive


def run(mode, *rows, **params):
    """(model, what the rows after the first two did to persistent memory)."""
    model = drive.Model("splitfs", drive.files(0, -1, dirs=[0]), mode=mode, **params)
    model.feed(drive.ops(("create", 1, 0, 0, 0), ("write", 1, 0, 8192), ("fsync", 1)))
    return model, drive.persistent(model.feed(drive.ops(*rows)), model.sites)


@pytest.mark.parametrize("mode", ["posix", "sync", "strict"])
def test_an_append_is_one_copy_and_one_entry(mode):
    """Every byte once, 64 bytes of log, one fence, nothing zeroed while the first staging file lasts."""
    _, found = run(mode, ("write", 1, 8192, 4096))
    assert found["stored"] == {"user copy": 4096, "operation log": 64}
    assert sum(found["fences"].values()) == 1 and not found["flushes"]


def test_staging_files_are_filled_before_their_use():
    """Each byte of a later staging file is written once more (clean_dr_mmap)."""
    _, found = run("posix", ("write", 1, 8192, 4096), staging=8192)
    assert found["stored"] == {"user copy": 4096, "operation log": 64, "staging": 4096}


@pytest.mark.parametrize(
    ("mode", "stored", "fences"),
    [
        ("posix", {"user copy": 4096}, 1),
        ("sync", {"user copy": 4096}, 1),
        ("strict", {"user copy": 4096, "operation log": 64}, 2),
    ],
)
def test_an_overwrite_in_each_mode(mode, stored, fences):
    _, found = run(mode, ("write", 1, 0, 4096))
    assert found["stored"] == stored and sum(found["fences"].values()) == fences


def test_an_fsync_relinks_and_commits_nothing():
    """No data is copied and the journal is not written; the metadata waits for the next commit."""
    model, found = run("posix", ("write", 1, 8192, 65536), ("fsync", 1))
    assert found["stored"] == {"user copy": 65536, "operation log": 64}
    assert model.space()["relinks"] == 2 and model.space()["commits"] == 0 and model.record.txn_blocks > 0


def test_part_of_a_page_that_was_overwritten_is_copied_by_the_relink():
    _, found = run("strict", ("write", 1, 100, 1000), ("fsync", 1))
    assert found["stored"]["user copy"] == 1000 and found["stored"]["relink"] == 1000


@pytest.mark.parametrize(("mode", "entries"), [("posix", 0), ("sync", 2), ("strict", 2)])
def test_names_have_entries_in_the_operation_log(mode, entries):
    _, found = run(mode, ("rename", 1), ("truncate", 1, 4096), ("stat", 1), ("unlink", 1, 0, 0, 0))
    assert found["stored"]["operation log"] == 64 * entries
