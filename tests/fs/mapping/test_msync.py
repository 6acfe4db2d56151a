"""An msync that goes on in another buffer of events."""

import itertools

import pytest

from scmsim.core import records as r
from tests.fs import drive

PAGES = 8  # of each mapping


@pytest.mark.parametrize("fs", ["nova-cow", "pmfs-4k", "ext4-dax"])
def test_several_mappings_are_each_begun_once(fs):
    """The first has nothing to write back, so all that tells that it is done is where the msync goes on."""
    model = drive.Model(fs, drive.files(0, 2 * PAGES << 12, dirs=[0]))
    shared = r.WRITABLE_SHARED
    rows = [("mmap", 1, PAGES * k << 12, PAGES << 12, -1, shared) for k in range(2)] + [("store", 1, PAGES << 12, 8)]
    model.feed(drive.ops(*rows))
    buffers = list(itertools.islice(model.events(drive.ops(("msync", 1, 0, 2 * PAGES << 12))), 20))
    assert len(buffers) < 20  # else it has no end
    assert (
        drive.persistent(model.feed(drive.ops(("msync", 1, 0, 2 * PAGES << 12))), model.sites)["flushes"].total() == 0
    )
