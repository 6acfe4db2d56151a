"""Lay out the metadata of an ext4 or ext2 file system as mke2fs does.

Units: blocks of 4096 bytes.  Source: e2fsprogs 1.47 misc/mke2fs.c (calc_reserved_gdt_blocks, main), misc/mke2fs.conf,
lib/ext2fs/{initialize.c, alloc_tables.c, mkjournal.c: get_midpoint_journal_block, ext2fs_default_journal_size}.
"""

from dataclasses import dataclass

from scmsim.jit import kernel

GROUP_BLOCKS = 32768
INODES_PER_BLOCK = 16  # 256-byte inodes
POINTERS = 1024  # pointers in an indirect block, and maximum number of descriptor blocks that the resize inode reserves
FLEX_SHIFT = 4  # log2 of the groups whose bitmaps and inode tables are in their first group
LOST_FOUND = 4  # blocks of lost+found (16 KiB)
SMALL = 1 << 17  # blocks: below 512 MiB, mke2fs makes more inodes
LEAST_LAST = 50  # blocks: mke2fs omits a last group that has fewer blocks than this besides its metadata


@dataclass(frozen=True)
class Layout:
    """Places of the metadata of an empty file system.

    Attributes
    ----------
    blocks : int
        Blocks of the file system: the blocks of the device without a last group that is too small.
    fields : dict[str, int]
        Values of the state record's fields that describe the layout.
    used : list[tuple[int, int]]
        First block and number of blocks of each range that is in use.
    root : int
        Block of the root directory.
    stored : list[int]
        Groups whose bitmaps of blocks mke2fs stores; the kernel computes the others.
    """

    blocks: int
    fields: dict[str, int]
    used: list[tuple[int, int]]
    root: int
    stored: list[int]


def default_journal(blocks: int) -> int:
    """Return the journal size, in blocks, that mke2fs chooses for a device of `blocks` blocks (ext2fs_default_journal_size)."""
    steps = ((32768, 1024), (1 << 18, 4096), (1 << 19, 8192), (1 << 22, 16384), (1 << 23, 32768), (1 << 24, 65536))
    for limit, journal in (*steps, (1 << 25, 131072)):
        if blocks < limit:
            return journal
    return 262144


@kernel
def has_backup(group):
    """Return whether a group starts with a copy of the superblock: groups 0, 1 and powers of 3, 5 and 7 (sparse_super)."""
    if group < 2:
        return True
    for base in (3, 5, 7):
        power = base
        while power < group:
            power *= base
        if power == group:
            return True
    return False


@kernel
def bitmap_stride(shift, groups, first):
    """Return the distance, in blocks, from the block bitmaps to the inode bitmaps of the flex group from group `first` on."""
    count = min(groups - first, 1 << shift)
    return count if count != 1 else 1 << shift


