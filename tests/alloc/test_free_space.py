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
