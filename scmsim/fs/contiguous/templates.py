"""Mechanisms of the file systems whose files are contiguous in virtual memory, as templates.

Sources: SCMFS superpage paper (2013), III and IV: the page table alone finds blocks, so a read or write is one copy
between the user's buffer and the file's addresses.  Metadata and page-table entries are ordered by memory barrier and
clflush, file data is not ordered (Linux's clflush_cache_range: a barrier before and one after the lines); a copy is one
rep-string (Linux 2.6.33 on CPUs with fast strings).  The stored fields, and directories as lists of records of a
number, a link and a name, are assumptions.
"""

from scmsim.core.records import FLUSH, LOAD, STORE, USER
from scmsim.fs.engine.events import TemplateBuilder

# Mechanism -> purpose of the bytes that it stores.
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

# Templates.  The templates that run at a file's addresses (`play_at`) come first.
(
    COPY_IN, COPY_OUT, HOLE, CLEAR, MOVE_FROM, MOVE_TO, SCAN, ADD_DIRENT, DEL_DIRENT, WRITE, WRITTEN, READ, MAPPED, UNMAPPED,
    TABLE_GONE, NEW_TABLE, NEW_SUPERS, SWITCHED, RANGE_MOVED, CREATE, MKDIR, NEW_INODE, DIR_GROWN, DIR_LEFT, LINKS, UNLINK, RMDIR,
    EVICTED, RENAME, LINK, OPEN, CLOSE, FSYNC, STAT, READDIR, MAP, OTHER, TRUNCATE, RESIZED, FALLOCATED, SCANNED,
    COLLECTED,
) = range(42)  # fmt: skip

BLOCK = 4096
INODE_BYTES = 128
TOP_TABLES = 4096  # device offset of the pages of page-directory entries: 8 bytes for each 2 MiB of addresses
TOP_BYTES = 2 << 20  # bytes of these pages; entries beyond them start again at TOP_TABLES
INODE_TABLE = 4 << 20
DIRENT_HEADER = 16  # bytes of a directory's record before the name
_STEPS = TemplateBuilder(SITES, COSTS)
step, work, fence = _STEPS.run, _STEPS.work, _STEPS.fence


def _ordered(site: str, base: int, at: int = 0, length: int = 0, by: int = 0) -> list:
    """Return the steps of a store that is written back between two barriers."""
    return [
        step(STORE, site, base, at, length, by),
        fence(site),
        step(FLUSH, site, base, at, length, by),
        fence(site),
    ]


def templates() -> dict[int, list]:
    """Return all templates."""
    return _data() | _tables() | _names() | _calls()


def _data() -> dict[int, list]:
    """Return the templates of copies, and of the inode of the file that is read or written."""
    return {
        COPY_IN: [
            step(LOAD, "data copy", USER_AT, 0, 0, BYTES, space=USER),
            step(STORE, "data copy", AT, 0, 0, BYTES),
            work("copy_call", 1),
        ],
        COPY_OUT: [
            step(LOAD, "data copy", AT, 0, 0, BYTES),
            step(STORE, "data copy", USER_AT, 0, 0, BYTES, space=USER),
            work("copy_call", 1),
        ],
        HOLE: [step(STORE, "data copy", USER_AT, 0, 0, BYTES, space=USER), work("copy_call", 1)],
        CLEAR: [step(STORE, "block zeroing", AT, 0, 0, BYTES), work("zero_call", 1)],
        MOVE_FROM: [step(LOAD, "migration", AT, 0, 0, BYTES)],
        MOVE_TO: [step(STORE, "migration", AT, 0, 0, BYTES), work("copy_call", 1)],
        WRITE: [work("write_call", 1), step(LOAD, "inode", INODE, 0, 64)],
        WRITTEN: _ordered("inode", INODE, 16, 8, GROWN),
        READ: [work("read_call", 1), step(LOAD, "inode", INODE, 0, 64)],
        FALLOCATED: [work("other_call", 1), step(LOAD, "inode", INODE, 0, 64)],
    }


def _tables() -> dict[int, list]:
    """Return the templates of page tables, the only index of a file's blocks."""
    return {
        MAPPED: [*_ordered("page table", PTE_AT, 0, 0, PTE_BYTES), work("new_page", 0, PAGES)],
        UNMAPPED: [
            step(LOAD, "page table", PTE_AT, 0, 0, PTE_BYTES),
            *_ordered("page table", PTE_AT, 0, 0, PTE_BYTES),
            work("free_page", 0, PAGES),
        ],
        TABLE_GONE: [*_ordered("page table", DIRECTORY, 0, 0, DIRECTORY_BYTES), work("free_page", 0, PAGES)],
        NEW_TABLE: [
            *_ordered("page table", TABLE, 0, BLOCK),
            *_ordered("page table", DIRECTORY, 0, 8),
            work("new_table", 1),
        ],
        NEW_SUPERS: [*_ordered("page table", DIRECTORY, 0, 0, DIRECTORY_BYTES), work("new_superpage", 0, COUNT)],
        SWITCHED: [
            *_ordered("page table", DIRECTORY, 0, 0, DIRECTORY_BYTES),
            *_ordered("inode", INODE, 32, 16),
            work("migrate_call", 1),
            work("free_page", 0, PAGES),
        ],
        RANGE_MOVED: [
            *_ordered("page table", DIRECTORY, 0, 0, DIRECTORY_BYTES),
            *_ordered("inode", INODE, 8, 8),
            work("move_range", 1),
        ],
    }


def _names() -> dict[int, list]:
    """Return the templates of namespace operations: fences order inode before record, record before directory inode."""
    return {
        SCAN: [step(LOAD, "directory scan", AT, 0, 0, BYTES)],
        SCANNED: [work("scan_entry", 0, COUNT)],
        ADD_DIRENT: _ordered("directory", AT, 0, 0, BYTES),
        DEL_DIRENT: _ordered("directory", AT, 0, 8),
        CREATE: [work("create", 1)],
        MKDIR: [work("mkdir", 1)],
        NEW_INODE: _ordered("inode", INODE, 0, INODE_BYTES),
        DIR_GROWN: _ordered("inode", DIR, 16, 16),
        DIR_LEFT: _ordered("inode", DIR, 16, 16),
        LINKS: _ordered("inode", INODE, 4, 4),
        UNLINK: [work("unlink", 1)],
        RMDIR: [work("rmdir", 1)],
        EVICTED: [*_ordered("inode", INODE, 0, 8), work("evict", 1)],
        RENAME: [work("rename", 1)],
        LINK: [work("link", 1)],
    }


def _calls() -> dict[int, list]:
    """Return the templates of calls that change no names."""
    return {
        OPEN: [work("open", 1), step(LOAD, "inode", INODE, 0, 64)],
        CLOSE: [work("close", 1)],
        FSYNC: [work("fsync_call", 1), fence("fsync")],
        STAT: [work("stat", 1), step(LOAD, "inode", INODE, 0, 64)],
        READDIR: [work("readdir", 1)],
        MAP: [work("mmap", 1)],
        OTHER: [work("other_call", 1)],
        TRUNCATE: [work("truncate", 1), step(LOAD, "inode", INODE, 0, 64)],
        RESIZED: _ordered("inode", INODE, 16, 16),
        COLLECTED: [work("collect_file", 0, COUNT)],
    }
