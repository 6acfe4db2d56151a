"""Define DaxFS's mechanisms as templates: the events of each mechanism, in the order of the source.

The numbers and registers of Linux's templates are kept.  A cmpxchg is a load and a store of 8 bytes; smp_wmb and smp_rmb
take no instruction on x86, so nothing emits a fence or a write-back.
Source: daxfs/overlay.c (overlay_lookup, overlay_insert, overlay_pool_bump), daxfs/file.c, daxfs/dax_mem.c (daxfs_mem_sync).
"""

from scmsim.core.records import KERNEL, LOAD, STORE, USER
from scmsim.fs.engine.events import TemplateBuilder
from scmsim.fs.linux import templates as q

# Mechanism -> purpose of the bytes that it stores.
SITES = {
    "syscall": "none",
    "copy": "data",
    "zeroing": "zeroing",
    "hash table": "metadata",
    "pool": "metadata",
    "entry": "metadata",
    "inode": "none",
    "namespace": "none",
}

COSTS = (
    "null_call", "write_call", "read_call", "find_page", "probe", "insert", "bump", "fill_entry", "compare_entry", "zero_page",
    "copy_run", "fsync_call", "create", "open", "close", "unlink", "remove", "rename", "link", "mkdir", "rmdir", "stat",
    "readdir", "list_entry",
)  # fmt: skip

AT, REST = 30, 31  # registers after those of Linux: a device offset; bytes that a probe reads after wrapping around

OPEN, CLOSE, FSYNC, STAT, OTHER = q.OPEN, q.CLOSE, q.FSYNC, q.STAT, q.OTHER
(
    MAP, PROBE, INSERT, BUMP, NUMBER, POP, PUSH, FILL_INODE, FILL_DIRENT, FILL_LIST, LINK_LIST, READ_ENTRY, SET_SIZE,
    REVIVE, TOMBSTONE, ZERO, COPY_HOLE, FOUND,
) = range(q.TEMPLATES, q.TEMPLATES + 18)  # fmt: skip
TEMPLATES = FOUND + 1

PAGE = 4096
HEADER = PAGE  # device offset of the overlay's header, after the superblock
TABLE = 2 * PAGE  # device offset of the buckets, 16 bytes each
BUCKET = 16
ALLOC, NEXT_INO, FREE_DATA = HEADER + 32, HEADER + 40, HEADER + 56  # struct daxfs_overlay_header
INODE_BYTES, DIRENT_BYTES, LIST_BYTES = 32, 304, 16  # pool entries
DIRENT_HEAD = 48  # struct daxfs_ovl_dirent_entry without its name


def templates() -> dict[int, list]:
    """Return every template by number."""
    steps = TemplateBuilder(SITES, COSTS)
    run, work = steps.run, steps.work

    def call(cost: str) -> list:
        return [work(cost, 1), run(LOAD, "inode", q.INODE, 0, 64, space=KERNEL)]

    def swap(site: str, base: int, at: int) -> list:
        return [run(LOAD, site, base, at, 8), run(STORE, site, base, at, 8)]

    every = {
        q.WRITE: call("write_call"),
        q.COPY: [
            run(LOAD, "copy", q.USER_AT, 0, 0, q.BYTES, space=USER),
            run(STORE, "copy", q.TO, 0, 0, q.BYTES),
            work("copy_run", 1),
        ],
        q.READ: call("read_call"),
        q.COPY_OUT: [
            run(LOAD, "copy", q.FROM, 0, 0, q.BYTES),
            run(STORE, "copy", q.USER_AT, 0, 0, q.BYTES, space=USER),
            work("copy_run", 1),
        ],
        COPY_HOLE: [run(STORE, "copy", q.USER_AT, 0, 0, q.BYTES, space=USER), work("copy_run", 1)],
        **q.plain_calls(call, work),
        # Simplified: the entries of a directory's list are read as one run.
        q.LIST: [*call("readdir"), work("list_entry", 0, q.COUNT), run(LOAD, "entry", AT, 0, 0, q.BYTES)],
        MAP: call("null_call"),
        FOUND: [work("find_page", 0, q.COUNT)],
        PROBE: [
            work("probe", 0, q.PROBES),
            run(LOAD, "hash table", AT, 0, 0, q.BYTES),
            run(LOAD, "hash table", q.ZERO, TABLE, 0, REST),
        ],
        # The value is stored before the key is published.
        INSERT: [run(STORE, "hash table", AT, 8, 8), *swap("hash table", AT, 0), work("insert", 1)],
        BUMP: [*swap("pool", q.ZERO, ALLOC), work("bump", 1)],
        NUMBER: [*swap("pool", q.ZERO, NEXT_INO), work("bump", 1)],
        POP: [run(LOAD, "pool", AT, 0, 8), *swap("pool", q.ZERO, FREE_DATA), work("bump", 1)],
        PUSH: [run(STORE, "pool", AT, 0, 8), *swap("pool", q.ZERO, FREE_DATA), work("bump", 1)],
        FILL_INODE: [run(STORE, "entry", AT, 0, INODE_BYTES), work("fill_entry", 1)],
        FILL_DIRENT: [run(STORE, "entry", AT, 0, DIRENT_HEAD + 1, q.BYTES), work("fill_entry", 1)],
        FILL_LIST: [run(STORE, "entry", AT, 0, LIST_BYTES), work("fill_entry", 1)],
        LINK_LIST: [run(STORE, "entry", AT, 40, 8), *swap("entry", q.TO, 8), work("insert", 1)],
        READ_ENTRY: [run(LOAD, "entry", AT, 0, 0, q.BYTES), work("compare_entry", 1)],
        SET_SIZE: [run(STORE, "entry", AT, 16, 8), work("fill_entry", 1)],
        REVIVE: [run(STORE, "entry", AT, 16, 12), run(STORE, "entry", AT, 4, 4), work("fill_entry", 1)],
        TOMBSTONE: [run(STORE, "entry", AT, 4, 4)],
        ZERO: [run(STORE, "zeroing", q.TO, 0, 0, q.BYTES), work("zero_page", 1)],
    }
    return {number: every.get(number, []) for number in range(TEMPLATES)}
