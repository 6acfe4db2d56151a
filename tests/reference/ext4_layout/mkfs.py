"""Where mke2fs puts an ext4 file system's own blocks: the state that a freshly made file system starts from.

Model of e2fsprogs 1.47 (Debian 12): lib/ext2fs/initialize.c, alloc_tables.c, mkjournal.c, misc/mke2fs.c and mke2fs.conf.
"""

import dataclasses
from dataclasses import dataclass, field

DEFAULT_FEATURES = frozenset(
    "has_journal ext_attr resize_inode dir_index filetype extent 64bit flex_bg sparse_super large_file huge_file "
    "dir_nlink extra_isize metadata_csum".split()
)
_JOURNAL_SIZES = [  # (below this many blocks of the file system, the journal has so many blocks)
    (2048, 0), (32768, 1024), (256 << 10, 4096), (512 << 10, 8192), (4096 << 10, 16384), (8192 << 10, 32768),
    (16384 << 10, 65536), (32768 << 10, 131072),
]  # fmt: skip
_FIRST_FREE_INODE = 12  # 1 to 10 are reserved, 11 is lost+found
_LOST_AND_FOUND_BYTES = 16384


@dataclass(frozen=True)
class Mkfs:
    """Options of mke2fs: -b, -g, -G, -i, -I, -O, -E stride=,stripe_width=,hash_seed=."""

    bytes: int
    block_bytes: int = 4096
    blocks_per_group: int = 0
    flex_groups: int = 16
    bytes_per_inode: int = 0
    inode_bytes: int = 256
    features: frozenset[str] = DEFAULT_FEATURES
    stride: int = 0
    stripe_width: int = 0
    journal_blocks: int = 0  # -J size=, in blocks; 0: mke2fs's own choice
    hash_seed: str = "5c3d0000-0000-4000-8000-000000000002"

    def without(self, *features: str) -> "Mkfs":
        """Return the same options without some features (-O ^FEATURE)."""
        return dataclasses.replace(self, features=self.features - set(features))


@dataclass
class Group:
    """A block group as its descriptor states it."""

    bitmap: bytearray  # one byte per block: 1 if used
    free_inodes: int
    directories: int = 0
    block_uninit: bool = True  # EXT4_BG_BLOCK_UNINIT
    block_bitmap: int = 0
    inode_bitmap: int = 0
    inode_table: int = 0

    @property
    def free_blocks(self) -> int:
        """Return the number of free blocks."""
        return self.bitmap.count(0)


@dataclass
class Disk:
    """A file system that mke2fs made."""

    options: Mkfs
    blocks: int
    first_data_block: int
    blocks_per_group: int
    inodes_per_group: int
    inode_blocks_per_group: int
    descriptor_blocks: int
    reserved_gdt_blocks: int
    groups: list[Group] = field(default_factory=list)
    root_block: int = 0
    lost_and_found: list[int] = field(default_factory=list)
    journal: list[tuple[int, int]] = field(default_factory=list)  # (first block, blocks)

    @property
    def flex_size(self) -> int:
        """Return the number of groups of a flex group; 1 without flex_bg."""
        return self.options.flex_groups if "flex_bg" in self.options.features else 1

    def first_block(self, group: int) -> int:
        """Return a group's first block."""
        return self.first_data_block + group * self.blocks_per_group

    def group_of(self, block: int) -> int:
        """Return the group that a block is in."""
        return (block - self.first_data_block) // self.blocks_per_group

    def group_blocks(self, group: int) -> int:
        """Return the number of blocks of a group; the last one may be short."""
        return min(self.blocks_per_group, self.blocks - self.first_block(group))

    def base_blocks(self, group: int) -> int:
        """Return how many blocks a superblock and the group descriptors take at the start of a group."""
        has_super = "sparse_super" not in self.options.features or is_sparse(group)
        return 1 + self.descriptor_blocks + self.reserved_gdt_blocks if has_super else 0


def is_sparse(group: int) -> bool:
    """Return whether a group has a copy of the superblock: 0, 1 and the powers of 3, 5 and 7."""
    if group <= 1:
        return True
    return any(group == base**power for base in (3, 5, 7) for power in range(1, 21))


