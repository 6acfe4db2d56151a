"""The layout of an empty file system against the reference of mke2fs, which equals the real one's free runs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.fs.linux import mke2fs
from tests.reference.ext4_layout import mkfs

EXT2 = frozenset({"ext_attr", "resize_inode", "dir_index", "filetype", "sparse_super", "large_file"})
GROUP = 32768


def free_of(layout):
    """Each group's free blocks, as bytes of 0 and 1 like those of the reference."""
    used = bytearray(layout.blocks)
    for start, count in layout.used:
        used[start : start + count] = b"\1" * min(count, layout.blocks - start)
    return [used[at : at + GROUP] for at in range(0, layout.blocks, GROUP)]


def compare(mib, is_ext2):
    blocks = mib << 8
    mine = mke2fs.layout(blocks, 0 if is_ext2 else mke2fs.default_journal(blocks), is_ext2=is_ext2)
    options = mkfs.Mkfs(mib << 20, features=EXT2) if is_ext2 else mkfs.Mkfs(mib << 20)
    disk = mkfs.make(options)
    assert (mine.blocks, mine.root) == (disk.blocks, disk.root_block)
    assert mine.fields["group_inodes"] == disk.inodes_per_group
    if not is_ext2:
        assert mine.stored == [number for number, group in enumerate(disk.groups) if not group.block_uninit]
    assert free_of(mine) == [bytearray(group.bitmap) for group in disk.groups]


@settings(deadline=None, max_examples=15)
@pytest.mark.parametrize("is_ext2", [False, True])
@given(mib=st.integers(16, 192).map(lambda n: 64 * n) | st.sampled_from([40, 64, 100, 128, 200, 300, 400, 1000, 17408]))
def test_every_free_block_is_where_mke2fs_leaves_it(mib, is_ext2):
    compare(mib, is_ext2)


@pytest.mark.parametrize("blocks", [1 << 15, 1 << 18, 1 << 20])
def test_a_chosen_journal_takes_its_blocks(blocks):
    layout = mke2fs.layout(blocks, 2048)
    assert sum(count for _, count in layout.used) == layout.fields["fixed_blocks"] + 1
    assert layout.fields["journal_blocks"] == 2048
