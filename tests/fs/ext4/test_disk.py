"""Where crash checks read in the state of a model where each page lies (scmsim.fs.linux.disk)."""

import pytest

from scmsim.core.records import FLUSH, NTSTORE, PM, STORE
from scmsim.fs.linux.disk import Disk
from tests.fs import drive


@pytest.mark.parametrize("fs", ["ext4-dax", "ext2-dax", "xfs-dax"])
def test_pages_lie_where_a_write_has_stored_them(fs):
    """Of a file with a hole; one that is gone, and one that never was, have none."""
    model = drive.Model(fs, drive.files(0, -1, -1, -1, dirs=[0]))
    disk = Disk(model.state, 4)
    model.feed(drive.ops(*[(op, file, 0, 0, 0) for op in ("create",) for file in (1, 2)], ("write", 2, 0, 4096)))
    disk.look()
    assert set(disk.inode) == {0, 1, 2} and list(disk.pages[2]) == [0] and disk.folder[2] == 0
    events = model.feed(drive.ops(("write", 1, 8192, 12_288), ("write", 1, 8192, 12_288)))
    copied = events[(events.site == model.sites.index("copy")) & (events.space == PM) & (events.code != FLUSH)]
    stored = copied[(copied.code == NTSTORE) | (copied.code == STORE)]
    blocks = sorted(
        {
            int(at) // 4096 + k
            for at, length in zip(stored.addr, stored.length, strict=True)
            for k in range(length // 4096)
        }
    )
    disk.look()
    assert disk.pages[1] == dict(enumerate(blocks, 2)) and len(set(disk.inode.values())) == 3
    assert all(disk.owner[block] == (1, page) for page, block in disk.pages[1].items())
    model.feed(drive.ops(("unlink", 2, 0, 0, 0)))
    disk.look()
    assert set(disk.inode) == {0, 1} and not disk.pages[2] and not disk.pages[3]
