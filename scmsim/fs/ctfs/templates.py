"""Mechanisms of ctFS as recipes, in place of those of files contiguous in virtual memory.

Sources: ctFS ctfs_func.c, ctfs_func2.c, ctfs_inode.c, ctfs_pgg.c, ctfs_cpy.c, kernel/device.c.  Lines are written back
by CLWB, and nothing is fenced.  Offsets in an inode: size 8, block 16, names 24, level 56, times of access 64,
modification 80, change 96, opening 112.
"""

from scmsim.core.records import FLUSH, KERNEL, LOAD, NTSTORE, STORE, USER
from scmsim.fs.contiguous import recipes as contiguous_recipes
from scmsim.fs.contiguous.recipes import BLOCK, INODE_BYTES, NONE
from scmsim.fs.engine.events import RecipeBuilder

COSTS = (*contiguous_recipes.COSTS, "stream_line", "edge_byte")
_STEPS = RecipeBuilder(contiguous_recipes.SITES, COSTS)
step, work = _STEPS.run, _STEPS.work

# Device offsets below the tables: the device's master page and its bitmap; the superblock, bitmap of inodes and
# partition headers of ctFS; the entry tables of a staging partition, and its pages.
MASTER, BITMAP, SUPERBLOCK, INODE_BITMAP, HEADERS, STAGING = 0, BLOCK, 3 * BLOCK, 4 * BLOCK, 5 * BLOCK, 16 * BLOCK
STATE = MASTER + 120  # pswap's state in the master page; it crosses a line, so its write-back takes two lines

(
    COPY_EDGE, PARTITION, LOOKED, PLACED, SHADOW_COPY, SWAP, SPLIT, SWAP_PAGES, SWAP_PIECES,
) = range(contiguous_recipes.COLLECTED + 1, contiguous_recipes.COLLECTED + 10)  # fmt: skip


def recipes() -> dict[int, list]:
    """Return all recipes of ctFS."""
    return contiguous_recipes.recipes() | _data() | _tables() | _names() | _swaps()


def _inode_written(base: int) -> list:
    """Return the steps of cache_wb on an inode: flush each of its lines, and the last one again."""
    return [step(FLUSH, "inode", base, 0, INODE_BYTES), step(FLUSH, "inode", base, INODE_BYTES - 1, 1)]


def _resized(base: int) -> list:
    """Return the steps of inode_resize: size, times of change and modification."""
    return [step(STORE, "inode", base, 8, 8), step(STORE, "inode", base, 80, 32), *_inode_written(base)]


def _placed() -> list:
    """Return the steps of inode_resize_lvl: size and block, level; a file that moves runs it after its entries were swapped."""
    return [
        step(STORE, "inode", contiguous_recipes.INODE, 8, 16),
        step(STORE, "inode", contiguous_recipes.INODE, 56, 1),
    ]


def _data() -> dict[int, list]:
    """Return the recipes of avx_cpy, and of the inode of a file that grew."""
    return {
        contiguous_recipes.COPY_IN: [
            step(LOAD, "data copy", contiguous_recipes.USER_AT, 0, 0, contiguous_recipes.BYTES, space=USER),
            step(NTSTORE, "data copy", contiguous_recipes.AT, 0, 0, contiguous_recipes.BYTES),
            work("copy_call", 1),
            work("stream_line", 0, contiguous_recipes.PAGES),
        ],
        COPY_EDGE: [
            step(LOAD, "data copy", contiguous_recipes.USER_AT, 0, 0, contiguous_recipes.BYTES, space=USER),
            step(STORE, "data copy", contiguous_recipes.AT, 0, 0, contiguous_recipes.BYTES),
            step(FLUSH, "data copy", contiguous_recipes.TABLE, 0, 1),
            work("edge_byte", 0, contiguous_recipes.BYTES),
        ],
        contiguous_recipes.WRITTEN: _resized(contiguous_recipes.INODE),
        contiguous_recipes.RESIZED: _resized(contiguous_recipes.INODE),
        contiguous_recipes.FSYNC: [work("fsync_call", 1)],
    }


