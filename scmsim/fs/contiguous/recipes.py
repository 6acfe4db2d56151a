"""Mechanisms of the file systems whose files are contiguous in virtual memory, as recipes.

Sources: SCMFS superpage paper (2013), III and IV: block look-up by the page table alone, so a read or write is one copy between the
user's buffer and the file's addresses.  Metadata and page-table entries are ordered by memory barrier and clflush, file data is
not ordered (Linux' clflush_cache_range: a barrier before and one after the lines); a copy is one rep-string (Linux 2.6.33 on
CPUs with fast strings).  Which fields are stored, and directories as lists of records of a number, a link and a name, are
assumptions.
"""

from scmsim.core.records import FENCE, FLUSH, KERNEL, LOAD, STORE, USER
from scmsim.fs.engine.events import Steps

# Mechanism -> what the bytes that it stores are for.
SITES = {
    "syscall": "none",
    "data copy": "data",
    "block zeroing": "zeroing",
    "migration": "data",
    "shadow copy": "data",
    "allocation": "none",
    "free list": "metadata",
    "page table": "metadata",
    "inode": "metadata",
    "directory": "metadata",
    "directory scan": "none",
    "namespace": "none",
    "collector": "none",
    "fsync": "none",
}

COSTS = (
    "write_call", "read_call", "copy_call", "zero_call", "new_page", "free_page", "new_table", "move_range", "create", "open",
    "close", "unlink", "evict", "rename", "link", "mkdir", "rmdir", "stat", "readdir", "scan_entry", "truncate", "mmap",
    "fsync_call", "other_call", "new_superpage", "migrate_call", "collect_file",
)  # fmt: skip


# Registers.
(
    NONE, INODE, DIR, AT, BYTES, USER_AT, PAGES, PTE_AT, PTE_BYTES, TABLE, DIRECTORY, DIRECTORY_BYTES, DIRENT, COUNT, GROWN, FIELDS,
) = range(16)  # fmt: skip

# Recipes.  Those that are played at a file's addresses (`contiguous_map.play_at`) come first.
(
    COPY_IN, COPY_OUT, HOLE, CLEAR, MOVE_FROM, MOVE_TO, SCAN, ADD_DIRENT, DEL_DIRENT, WRITE, WRITTEN, READ, MAPPED, UNMAPPED,
    TABLE_GONE, NEW_TABLE, NEW_SUPERS, SWITCHED, RANGE_MOVED, CREATE, MKDIR, NEW_INODE, DIR_GROWN, LINKS, UNLINK, RMDIR,
    EVICTED, RENAME, LINK, OPEN, CLOSE, FSYNC, STAT, READDIR, MAP_CALL, OTHER, TRUNCATE, RESIZED, FALLOCATED, SCANNED,
    COLLECTED, PAGE_TAKEN,
    PAGE_FREED, ATTACHED, DETACHED, SHADOW_OPEN, SHADOW_COPY, SHADOW_CLOSE, DIR_LEFT, COPY_EDGE, PARTITION, LOOKED, SPLIT, SWAP,
    SWAP_PAGES, SWAP_PIECES, PLACED,
) = range(57)  # fmt: skip

BLOCK = 4096
INODE_BYTES = 128
TOP_TABLES = (
    4096  # device offset of the pages of page-directory entries: 8 bytes for each 2 MiB of addresses, folded to 2 MiB
)
TOP_BYTES = 2 << 20
INODE_TABLE = 4 << 20
DIRENT_HEADER = 16  # bytes of a directory's record before the name
_STEPS = Steps(SITES, COSTS)
_step, _work, _fence = _STEPS.run, _STEPS.work, _STEPS.fence


def _ordered(site: str, base: int, at: int = 0, length: int = 0, by: int = 0) -> list:
    """A store that is written back between two barriers."""
    fence = _fence(site)
    return [
        _step(STORE, site, base, at, length, by),
        fence,
        _step(FLUSH, site, base, at, length, by),
        fence,
    ]


