"""ctFS's mechanisms as recipes, in place of those of files contiguous in virtual memory.

Sources: ctFS ctfs_func.c, ctfs_func2.c, ctfs_inode.c, ctfs_pgg.c, ctfs_cpy.c, kernel/device.c.  Lines are written back by CLWB,
and nothing is fenced.  Inode: size at 8, block 16, names 24, level 56, times of access 64, modification 80, change 96, opening 112.
"""

from scmsim.core.records import FLUSH, KERNEL, LOAD, NTSTORE, STORE, USER
from scmsim.fs.contiguous import recipes as q
from scmsim.fs.contiguous.recipes import BLOCK, INODE_BYTES, NONE
from scmsim.fs.engine.events import Steps

COSTS = (*q.COSTS, "stream_line", "edge_byte")
_STEPS = Steps(q.SITES, COSTS)
step, work = _STEPS.run, _STEPS.work

# Device offsets below the tables: the device's master page and its bitmap, the superblock, bitmap of inodes and partition headers
# of ctFS, the entry tables of a staging partition, and its pages.
MASTER, BITMAP, SUPERBLOCK, INODE_BITMAP, HEADERS, STAGING = 0, BLOCK, 3 * BLOCK, 4 * BLOCK, 5 * BLOCK, 16 * BLOCK
STATE = MASTER + 120  # pswap's state in the master page: not at the start of a line, so its write-back takes two

(
    COPY_EDGE, PARTITION, LOOKED, PLACED, SHADOW_COPY, SWAP, SPLIT, SWAP_PAGES, SWAP_PIECES,
) = range(q.COLLECTED + 1, q.COLLECTED + 10)  # fmt: skip


def recipes() -> dict[int, list]:
    """All recipes of ctFS."""
    return q.recipes() | _data() | _tables() | _names() | _swaps()


def _inode_written(base: int) -> list:
    """cache_wb of an inode: each of its lines, and the last one again."""
    return [step(FLUSH, "inode", base, 0, INODE_BYTES), step(FLUSH, "inode", base, INODE_BYTES - 1, 1)]


def _resized(base: int) -> list:
    """inode_resize: size, times of change and modification."""
    return [step(STORE, "inode", base, 8, 8), step(STORE, "inode", base, 80, 32), *_inode_written(base)]


def _placed() -> list:
    """inode_resize_lvl: size and block, level; of a file that moves after its entries were swapped."""
    return [step(STORE, "inode", q.INODE, 8, 16), step(STORE, "inode", q.INODE, 56, 1)]


def _data() -> dict[int, list]:
    """avx_cpy, and the inode of a file that grew."""
    return {
        q.COPY_IN: [
            step(LOAD, "data copy", q.USER_AT, 0, 0, q.BYTES, space=USER),
            step(NTSTORE, "data copy", q.AT, 0, 0, q.BYTES),
            work("copy_call", 1),
            work("stream_line", 0, q.PAGES),
        ],
        COPY_EDGE: [
            step(LOAD, "data copy", q.USER_AT, 0, 0, q.BYTES, space=USER),
            step(STORE, "data copy", q.AT, 0, 0, q.BYTES),
            step(FLUSH, "data copy", q.TABLE, 0, 1),
            work("edge_byte", 0, q.BYTES),
        ],
        q.WRITTEN: _resized(q.INODE),
        q.RESIZED: _resized(q.INODE),
        q.FSYNC: [work("fsync_call", 1)],
    }


def _tables() -> dict[int, list]:
    """Persistent page tables (find_dax_ptep), the entries that a fault copies from them (install_pmd), and partitions (pgg)."""
    return {
        q.NEW_SUPERS: [
            step(STORE, "free list", NONE, BITMAP, 64),
            step(FLUSH, "free list", NONE, BITMAP, 1),
            step(STORE, "page table", q.DIRECTORY, 0, 0, q.DIRECTORY_BYTES),
            step(FLUSH, "page table", q.DIRECTORY, 0, 0, q.DIRECTORY_BYTES),
            step(STORE, "page table", q.DIRECTORY, 0, 0, q.DIRECTORY_BYTES, space=KERNEL),
            work("new_superpage", 0, q.COUNT),
        ],
        q.NEW_TABLE: [
            step(STORE, "free list", NONE, BITMAP, 8),
            step(FLUSH, "free list", NONE, BITMAP, 1),
            step(STORE, "page table", q.DIRECTORY, 0, 8),
            step(FLUSH, "page table", q.DIRECTORY, 0, 8),
            work("new_table", 1),
        ],
        q.MAPPED: [
            step(STORE, "page table", q.PTE_AT, 0, 0, q.PTE_BYTES),
            step(FLUSH, "page table", q.PTE_AT, 0, 0, q.PTE_BYTES),
            step(STORE, "page table", q.PTE_AT, 0, 0, q.PTE_BYTES, space=KERNEL),
            work("new_page", 0, q.PAGES),
        ],
        q.UNMAPPED: [work("free_page", 1)],
        q.TABLE_GONE: [work("free_page", 1)],
        PARTITION: [step(STORE, "free list", NONE, HEADERS, 2), work("move_range", 1)],
        PLACED: _placed(),
        q.RANGE_MOVED: [
            *_swapped(),
            *_entries(q.DIRECTORY, q.DIRECTORY_BYTES),
            step(STORE, "free list", NONE, HEADERS, 2),
            *_placed(),
            step(FLUSH, "inode", q.INODE, 0, 1),
        ],
    }