def make(options: Mkfs) -> Disk:
    """Return the file system that mke2fs makes on an empty device."""
    disk = _sized(options)
    used = bytearray(disk.blocks)  # of the whole file system
    used[: disk.first_data_block] = b"\1" * disk.first_data_block
    count = -(-(disk.blocks - disk.first_data_block) // disk.blocks_per_group)
    disk.groups = [Group(bytearray(), disk.inodes_per_group) for _ in range(count)]
    for number in range(count):
        _mark(used, disk.first_block(number), disk.base_blocks(number))
    _place_tables(disk, used)
    disk.root_block = _first_free(disk, used)
    blocks = max(2, _LOST_AND_FOUND_BYTES // options.block_bytes)
    disk.lost_and_found = [_first_free(disk, used) for _ in range(min(blocks, 12))]
    if "resize_inode" in options.features and disk.reserved_gdt_blocks:
        # the double indirect block of the inode that keeps the reserved descriptors: ext2fs_create_resize_inode
        _first_free(disk, used, 3 + disk.reserved_gdt_blocks + disk.descriptor_blocks + disk.inode_blocks_per_group)
    if "has_journal" in options.features:
        _place_journal(disk, used)
    for number, group in enumerate(disk.groups):
        first, length = disk.first_block(number), disk.group_blocks(number)
        group.bitmap = used[first : first + length]
        own = 0 if disk.flex_size > 1 else 2 + disk.inode_blocks_per_group
        alone = group.bitmap.count(1) == disk.base_blocks(number) + own
        group.block_uninit = "metadata_csum" in options.features and alone and 0 < number < count - 1
    disk.groups[0].free_inodes -= _FIRST_FREE_INODE - 1
    disk.groups[0].directories = 2
    return disk


def _sized(options: Mkfs) -> Disk:
    """Return a file system with its sizes alone: ext2fs_initialize."""
    block, features = options.block_bytes, options.features
    first = 1 if block == 1024 else 0
    whole = blocks = options.bytes // block
    per_group = options.blocks_per_group or 8 * block
    ratio = options.bytes_per_inode or (
        8192 if options.bytes < 3 << 20 else 4096 if options.bytes < 512 << 20 else 16384
    )
    wanted = whole * block // ratio
    descriptor = 64 if "64bit" in features else 32
    while True:
        groups = -(-(blocks - first) // per_group)
        descriptor_blocks = -(-groups * descriptor // block)
        per_group_inodes = -(-max(wanted, _FIRST_FREE_INODE) // groups)
        if per_group_inodes > block * 8:
            per_group, blocks = per_group - 8, whole
            continue
        table = -(-per_group_inodes * options.inode_bytes // block)
        per_group_inodes = max(8, table * block // options.inode_bytes) & ~7
        table = -(-per_group_inodes * options.inode_bytes // block)
        reserved = _reserved_gdt(blocks, first, per_group, block, descriptor, descriptor_blocks)
        reserved = reserved if "resize_inode" in features else 0
        disk = Disk(options, blocks, first, per_group, per_group_inodes, table, descriptor_blocks, reserved)
        overhead = 2 + table + disk.base_blocks(groups - 1)
        rest = (blocks - first) % per_group
        if rest and rest < overhead + 50:  # a last group that is too small for its own tables is left out
            blocks -= rest
            continue
        return disk


def _reserved_gdt(blocks: int, first: int, per_group: int, block: int, descriptor: int, taken: int) -> int:
    """Return how many blocks mke2fs reserves so that the file system can grow 1024-fold: calc_reserved_gdt_blocks."""
    most = blocks * 1024 if blocks < 0xFFFFFFFF // 1024 else 0xFFFFFFFF
    groups = -(-(most - first) // per_group)
    return min(-(-groups // (block // descriptor)) - taken, block // 4)


def _mark(used: bytearray, first: int, length: int) -> None:
    used[first : first + length] = b"\1" * length


def _run(used: bytearray, start: int, end: int, length: int) -> int:
    """Return where the first run of `length` free blocks starts, in [start, end); 0: none (ext2fs_get_free_blocks2)."""
    at = used.find(bytes(length), start, min(end + length - 1, len(used)))
    return max(at, 0)


def _first_free(disk: Disk, used: bytearray, goal: int = 0) -> int:
    """Take the first free block from a goal on."""
    at = used.find(0, goal)
    at = used.find(0) if at < 0 else at
    used[at] = 1
    return at


def _place_tables(disk: Disk, used: bytearray) -> None:
    """Place bitmaps and inode tables: ext2fs_allocate_group_table for each group."""
    place = _place_flex if "flex_bg" in disk.options.features else _place_plain
    for number in range(len(disk.groups)):
        place(disk, used, number)


def _place_plain(disk: Disk, used: bytearray, number: int) -> None:
    group, first = disk.groups[number], disk.first_block(number)
    last, start = first + disk.group_blocks(number) - 1, first
    if disk.options.stride:  # spread the bitmaps over the disks of a RAID
        start = _run(used, first, last, 1) + disk.inode_blocks_per_group
        start += disk.options.stride * number % (last - start + 1)
        start = first if start >= last else start
    group.block_bitmap = _run(used, start, last, 1) or _run(used, first, last, 1)
    _mark(used, group.block_bitmap, 1)
    group.inode_bitmap = _run(used, start, last, 1) or _run(used, first, last, 1)
    _mark(used, group.inode_bitmap, 1)
    group.inode_table = _run(used, first, last, disk.inode_blocks_per_group)
    _mark(used, group.inode_table, disk.inode_blocks_per_group)


def _place_flex(disk: Disk, used: bytearray, number: int) -> None:
    """Pack the tables of a flex group at its start: bitmaps of blocks, bitmaps of inodes, tables."""
    flex, table, group = disk.flex_size, disk.inode_blocks_per_group, disk.groups[number]
    last_group = min(number | flex - 1, len(disk.groups) - 1)
    last = disk.first_block(last_group) + disk.group_blocks(last_group) - 1
    before = disk.groups[number - 1] if number % flex else None
    step = last_group - number + 1
    step = step if step > 1 else flex

    def place(start: int, length: int) -> int:
        start = _flex_start(disk, used, number, start, last, length, last_group - number + 1)
        at = _run(used, start, last, length) or _run(used, disk.first_block(number), last, length)
        _mark(used, at, length)
        return at

    group.block_bitmap = place(before.block_bitmap + 1 if before else 0, 1)
    group.inode_bitmap = place(before.inode_bitmap + 1 if before else group.block_bitmap + step, 1)
    group.inode_table = place(before.inode_table + table if before else group.inode_bitmap + step, table)


def _flex_start(disk: Disk, used: bytearray, number: int, start: int, last: int, length: int, remaining: int) -> int:
    """Return where to look for the next table of a flex group: flexbg_offset."""
    room = min(remaining * length, disk.blocks_per_group // 4)
    if start and start < disk.blocks:
        found = _run(used, start, start + room, length)
        if found:
            return found
    first = disk.first_block(number // disk.flex_size * disk.flex_size)
    return _run(used, first, last, room) or _run(used, first, last, length)


def _place_journal(disk: Disk, used: bytearray) -> None:
    """Place the journal near the middle of the device: get_midpoint_journal_block, ext2fs_fallocate."""
    size = disk.options.journal_blocks or next((size for below, size in _JOURNAL_SIZES if disk.blocks < below), 262144)

    def free(number: int) -> int:
        first = disk.first_block(number)
        return used.count(0, first, first + disk.group_blocks(number))

    count = len(disk.groups)
    group = disk.group_of((disk.blocks - disk.first_data_block) // 2)
    if disk.flex_size > 1 and group > disk.flex_size:
        group &= ~(disk.flex_size - 1)
        start = next((number for number in range(group, count) if free(number)), 0)
        group = start if start else count
    else:
        start = max(group - 1, 0)
    last = group + 1 if group + 1 < count else group
    best = start
    for number in range(start + 1, min(last, count - 1) + 1):
        if free(number) > free(best):
            best = number
    at = disk.first_block(best)
    while size:
        at = used.find(0, at)
        at = used.find(0) if at < 0 else at
        end = used.find(1, at)
        length = min(size, (len(used) if end < 0 else end) - at)
        _mark(used, at, length)
        disk.journal.append((at, length))
        at, size = at + length, size - length
    if len(disk.journal) > 4:  # the inode has no room for more extents: they move into a block
        _mark(used, used.find(0, at), 1)
