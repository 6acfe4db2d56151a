"""Order in which ext4's driver frees the blocks of an ext2 file, and whole random histories beside a real kernel.

The digests are of what Debian's Linux 6.1.0-56, 6.12.118 and 6.18.15 did in the lab's guests
(`python -m tests.verification.churn_layouts --fs ext2-dax --seeds SEED:SEED+1 --kernel KERNEL -o FOLDER`).  On 6.1 only the seed
346 was used to find a rule.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scmsim.fs.ext2 import ext4_driver
from tests.conftest import NO_JIT
from tests.fs.ext2.reference import way
from tests.fs.ext4.test_layout import digest

MEASURED = {346: "e71b191679e13d46", 326: "e16c79159dab7b68", 355: "7e885f4879e6eeb4"}
MEASURED_6_12 = {
    # a request below an existing pointer block, in a hole that is remembered
    304: "7e0a2148f4fce42f",
    307: "d417a31c672b6cd7",
    # a truncation forgets the hole
    309: "02f1b2546836e72c",
}
MEASURED_6_18 = {304: "1c7e5dafae2fff93", 307: "7686f4bb817fecac"}  # no hole is remembered, so both differ from 6.12


def freed(page, end):
    """Return the pages [page, end) in the order of ext4_ind_truncate: depth first, children of a block from the last one on.

    The block on the way to `page` loses its end first; whole branches of the inode come in the order of its pointers.
    """
    above = {}  # pointer block -> its pages, in order
    for number in range(page, end):
        above.setdefault((way(number) or [("inode",)])[-1], []).append(number)
    shared = (way(page) or [("inode",)])[-1]
    is_whole = page == 12 or page == 12 + 1024  # the first page of a branch of the inode: all of the branch goes
    found = above.pop(shared, []) if not is_whole or len(shared) == 1 else []
    found += above.pop(("single",), [])
    return found + [number for block in reversed([*above]) for number in above[block]]


@pytest.mark.skipif(not NO_JIT, reason="a subroutine is compiled into its kernel only")
@given(
    st.integers(0, 5000) | st.sampled_from([0, 11, 12, 13, 1035, 1036, 1037, 2059, 2060, 2061]), st.integers(0, 5000)
)
def test_pages_lose_their_blocks_in_the_order_of_the_pointers(page, count):
    end, found = page + count, []
    start, stop = ext4_driver.piece_after(page, end, 0, 0)
    while start < stop:
        found += range(start, stop)
        start, stop = ext4_driver.piece_after(page, end, start, stop)
    assert found == freed(page, end)


@pytest.mark.parametrize("seed", MEASURED)
def test_extents_of_a_random_history_are_those_of_linux_6_1(seed):
    assert digest("ext2-dax", seed) == MEASURED[seed]


@pytest.mark.parametrize("seed", MEASURED_6_12)
def test_extents_of_a_random_history_are_those_of_linux_6_12(seed):
    assert digest("ext2-dax", seed, "6.12") == MEASURED_6_12[seed]


@pytest.mark.parametrize("seed", MEASURED_6_18)
def test_extents_of_a_random_history_are_those_of_linux_6_18(seed):
    assert digest("ext2-dax", seed, "6.18") == MEASURED_6_18[seed]