def _names() -> dict[int, list]:
    """inode_create, inode_path2inode, ctfs_unlink: the record's inode number is its commit when it is made."""
    return {
        q.ADD_DIRENT: [
            step(STORE, "directory", q.AT, 18, 0, q.FIELDS),
            step(FLUSH, "directory", q.AT, 0, 256),
            step(FLUSH, "directory", q.AT, 255, 1),
            step(STORE, "directory", q.AT, 0, 8),
            step(FLUSH, "directory", q.AT, 0, 8),
        ],
        q.DEL_DIRENT: [step(STORE, "directory", q.AT, 0, 8)],
        q.NEW_INODE: [
            step(STORE, "inode", NONE, INODE_BITMAP, 8),
            step(STORE, "inode", NONE, SUPERBLOCK, 16),
            step(FLUSH, "inode", NONE, SUPERBLOCK, 1),
            step(STORE, "inode", q.INODE, 0, INODE_BYTES),
            step(STORE, "inode", q.INODE, 0, 8),
            step(STORE, "inode", q.INODE, 64, 48),
            *_inode_written(q.INODE),
        ],
        q.DIR_GROWN: [
            *_resized(q.DIR),
            step(STORE, "inode", q.DIR, 24, 8),
            step(STORE, "inode", q.DIR, 96, 16),
            *_inode_written(q.DIR),
            step(STORE, "inode", q.DIR, 64, 32),
        ],
        q.DIR_LEFT: [step(STORE, "inode", q.DIR, 24, 8)],
        q.LINKS: [],
        q.EVICTED: [
            step(STORE, "inode", NONE, INODE_BITMAP, 8),
            step(STORE, "free list", NONE, HEADERS, 2),
            work("evict", 1),
        ],
        q.OPEN: [work("open", 1), step(LOAD, "inode", q.INODE, 0, 64), step(STORE, "inode", q.INODE, 112, 8)],
        LOOKED: [step(STORE, "inode", q.DIR, 64, 16)],
    }


def _swapped() -> list:
    """The states of a pswap: its first and second step are written back, its end is not."""
    return [
        step(STORE, "page table", NONE, STATE, 25),
        step(FLUSH, "page table", NONE, STATE, 64),
        step(STORE, "page table", NONE, STATE, 1),
        step(FLUSH, "page table", NONE, STATE, 64),
        step(STORE, "page table", NONE, STATE, 1),
        work("migrate_call", 1),
    ]


def _entries(base: int, by: int) -> list:
    """Persistent entries of both sides, written back, and those of the process."""
    return [
        step(STORE, "page table", base, 0, 0, by),
        step(FLUSH, "page table", base, 0, 0, by),
        step(STORE, "page table", NONE, STAGING, 0, by),
        step(FLUSH, "page table", NONE, STAGING, 0, by),
        step(STORE, "page table", base, 0, 0, by, space=KERNEL),
        step(STORE, "page table", NONE, STAGING, 0, by, space=KERNEL),
    ]


def _swaps() -> dict[int, list]:
    """An atomic write: a staging partition is taken, entries are swapped, the partition is given back."""
    return {
        SHADOW_COPY: [
            step(LOAD, "shadow copy", NONE, STAGING, 0, q.BYTES),
            step(STORE, "shadow copy", NONE, STAGING, 0, q.BYTES),
            work("copy_call", 1),
        ],
        SWAP: [
            step(STORE, "free list", NONE, HEADERS, 2),
            *_swapped(),
            step(STORE, "free list", NONE, HEADERS, 2),
            step(STORE, "inode", q.INODE, 57, 1),
            work("move_range", 2),
        ],
        SPLIT: [
            step(STORE, "page table", q.TABLE, 0, BLOCK),
            step(FLUSH, "page table", q.TABLE, 0, BLOCK),
            step(STORE, "page table", q.DIRECTORY, 0, 8),
            step(FLUSH, "page table", q.DIRECTORY, 0, 8),
            step(STORE, "page table", NONE, STAGING, BLOCK + 8),
            step(FLUSH, "page table", NONE, STAGING, BLOCK + 8),
            work("new_table", 2),
        ],
        SWAP_PAGES: [
            step(STORE, "page table", q.PTE_AT, 0, 0, q.PTE_BYTES),
            step(FLUSH, "page table", q.TABLE, 0, BLOCK),
            step(STORE, "page table", NONE, STAGING, 0, q.PTE_BYTES),
            step(FLUSH, "page table", NONE, STAGING, BLOCK),
            step(STORE, "page table", q.PTE_AT, 0, 0, q.PTE_BYTES, space=KERNEL),
            step(STORE, "page table", NONE, STAGING, 0, q.PTE_BYTES, space=KERNEL),
            work("new_page", 0, q.PAGES),
        ],
        SWAP_PIECES: _entries(q.DIRECTORY, q.DIRECTORY_BYTES),
    }