def layout(blocks: int, journal: int, *, is_ext2: bool = False) -> Layout:
    """Return the layout of a device of `blocks` blocks with a journal of `journal` blocks (0: none)."""
    blocks = max(blocks, 1)
    shift, descriptors = (0, 128) if is_ext2 else (FLEX_SHIFT, 64)
    groups = _ceil(blocks, GROUP_BLOCKS)
    inode_blocks = _inode_blocks(blocks, groups)
    backup = _backup_blocks(blocks, groups, descriptors)
    last = blocks % GROUP_BLOCKS
    if groups > 1 and last and last < 3 + inode_blocks + LEAST_LAST + (backup if has_backup(groups - 1) else 0):
        inode_blocks = _inode_blocks(blocks, groups - 1)
        blocks, groups = blocks - last, groups - 1
        backup = _backup_blocks(blocks, groups, descriptors)
    used = [(group * GROUP_BLOCKS, backup) for group in range(groups) if has_backup(group)]
    stored = set(range(groups)) if is_ext2 else {groups - 1}
    for first in range(0, groups, 1 << shift):
        at, stride, count = first * GROUP_BLOCKS, bitmap_stride(shift, groups, first), min(groups - first, 1 << shift)
        at += backup if has_backup(first) else 0
        used += [(at, count), (at + stride, count), (at + 2 * stride, count * inode_blocks)]
        stored.add(first)
    at = backup + 2 * bitmap_stride(shift, groups, 0) + min(groups, 1 << shift) * inode_blocks
    in_gaps = 0
    # 1 if the resize inode needs an index block, because descriptors are reserved
    resize = int(backup > 1 + _ceil(groups, descriptors))
    if groups == 1 and not is_ext2:
        # The root directory, lost+found and the journal's first blocks fill the gaps between bitmaps and inode table.
        # In this model the journal is one run, so its first blocks share the addresses of the table's last inodes.
        root = backup + 1
        used = [used[0], (backup, 2 << shift), used[-1], (at, resize)]
        at += resize
        in_gaps = min(journal, (2 << shift) - 3 - LOST_FOUND) if journal else 0
    else:
        root = at
        at += 1 + LOST_FOUND + resize
        used.append((root, at - root))
    if journal:
        at = _journal_at(blocks, used, journal - in_gaps, at)
        used.append((at, journal - in_gaps))
        at -= in_gaps
        stored |= set(range(at // GROUP_BLOCKS, (at + journal - 1) // GROUP_BLOCKS + 1))
    fields = {
        "group_count": groups,
        "flex_shift": shift,
        "backup_blocks": backup,
        "inode_blocks": inode_blocks,
        "group_inodes": inode_blocks * INODES_PER_BLOCK,
        "inode_count": groups * inode_blocks * INODES_PER_BLOCK,
        "journal_at": at,
        "journal_blocks": journal,
        "fixed_blocks": sum(count for _, count in used) - 1,  # the root directory is counted with the files
    }
    return Layout(blocks, fields, used, root, sorted(stored))


def _ceil(number: int, unit: int) -> int:
    """Return `number` divided by `unit`, rounded up."""
    return -(-number // unit)


def _inode_blocks(blocks: int, groups: int) -> int:
    """Return the number of blocks in a group's inode table.

    mke2fs makes one inode per 4 KiB on a device below 512 MiB, per 16 KiB below 4 TiB, per 32 KiB below 16 TiB, else per 64 KiB.
    """
    ratio = 1 if blocks < SMALL else 4 if blocks < 1 << 30 else 8 if blocks < 1 << 32 else 16  # blocks per inode
    inodes = _ceil(blocks // ratio, groups)
    return max(_ceil(inodes, INODES_PER_BLOCK), 1)


def _backup_blocks(blocks: int, groups: int, descriptors: int) -> int:
    """Count the blocks of a superblock, of the group descriptors and of the reserve for more descriptors."""
    table = _ceil(groups, descriptors)
    most = min(blocks * 1024, (1 << 32) - 1)
    reserved = _ceil(_ceil(most, GROUP_BLOCKS), descriptors) - table
    return 1 + table + min(max(reserved, 0), POINTERS)


def _journal_at(blocks: int, used: list[tuple[int, int]], journal: int, after: int) -> int:
    """Return the first block of the journal: in the emptiest of the groups around the middle of the device.

    The journal is one run here; mke2fs would continue it after metadata of other groups.
    """
    groups = _ceil(blocks, GROUP_BLOCKS)
    if groups == 1:
        return after
    free = [min(GROUP_BLOCKS, blocks - group * GROUP_BLOCKS) for group in range(groups)]
    for start, count in used:
        free[start // GROUP_BLOCKS] -= count
    group = blocks // 2 // GROUP_BLOCKS
    start = group & ~((1 << FLEX_SHIFT) - 1) if group > 1 << FLEX_SHIFT else max(group - 1, 0)
    best = max(range(start, min(group + 1, groups - 1) + 1), key=lambda one: (free[one], -one))
    at = best * GROUP_BLOCKS
    moved = True
    while moved:
        moved = False
        for first, count in used:
            if first < at + journal and at < first + count:
                at, moved = first + count, True
    return at