def _tables() -> dict[int, list]:
    """Return the recipes of page tables and partitions.

    The sources are find_dax_ptep (persistent entries), install_pmd (entries that a fault copies from these) and pgg
    (partitions).
    """
    return {
        contiguous_recipes.NEW_SUPERS: [
            step(STORE, "free list", NONE, BITMAP, 64),
            step(FLUSH, "free list", NONE, BITMAP, 1),
            step(STORE, "page table", contiguous_recipes.DIRECTORY, 0, 0, contiguous_recipes.DIRECTORY_BYTES),
            step(FLUSH, "page table", contiguous_recipes.DIRECTORY, 0, 0, contiguous_recipes.DIRECTORY_BYTES),
            step(
                STORE,
                "page table",
                contiguous_recipes.DIRECTORY,
                0,
                0,
                contiguous_recipes.DIRECTORY_BYTES,
                space=KERNEL,
            ),
            work("new_superpage", 0, contiguous_recipes.COUNT),
        ],
        contiguous_recipes.NEW_TABLE: [
            step(STORE, "free list", NONE, BITMAP, 8),
            step(FLUSH, "free list", NONE, BITMAP, 1),
            step(STORE, "page table", contiguous_recipes.DIRECTORY, 0, 8),
            step(FLUSH, "page table", contiguous_recipes.DIRECTORY, 0, 8),
            work("new_table", 1),
        ],
        contiguous_recipes.MAPPED: [
            step(STORE, "page table", contiguous_recipes.PTE_AT, 0, 0, contiguous_recipes.PTE_BYTES),
            step(FLUSH, "page table", contiguous_recipes.PTE_AT, 0, 0, contiguous_recipes.PTE_BYTES),
            step(STORE, "page table", contiguous_recipes.PTE_AT, 0, 0, contiguous_recipes.PTE_BYTES, space=KERNEL),
            work("new_page", 0, contiguous_recipes.PAGES),
        ],
        contiguous_recipes.UNMAPPED: [work("free_page", 1)],
        contiguous_recipes.TABLE_GONE: [work("free_page", 1)],
        PARTITION: [step(STORE, "free list", NONE, HEADERS, 2), work("move_range", 1)],
        PLACED: _placed(),
        contiguous_recipes.RANGE_MOVED: [
            *_swapped(),
            *_entries(contiguous_recipes.DIRECTORY, contiguous_recipes.DIRECTORY_BYTES),
            step(STORE, "free list", NONE, HEADERS, 2),
            *_placed(),
            step(FLUSH, "inode", contiguous_recipes.INODE, 0, 1),
        ],
    }


def _names() -> dict[int, list]:
    """Return the recipes of inode_create, inode_path2inode and ctfs_unlink; storing its inode number commits a new record."""
    return {
        contiguous_recipes.ADD_DIRENT: [
            step(STORE, "directory", contiguous_recipes.AT, 18, 0, contiguous_recipes.FIELDS),
            step(FLUSH, "directory", contiguous_recipes.AT, 0, 256),
            step(FLUSH, "directory", contiguous_recipes.AT, 255, 1),
            step(STORE, "directory", contiguous_recipes.AT, 0, 8),
            step(FLUSH, "directory", contiguous_recipes.AT, 0, 8),
        ],
        contiguous_recipes.DEL_DIRENT: [step(STORE, "directory", contiguous_recipes.AT, 0, 8)],
        contiguous_recipes.NEW_INODE: [
            step(STORE, "inode", NONE, INODE_BITMAP, 8),
            step(STORE, "inode", NONE, SUPERBLOCK, 16),
            step(FLUSH, "inode", NONE, SUPERBLOCK, 1),
            step(STORE, "inode", contiguous_recipes.INODE, 0, INODE_BYTES),
            step(STORE, "inode", contiguous_recipes.INODE, 0, 8),
            step(STORE, "inode", contiguous_recipes.INODE, 64, 48),
            *_inode_written(contiguous_recipes.INODE),
        ],
        contiguous_recipes.DIR_GROWN: [
            *_resized(contiguous_recipes.DIR),
            step(STORE, "inode", contiguous_recipes.DIR, 24, 8),
            step(STORE, "inode", contiguous_recipes.DIR, 96, 16),
            *_inode_written(contiguous_recipes.DIR),
            step(STORE, "inode", contiguous_recipes.DIR, 64, 32),
        ],
        contiguous_recipes.DIR_LEFT: [step(STORE, "inode", contiguous_recipes.DIR, 24, 8)],
        contiguous_recipes.LINKS: [],
        contiguous_recipes.EVICTED: [
            step(STORE, "inode", NONE, INODE_BITMAP, 8),
            step(STORE, "free list", NONE, HEADERS, 2),
            work("evict", 1),
        ],
        contiguous_recipes.OPEN: [
            work("open", 1),
            step(LOAD, "inode", contiguous_recipes.INODE, 0, 64),
            step(STORE, "inode", contiguous_recipes.INODE, 112, 8),
        ],
        LOOKED: [step(STORE, "inode", contiguous_recipes.DIR, 64, 16)],
    }


