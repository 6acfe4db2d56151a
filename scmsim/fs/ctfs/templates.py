"""Mechanisms of ctFS as templates, which replace templates of `contiguous`.

Sources: ctFS ctfs_func.c, ctfs_func2.c, ctfs_inode.c, ctfs_pgg.c, ctfs_cpy.c, kernel/device.c.  Lines are written back
by CLWB, and nothing is fenced.  Offsets in an inode: size 8, block 16, names 24, level 56, times of access 64,
modification 80, change 96, opening 112.
"""

from scmsim.core.records import FLUSH, KERNEL, LOAD, NTSTORE, STORE, USER
from scmsim.fs.contiguous import templates as tpl
from scmsim.fs.contiguous.templates import BLOCK, INODE_BYTES, NONE
from scmsim.fs.engine.events import TemplateBuilder

COSTS = (*tpl.COSTS, "stream_line", "edge_byte")
_STEPS = TemplateBuilder(tpl.SITES, COSTS)
step, work = _STEPS.run, _STEPS.work

# Device offsets below the tables: the device's master page and its bitmap; the superblock, bitmap of inodes and
# partition headers of ctFS; the entry tables of a staging partition, and its pages.
MASTER, BITMAP, SUPERBLOCK, INODE_BITMAP, HEADERS, STAGING = 0, BLOCK, 3 * BLOCK, 4 * BLOCK, 5 * BLOCK, 16 * BLOCK
STATE = MASTER + 120  # pswap's state in the master page; it crosses a line, so its write-back takes two lines

(
    COPY_EDGE, PARTITION, LOOKED, PLACED, SHADOW_COPY, SWAP, SPLIT, SWAP_PAGES, SWAP_PIECES,
) = range(tpl.COLLECTED + 1, tpl.COLLECTED + 10)  # fmt: skip


def templates() -> dict[int, list]:
    """Return all templates of ctFS."""
    return tpl.templates() | _data() | _tables() | _names() | _swaps()


def _inode_written(base: int) -> list:
    """Return the steps of cache_wb on an inode: flush each of its lines, then the last line again."""
    return [step(FLUSH, "inode", base, 0, INODE_BYTES), step(FLUSH, "inode", base, INODE_BYTES - 1, 1)]


def _resized(base: int) -> list:
    """Return the steps of inode_resize: store size, change time and modification time, then write the inode back."""
    return [step(STORE, "inode", base, 8, 8), step(STORE, "inode", base, 80, 32), *_inode_written(base)]


def _placed() -> list:
    """Return the steps of inode_resize_lvl: store size and block, then level; a moved file runs it after the swap of entries."""
    return [
        step(STORE, "inode", tpl.INODE, 8, 16),
        step(STORE, "inode", tpl.INODE, 56, 1),
    ]


def _data() -> dict[int, list]:
    """Return the templates of avx_cpy, and of the stores to the inode of a file that grew."""
    return {
        tpl.COPY_IN: [
            step(LOAD, "data copy", tpl.USER_AT, 0, 0, tpl.BYTES, space=USER),
            step(NTSTORE, "data copy", tpl.AT, 0, 0, tpl.BYTES),
            work("copy_call", 1),
            work("stream_line", 0, tpl.PAGES),
        ],
        COPY_EDGE: [
            step(LOAD, "data copy", tpl.USER_AT, 0, 0, tpl.BYTES, space=USER),
            step(STORE, "data copy", tpl.AT, 0, 0, tpl.BYTES),
            step(FLUSH, "data copy", tpl.TABLE, 0, 1),
            work("edge_byte", 0, tpl.BYTES),
        ],
        tpl.WRITTEN: _resized(tpl.INODE),
        tpl.RESIZED: _resized(tpl.INODE),
        tpl.FSYNC: [work("fsync_call", 1)],
    }


def _tables() -> dict[int, list]:
    """Return the templates of page tables and partitions.

    The sources are find_dax_ptep (persistent entries), install_pmd (their copies at a fault) and pgg
    (partitions).
    """
    return {
        tpl.NEW_SUPERS: [
            step(STORE, "free list", NONE, BITMAP, 64),
            step(FLUSH, "free list", NONE, BITMAP, 1),
            step(STORE, "page table", tpl.DIRECTORY, 0, 0, tpl.DIRECTORY_BYTES),
            step(FLUSH, "page table", tpl.DIRECTORY, 0, 0, tpl.DIRECTORY_BYTES),
            step(STORE, "page table", tpl.DIRECTORY, 0, 0, tpl.DIRECTORY_BYTES, space=KERNEL),
            work("new_superpage", 0, tpl.COUNT),
        ],
        tpl.NEW_TABLE: [
            step(STORE, "free list", NONE, BITMAP, 8),
            step(FLUSH, "free list", NONE, BITMAP, 1),
            step(STORE, "page table", tpl.DIRECTORY, 0, 8),
            step(FLUSH, "page table", tpl.DIRECTORY, 0, 8),
            work("new_table", 1),
        ],
        tpl.MAPPED: [
            step(STORE, "page table", tpl.PTE_AT, 0, 0, tpl.PTE_BYTES),
            step(FLUSH, "page table", tpl.PTE_AT, 0, 0, tpl.PTE_BYTES),
            step(STORE, "page table", tpl.PTE_AT, 0, 0, tpl.PTE_BYTES, space=KERNEL),
            work("new_page", 0, tpl.PAGES),
        ],
        tpl.UNMAPPED: [work("free_page", 1)],
        tpl.TABLE_GONE: [work("free_page", 1)],
        PARTITION: [step(STORE, "free list", NONE, HEADERS, 2), work("move_range", 1)],
        PLACED: _placed(),
        tpl.RANGE_MOVED: [
            *_swapped(),
            *_entries(tpl.DIRECTORY, tpl.DIRECTORY_BYTES),
            step(STORE, "free list", NONE, HEADERS, 2),
            *_placed(),
            step(FLUSH, "inode", tpl.INODE, 0, 1),
        ],
    }


