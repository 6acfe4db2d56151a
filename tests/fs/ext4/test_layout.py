"""Whole random histories of `synth churn`: every extent and every free extent of ext4 and ext4-dax is where a real kernel has it.

The digests are of what Debian's Linux 6.1.0-56, 6.12.118 and 7.3.4 did in the lab's guests, one file system for each history (the
extents that `python -m tests.verification.churn_layouts --fs ext4,ext4-dax --seeds SEED:SEED+1 --kernel KERNEL -o FOLDER` stores).
"""

import hashlib

import numpy as np
import pytest

from scmsim.core.records import KEEP_SIZE, PUNCH_HOLE
from scmsim.study.layout import judge
from tests.fs import drive
from tests.verification import churn_layouts, layout_histories, layout_models

MEASURED = {
    # a punched hole splits an extent, for which the fifth one takes a leaf that stays
    301: "ead9c04448ceac5a",
    # a request for a hole is cut where an earlier look-up ended
    329: "b76eedc9ddc60149",
    336: "d89caba8b80613ec",
    # the order in which a commit frees runs decides which group is tried first
    311: "a7007ed117050c7a",
    326: "e65c7c73bdbe8922",
    # all of them, and a leaf that goes when its extents fit in the inode
    350: "44f4e648f1f2d4d5",
}
MEASURED_6_12 = {
    # 16 groups: by order and number, and the goal is shortened
    301: "a8f7efd59c9c1a8c",
    305: "1c8e2e489938f0e1",
    # fewer groups, in turn
    307: "f1d319fc34d6488c",
    308: "d474c5382c81ee08",
}
MEASURED_7_3 = {
    # a hole that ends with the file frees the file's last page
    303: "d1bae8a227cf1c72",
    307: "929b2021a7bf701d",
    317: "0bcbccd3825c5ac0",
}
# sparse histories of `python -m tests.verification.layout_cases --kernel 6.12 --seeds SEED:SEED+1 -o FOLDER`
SPARSE_6_12 = {5: "48880949fe8f4ff6", 9: "089938b4d625acc0"}


def digest_of(rows):
    """Return a digest of numbers."""
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:16]


def digest(fs, seed, kernel="6.1"):
    """Return a digest of a history's extents on the model of a kernel, those of directories left out."""
    source = churn_layouts.history(fs, seed)
    found = churn_layouts.of_model(fs, seed, churn_layouts.took(fs, source), kernel)
    is_dir = np.append(np.asarray(source.files.is_dir, bool), False)  # the last entry is for free extents
    rows = sorted(tuple(map(int, row)) for row in found[~is_dir[found["file"]]][list(judge.PLACED)])
    return digest_of(rows)


CACHED = {  # with the page cache
    305: "cb7831250bfaffe2",
    307: "3f614be3768b6b66",
    # more dirty pages at once than a kernel with the usual settings allows
    315: "bf194a0c1333961a",
    317: "e7e33d4b472206cc",
    # a journal of 16 MiB
    320: "ccd82201433aa47f",
}

# a hole is punched without storing its pages first
CACHED_6_12 = {301: "fef5ac6680bfee62", 307: "9725d9508dda8f2c"}
# write-back maps the rest of a folio on its own
CACHED_7_3 = {305: "a3613c1427dc2a13", 308: "6629683b8ba1cbeb"}


@pytest.mark.parametrize("seed", CACHED_6_12)
def test_extents_with_the_page_cache_are_those_of_linux_6_12(seed):
    assert digest("ext4", seed, "6.12") == CACHED_6_12[seed]


@pytest.mark.parametrize("seed", CACHED_7_3)
def test_extents_with_the_page_cache_are_those_of_linux_7_3(seed):
    assert digest("ext4", seed, "7.3") == CACHED_7_3[seed]


@pytest.mark.parametrize("seed", MEASURED_7_3)
def test_extents_of_a_random_history_are_those_of_linux_7_3(seed):
    assert digest("ext4-dax", seed, "7.3") == MEASURED_7_3[seed]


@pytest.mark.parametrize(
    ("kernel", "end", "pages"), [("6.18", 10_000, 2), ("7.3", 10_000, 1), ("7.3", 9_999, 2), ("6.18", 10_001, 1)]
)
def test_a_hole_that_ends_with_the_file_frees_its_last_page_from_linux_7_3_on(kernel, end, pages):
    model = drive.Model("ext4-dax", drive.files(0, -1, dirs=[0]), kernel=kernel)
    model.feed(drive.ops(("create", 1, 0, 0, 0), ("write", 1, 0, 10_000)))
    model.feed(drive.ops(("fallocate", 1, 4096, end - 4096, -1, KEEP_SIZE | PUNCH_HOLE)))
    assert model.space()["allocated_bytes"] == pages * 4096


@pytest.mark.parametrize("seed", CACHED)
def test_extents_with_the_page_cache_are_those_of_linux_6_1(seed):
    assert digest("ext4", seed) == CACHED[seed]


@pytest.mark.parametrize("seed", MEASURED)
def test_extents_of_a_random_history_are_those_of_linux_6_1(seed):
    assert digest("ext4-dax", seed) == MEASURED[seed]


@pytest.mark.parametrize("seed", MEASURED_6_12)
def test_extents_of_a_random_history_are_those_of_linux_6_12(seed):
    assert digest("ext4-dax", seed, "6.12") == MEASURED_6_12[seed]


@pytest.mark.parametrize("seed", SPARSE_6_12)
def test_extents_of_files_with_many_holes_are_those_of_linux_6_12(seed):
    """A hole ends with the file's last page, and the kernel remembers it, so that a later request is not cut at its borders."""
    history = layout_histories.make("sparse", seed)
    found = layout_models.of_model("ext4-dax", history, kernel="6.12")
    assert digest_of([layout_models.joined(found[path][2]) for path in history.paths]) == SPARSE_6_12[seed]
