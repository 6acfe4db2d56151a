"""Whole random histories of `synth churn`: every extent and every free extent of ext4 and ext4-dax is where a real kernel has it.

The digests are of what Debian's Linux 6.1.0-56 did in the lab's guests, one file system for each history (the extents that
`python -m tests.verification.churn_layouts --fs ext4,ext4-dax --seeds SEED:SEED+1 -o FOLDER` stores).
"""

import hashlib

import numpy as np
import pytest

from scmsim.study.layout import judge
from tests.verification import churn_layouts

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


def digest(fs, seed):
    """Return a digest of a history's extents on a model, those of directories left out."""
    source = churn_layouts.history(fs, seed)
    found = churn_layouts.of_model(fs, seed, churn_layouts.took(fs, source))
    is_dir = np.append(np.asarray(source.files.is_dir, bool), False)  # the last entry is for free extents
    rows = sorted(tuple(map(int, row)) for row in found[~is_dir[found["file"]]][list(judge.PLACED)])
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:16]


CACHED = {  # with the page cache
    305: "cb7831250bfaffe2",
    307: "3f614be3768b6b66",
    # more dirty pages at once than a kernel with the usual settings allows
    315: "bf194a0c1333961a",
    317: "e7e33d4b472206cc",
    # a journal of 16 MiB
    320: "ccd82201433aa47f",
}


@pytest.mark.parametrize("seed", CACHED)
def test_extents_with_the_page_cache_are_those_of_linux_6_1(seed):
    assert digest("ext4", seed) == CACHED[seed]


@pytest.mark.parametrize("seed", MEASURED)
def test_extents_of_a_random_history_are_those_of_linux_6_1(seed):
    assert digest("ext4-dax", seed) == MEASURED[seed]