def _names() -> dict[int, list]:
    """Return the templates of inode_create, inode_path2inode and ctfs_unlink; the store of its inode number commits a record."""
    return {
        tpl.ADD_DIRENT: [
            step(STORE, "directory", tpl.AT, 18, 0, tpl.FIELDS),
            step(FLUSH, "directory", tpl.AT, 0, 256),
            step(FLUSH, "directory", tpl.AT, 255, 1),
            step(STORE, "directory", tpl.AT, 0, 8),
            step(FLUSH, "directory", tpl.AT, 0, 8),
        ],
        tpl.DEL_DIRENT: [step(STORE, "directory", tpl.AT, 0, 8)],
        tpl.NEW_INODE: [
            step(STORE, "inode", NONE, INODE_BITMAP, 8),
            step(STORE, "inode", NONE, SUPERBLOCK, 16),
            step(FLUSH, "inode", NONE, SUPERBLOCK, 1),
            step(STORE, "inode", tpl.INODE, 0, INODE_BYTES),
            step(STORE, "inode", tpl.INODE, 0, 8),
            step(STORE, "inode", tpl.INODE, 64, 48),
            *_inode_written(tpl.INODE),
        ],
        tpl.DIR_GROWN: [
            *_resized(tpl.DIR),
            step(STORE, "inode", tpl.DIR, 24, 8),
            step(STORE, "inode", tpl.DIR, 96, 16),
            *_inode_written(tpl.DIR),
            step(STORE, "inode", tpl.DIR, 64, 32),
        ],
        tpl.DIR_LEFT: [step(STORE, "inode", tpl.DIR, 24, 8)],
        tpl.LINKS: [],
        tpl.EVICTED: [
            step(STORE, "inode", NONE, INODE_BITMAP, 8),
            step(STORE, "free list", NONE, HEADERS, 2),
            work("evict", 1),
        ],
        tpl.OPEN: [
            work("open", 1),
            step(LOAD, "inode", tpl.INODE, 0, 64),
            step(STORE, "inode", tpl.INODE, 112, 8),
        ],
        LOOKED: [step(STORE, "inode", tpl.DIR, 64, 16)],
    }


def _swapped() -> list:
    """Return the steps of the three stores to pswap's state, of which only the first two are written back."""
    return [
        step(STORE, "page table", NONE, STATE, 25),
        step(FLUSH, "page table", NONE, STATE, 64),
        step(STORE, "page table", NONE, STATE, 1),
        step(FLUSH, "page table", NONE, STATE, 64),
        step(STORE, "page table", NONE, STATE, 1),
        work("migrate_call", 1),
    ]


def _entries(base: int, by: int) -> list:
    """Return the steps of a swap: store and write back the persistent entries of both ranges, then store the process's entries."""
    return [
        step(STORE, "page table", base, 0, 0, by),
        step(FLUSH, "page table", base, 0, 0, by),
        step(STORE, "page table", NONE, STAGING, 0, by),
        step(FLUSH, "page table", NONE, STAGING, 0, by),
        step(STORE, "page table", base, 0, 0, by, space=KERNEL),
        step(STORE, "page table", NONE, STAGING, 0, by, space=KERNEL),
    ]


def _swaps() -> dict[int, list]:
    """Return the templates of an atomic write: take a staging partition, swap entries, free the partition."""
    return {
        SHADOW_COPY: [
            step(LOAD, "shadow copy", NONE, STAGING, 0, tpl.BYTES),
            step(STORE, "shadow copy", NONE, STAGING, 0, tpl.BYTES),
            work("copy_call", 1),
        ],
        SWAP: [
            step(STORE, "free list", NONE, HEADERS, 2),
            *_swapped(),
            step(STORE, "free list", NONE, HEADERS, 2),
            step(STORE, "inode", tpl.INODE, 57, 1),
            work("move_range", 2),
        ],
        SPLIT: [
            step(STORE, "page table", tpl.TABLE, 0, BLOCK),
            step(FLUSH, "page table", tpl.TABLE, 0, BLOCK),
            step(STORE, "page table", tpl.DIRECTORY, 0, 8),
            step(FLUSH, "page table", tpl.DIRECTORY, 0, 8),
            step(STORE, "page table", NONE, STAGING, BLOCK + 8),
            step(FLUSH, "page table", NONE, STAGING, BLOCK + 8),
            work("new_table", 2),
        ],
        SWAP_PAGES: [
            step(STORE, "page table", tpl.PTE_AT, 0, 0, tpl.PTE_BYTES),
            step(FLUSH, "page table", tpl.TABLE, 0, BLOCK),
            step(STORE, "page table", NONE, STAGING, 0, tpl.PTE_BYTES),
            step(FLUSH, "page table", NONE, STAGING, BLOCK),
            step(STORE, "page table", tpl.PTE_AT, 0, 0, tpl.PTE_BYTES, space=KERNEL),
            step(STORE, "page table", NONE, STAGING, 0, tpl.PTE_BYTES, space=KERNEL),
            work("new_page", 0, tpl.PAGES),
        ],
        SWAP_PIECES: _entries(tpl.DIRECTORY, tpl.DIRECTORY_BYTES),
    }