def _swapped() -> list:
    """Return the stores of a pswap's states: its first and second steps are written back, its end is not."""
    return [
        step(STORE, "page table", NONE, STATE, 25),
        step(FLUSH, "page table", NONE, STATE, 64),
        step(STORE, "page table", NONE, STATE, 1),
        step(FLUSH, "page table", NONE, STATE, 64),
        step(STORE, "page table", NONE, STATE, 1),
        work("migrate_call", 1),
    ]


def _entries(base: int, by: int) -> list:
    """Return the steps that store and write back the persistent entries of both sides, and store those of the process."""
    return [
        step(STORE, "page table", base, 0, 0, by),
        step(FLUSH, "page table", base, 0, 0, by),
        step(STORE, "page table", NONE, STAGING, 0, by),
        step(FLUSH, "page table", NONE, STAGING, 0, by),
        step(STORE, "page table", base, 0, 0, by, space=KERNEL),
        step(STORE, "page table", NONE, STAGING, 0, by, space=KERNEL),
    ]


def _swaps() -> dict[int, list]:
    """Return the recipes of an atomic write: take a staging partition, swap entries, free the partition."""
    return {
        SHADOW_COPY: [
            step(LOAD, "shadow copy", NONE, STAGING, 0, contiguous_recipes.BYTES),
            step(STORE, "shadow copy", NONE, STAGING, 0, contiguous_recipes.BYTES),
            work("copy_call", 1),
        ],
        SWAP: [
            step(STORE, "free list", NONE, HEADERS, 2),
            *_swapped(),
            step(STORE, "free list", NONE, HEADERS, 2),
            step(STORE, "inode", contiguous_recipes.INODE, 57, 1),
            work("move_range", 2),
        ],
        SPLIT: [
            step(STORE, "page table", contiguous_recipes.TABLE, 0, BLOCK),
            step(FLUSH, "page table", contiguous_recipes.TABLE, 0, BLOCK),
            step(STORE, "page table", contiguous_recipes.DIRECTORY, 0, 8),
            step(FLUSH, "page table", contiguous_recipes.DIRECTORY, 0, 8),
            step(STORE, "page table", NONE, STAGING, BLOCK + 8),
            step(FLUSH, "page table", NONE, STAGING, BLOCK + 8),
            work("new_table", 2),
        ],
        SWAP_PAGES: [
            step(STORE, "page table", contiguous_recipes.PTE_AT, 0, 0, contiguous_recipes.PTE_BYTES),
            step(FLUSH, "page table", contiguous_recipes.TABLE, 0, BLOCK),
            step(STORE, "page table", NONE, STAGING, 0, contiguous_recipes.PTE_BYTES),
            step(FLUSH, "page table", NONE, STAGING, BLOCK),
            step(STORE, "page table", contiguous_recipes.PTE_AT, 0, 0, contiguous_recipes.PTE_BYTES, space=KERNEL),
            step(STORE, "page table", NONE, STAGING, 0, contiguous_recipes.PTE_BYTES, space=KERNEL),
            work("new_page", 0, contiguous_recipes.PAGES),
        ],
        SWAP_PIECES: _entries(contiguous_recipes.DIRECTORY, contiguous_recipes.DIRECTORY_BYTES),
    }