def recipes(embedded: bool = False) -> dict[int, list]:
    """All recipes; `embedded`: of SIMFS, which orders nothing and counts a file's pages in its inode."""
    found = _data() | _tables() | _names() | _calls() | _embedded()
    if not embedded:
        return found
    found[MAPPED].append(_step(STORE, "inode", INODE, 24, 0, PTE_BYTES))
    return {number: [step for step in steps if step[0] & 255 not in (FENCE, FLUSH)] for number, steps in found.items()}


def _data() -> dict[int, list]:
    """Copies, and the inode of the file that is written or read."""
    return {
        COPY_IN: [
            _step(LOAD, "data copy", USER_AT, 0, 0, BYTES, space=USER),
            _step(STORE, "data copy", AT, 0, 0, BYTES),
            _work("copy_call", 1),
        ],
        COPY_OUT: [
            _step(LOAD, "data copy", AT, 0, 0, BYTES),
            _step(STORE, "data copy", USER_AT, 0, 0, BYTES, space=USER),
            _work("copy_call", 1),
        ],
        HOLE: [_step(STORE, "data copy", USER_AT, 0, 0, BYTES, space=USER), _work("copy_call", 1)],
        CLEAR: [_step(STORE, "block zeroing", AT, 0, 0, BYTES), _work("zero_call", 1)],
        MOVE_FROM: [_step(LOAD, "migration", AT, 0, 0, BYTES)],
        MOVE_TO: [_step(STORE, "migration", AT, 0, 0, BYTES), _work("copy_call", 1)],
        WRITE: [_work("write_call", 1), _step(LOAD, "inode", INODE, 0, 64)],
        WRITTEN: _ordered("inode", INODE, 16, 8, GROWN),
        READ: [_work("read_call", 1), _step(LOAD, "inode", INODE, 0, 64)],
        FALLOCATED: [_work("other_call", 1), _step(LOAD, "inode", INODE, 0, 64)],
    }


def _tables() -> dict[int, list]:
    """Page tables: the only index of a file's blocks."""
    return {
        MAPPED: [*_ordered("page table", PTE_AT, 0, 0, PTE_BYTES), _work("new_page", 0, PAGES)],
        UNMAPPED: [
            _step(LOAD, "page table", PTE_AT, 0, 0, PTE_BYTES),
            *_ordered("page table", PTE_AT, 0, 0, PTE_BYTES),
            _work("free_page", 0, PAGES),
        ],
        TABLE_GONE: [*_ordered("page table", DIRECTORY, 0, 0, DIRECTORY_BYTES), _work("free_page", 0, PAGES)],
        NEW_TABLE: [
            *_ordered("page table", TABLE, 0, BLOCK),
            *_ordered("page table", DIRECTORY, 0, 8),
            _work("new_table", 1),
        ],
        NEW_SUPERS: [*_ordered("page table", DIRECTORY, 0, 0, DIRECTORY_BYTES), _work("new_superpage", 0, COUNT)],
        SWITCHED: [
            *_ordered("page table", DIRECTORY, 0, 0, DIRECTORY_BYTES),
            *_ordered("inode", INODE, 32, 16),
            _work("migrate_call", 1),
            _work("free_page", 0, PAGES),
        ],
        RANGE_MOVED: [
            *_ordered("page table", DIRECTORY, 0, 0, DIRECTORY_BYTES),
            *_ordered("inode", INODE, 8, 8),
            _work("move_range", 1),
        ],
    }


