"""Bytes that are cleared after the end of a file that grows, beside write-backs that the lab counted on Linux 6.1 and 7.3."""

import pytest

import scmsim
from scmsim.core.records import KEEP_SIZE
from tests.fs import drive

FILES = 64
# Of four files each: (write after the end of the page, write after the end, truncate to more, truncate to less); fallocate.
SMALL = {"write": 16, "truncate": 912}
LARGE = {"write": 1051, "truncate": 1686}


def counted(fs, kernel, *calls):
    """Return the write-backs of each kind of call, on 64 files of 1,000 bytes and more; `calls` are repeated over the files."""
    side = drive.files(0, *(1000 + i for i in range(1, FILES + 1)), dirs=[0])
    rows = [(name, i, *rest) for i in range(1, FILES + 1) for name, *rest in [calls[i % len(calls)]]]
    run = scmsim.replay(drive.source(side, drive.ops(*rows)), fs, params={fs: {"kernel": kernel}}, by="op").runs[0]
    return {name: int(group.get("flushes", 0)) for name, group in run.groups.items()}


@pytest.mark.parametrize(
    ("fs", "kernel", "wanted"),
    [
        ("ext4-dax", "6.1", SMALL),
        ("ext2-dax", "6.1", SMALL),
        ("xfs-dax", "6.1", LARGE),
        ("ext4-dax", "7.3", LARGE),
        ("ext2-dax", "7.3", LARGE),
        ("xfs-dax", "7.3", LARGE),
    ],
)
def test_the_last_block_is_cleared_before_a_file_grows(fs, kernel, wanted):
    found = counted(
        fs, kernel, ("write", 20_000, 4096), ("write", 2000, 500), ("truncate", 9000, 0), ("truncate", 500, 0)
    )
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("fs", "kernel", "wanted"), [("ext4-dax", "6.1", 0), ("xfs-dax", "6.1", 3095), ("ext4-dax", "7.3", 3095)]
)
def test_a_fallocate_that_lets_a_file_grow_clears_its_last_block(fs, kernel, wanted):
    assert counted(fs, kernel, ("fallocate", 8192, 20_000), ("fallocate", 0, 20_000)) == {"fallocate": wanted}


@pytest.mark.parametrize("kernel", ["6.12", "6.18"])
def test_ext4_clears_only_from_linux_7_3_on(kernel):
    assert counted("ext4-dax", kernel, ("write", 20_000, 4096)) == {"write": 0}
    assert counted("xfs-dax", kernel, ("write", 20_000, 4096))["write"] > 40 * FILES


@pytest.mark.parametrize(
    "row",
    [
        ("fallocate", 1, 8192, 20_000, -1, KEEP_SIZE),  # the file does not grow
        ("write", 2, 20_000, 4096),  # the last block is full
        ("write", 3, 20_000, 4096),  # the file is empty
    ],
)
def test_nothing_is_cleared_without_growth_or_a_part_of_a_block(row):
    side = drive.files(0, 1000, 4096, 0, dirs=[0])
    assert scmsim.replay(drive.source(side, drive.ops(row)), "xfs-dax").runs[0].counters["flushes"] == 0
