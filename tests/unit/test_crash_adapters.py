"""Crash checks of single systems: the orders that their own mechanisms live by, broken one by one."""

import numpy as np

from scmsim import crash
from scmsim.records import FENCE
from tests.reference import drive
from tests.unit.test_crash import MIB, check

NEW = ("create", 1, 0, 0, 0)
ALIGNED = [NEW, ("fallocate", 1, 0, 2 * MIB), ("write", 1, 0, 8192)]  # WineFS: a file whose overwrites stay in place


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
