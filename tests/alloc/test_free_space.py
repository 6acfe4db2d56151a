"""Free space as a report tells it: the region of superpages counts, what delayed allocation promised does not."""

import numpy as np
import pytest

from scmsim.alloc import contiguity
from tests.fs import drive

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize("fs", ["scmfs", "scmfs-lp", "ctfs", "fat-nand", "fat-scm", "ext2-scm"])
def test_an_almost_empty_device_is_almost_all_free(fs):
    model = drive.Model(fs, drive.files(0, -1, dirs=[0]), capacity="1GiB")
    model.feed(drive.ops(("create", 1), ("write", 1, 0, 4096)))
    space = model.space()
    assert space["capacity_bytes"] * 95 // 100 < space["free_bytes"] <= space["capacity_bytes"] - 4096
    assert space["largest_free_bytes"] > GIB // 4 and space["free_2m_bytes"] > space["free_bytes"] - 8 * MIB


def test_promised_blocks_are_not_free():
    model = drive.Model("ext4", drive.files(0, -1, dirs=[0]), capacity="1GiB")
    model.feed(drive.ops(("create", 1)))
    before = model.space()["free_bytes"]
    model.feed(drive.ops(("write", 1, 0, 64 * MIB)))
    assert model.space()["promised_bytes"] == 64 * MIB and model.space()["free_bytes"] == before - 64 * MIB


def test_a_full_device_promises_the_blocks_of_preallocation_windows():
    model = drive.Model("ext4", drive.files(0, -1, 100_000, 1, dirs=[0]), capacity=7 * MIB)
    model.feed(drive.ops(("create", 1), ("write", 1, 0, 4096), ("fsync", 1), ("write", 2, 0, 3 * MIB)))
    space = model.space()
    assert int(model.record.short) == 1 and space["promised_bytes"] > space["free_bytes"] == 0
    assert space["preallocated_bytes"] == 4096 * int(model.record.kept_blocks) > 0  # for extent trees alone
    assert space["preallocated_bytes"] + space["allocated_bytes"] + space["metadata_bytes"] == 7 * MIB


def test_neighbouring_runs_are_one():
    start, length = contiguity.joined(np.array([10, 0, 30, 5]), np.array([10, 4, 1, 5]))
    assert list(zip(start.tolist(), length.tolist(), strict=True)) == [(0, 4), (5, 15), (30, 1)]


def test_aligned_space_of_small_blocks_counts_from_the_device_s_beginning():
    """4096 blocks of 512 bytes make an aligned 2 MiB; the SCM manager's buddy system has no runs to tell of."""
    assert contiguity.of_runs(np.array([4095]), np.array([4097]), 512)["free_2m_bytes"] == 2 * MIB
    assert contiguity.of_runs(np.array([4097]), np.array([8190]), 512)["free_2m_bytes"] == 0
    assert contiguity.histogram(np.array([3]), 512) == {1024: 1}
    assert set(contiguity.of_runs(*2 * [np.zeros(0, np.int64)]).values()) == {0}  # of a full device
    assert "free_bytes" not in drive.Model("scm-manager", drive.files(0, dirs=[0]), capacity="8MiB").space()


def test_free_runs_of_a_model_s_bitmaps():
    """100 of 300 blocks are tracked; those behind are free, the rest of the last word with them."""
    fields = [("tracked", "i8"), ("blocks", "i8"), ("bits", "i8")]
    arena = np.array([7, 0b1011, 1 << 35, 9], np.int64)
    runs = [(0, 2), (3, 1), (99, 201)]
    for blocks, tail in ((300, 201), (129, 30), (128, 29), (110, 11), (100, 1)):
        record = np.array((100, blocks, 1), fields)
        start, length, block = contiguity.of_model(record, arena)
        assert list(zip(start.tolist(), length.tolist(), strict=True)) == [*runs[:2], (99, tail)] and block == 4096
    record = np.array((128, 128, 1), fields)
    assert contiguity.of_model(record, arena)[1].tolist() == [2, 1, 1]
    lent = np.array((100, 300, 1, 4, 2), [*fields, ("stack", "i8"), ("free_supers", "i8")])
    start, length, block = contiguity.of_model(lent, np.array([*arena, 1024, 300], np.int64))
    assert (
        list(zip(start.tolist(), length.tolist(), strict=True)) == [*runs[:2], (99, 201 + 512), (1024, 512)]
        and block == 4096
    )
    own = np.array((100, 100, 1, 1 << 20, 9), [*fields, ("origin", "i8"), ("shift", "i8")])
    start, length, block = contiguity.of_model(own, arena)
    assert list(zip(start.tolist(), length.tolist(), strict=True)) == [(2048, 2), (2051, 1), (2147, 1)] and block == 512
    assert contiguity.of_model(np.array((100, 0, 1), fields), arena) is None


def test_runs_by_the_power_of_two_below_their_length():
    assert contiguity.histogram(np.array([1, 2, 3, 4, 1023, 1024])) == {
        4096: 1,
        8192: 2,
        16384: 1,
        512 * 4096: 1,
        1024 * 4096: 1,
    }
    told = contiguity.of_runs(np.array([512, 1000, 2047]), np.array([1, 700, 1026]))
    assert told == {"free_bytes": 1727 * 4096, "free_2m_bytes": 3 << 21, "largest_free_bytes": 1026 * 4096}
