"""Inodes of XFS where free space is in pieces."""

from tests.fs import drive


def test_short_free_runs_in_front_do_not_stop_new_inodes() -> None:
    files, first = 300, 40
    side = drive.files(0, *[-1] * files, dirs=[0])
    model = drive.Model("xfs-dax", side)
    model.feed(drive.ops(*((name, file, 0, 4096, 0) for file in range(1, first) for name in ("create", "write"))))
    model.feed(drive.ops(*(("unlink", file, 0, 0, 0) for file in range(1, first, 2))))  # leave free blocks, one by one
    model.feed(drive.ops(*(("create", file, 0, 0, 0) for file in range(first, files + 1))))
    assert int(model.status[0]["failed"]) == 0