def _names() -> dict[int, list]:
    """Namespace operations: the new inode is ordered before the record that names it, a record's end before its inode's."""
    return {
        SCAN: [_step(LOAD, "directory scan", AT, 0, 0, BYTES)],
        SCANNED: [_work("scan_entry", 0, COUNT)],
        ADD_DIRENT: _ordered("directory", AT, 0, 0, BYTES),
        DEL_DIRENT: _ordered("directory", AT, 0, 8),
        CREATE: [_work("create", 1)],
        MKDIR: [_work("mkdir", 1)],
        NEW_INODE: _ordered("inode", INODE, 0, INODE_BYTES),
        DIR_GROWN: _ordered("inode", DIR, 16, 16),
        DIR_LEFT: _ordered("inode", DIR, 16, 16),
        LINKS: _ordered("inode", INODE, 4, 4),
        UNLINK: [_work("unlink", 1)],
        RMDIR: [_work("rmdir", 1)],
        EVICTED: [*_ordered("inode", INODE, 0, 8), _work("evict", 1)],
        RENAME: [_work("rename", 1)],
        LINK: [_work("link", 1)],
    }


def _calls() -> dict[int, list]:
    """Calls that change no names."""
    fence = _fence("fsync")
    return {
        OPEN: [_work("open", 1), _step(LOAD, "inode", INODE, 0, 64)],
        CLOSE: [_work("close", 1)],
        FSYNC: [_work("fsync_call", 1), fence],
        STAT: [_work("stat", 1), _step(LOAD, "inode", INODE, 0, 64)],
        READDIR: [_work("readdir", 1)],
        MAP_CALL: [_work("mmap", 1)],
        OTHER: [_work("other_call", 1)],
        TRUNCATE: [_work("truncate", 1), _step(LOAD, "inode", INODE, 0, 64)],
        RESIZED: _ordered("inode", INODE, 16, 16),
        COLLECTED: [_work("collect_file", 0, COUNT)],
    }


def _embedded() -> dict[int, list]:
    """What SIMFS does beside: a list of free pages linked through their first 8 bytes, and mappings that come and go.

    Sources: SIMFS balloc.c (nvmm_new_block, nvmm_free_block), pgtable.c (nvmm_establish_mapping, nvmm_destroy_mapping), file.c
    (nvmm_consistency_function).
    """
    return {
        PAGE_TAKEN: [
            _step(LOAD, "free list", AT, 0, 0, BYTES, width=-8),
            _step(STORE, "free list", NONE, 64, 8, PTE_BYTES),
        ],
        PAGE_FREED: [
            _step(STORE, "block zeroing", AT, 0, 0, BYTES),
            _step(STORE, "free list", AT, 0, 0, BYTES, width=-8),
            _step(STORE, "free list", NONE, 64, 0, COUNT),
        ],
        ATTACHED: [_step(STORE, "page table", DIRECTORY, 0, 0, DIRECTORY_BYTES, space=KERNEL), _work("new_page", 1)],
        DETACHED: [_step(STORE, "page table", DIRECTORY, 0, 0, DIRECTORY_BYTES, space=KERNEL), _work("free_page", 1)],
        SHADOW_OPEN: [
            _step(STORE, "inode", INODE, 0, INODE_BYTES),
            _step(STORE, "page table", NONE, BLOCK, 3 * BLOCK + 24),
            _step(STORE, "page table", NONE, BLOCK, 0, PTE_BYTES),
            _step(STORE, "free list", NONE, 64, 8 + 3 * 16, PTE_BYTES),
            _work("new_table", 3),
            _work("new_page", 0, PAGES),
        ],
        SHADOW_COPY: [
            _step(LOAD, "shadow copy", NONE, BLOCK, 0, BYTES),
            _step(STORE, "shadow copy", NONE, BLOCK, 0, BYTES),
            _work("copy_call", 1),
        ],
        SHADOW_CLOSE: [
            _step(STORE, "page table", NONE, BLOCK, 16),
            _step(STORE, "block zeroing", NONE, BLOCK, 3 * BLOCK, BYTES),
            _step(STORE, "free list", NONE, 64, 3 * 24, COUNT),
            _work("free_page", 3, PAGES),
        ],
    }
