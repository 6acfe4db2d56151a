"""ext4's mechanisms as recipes: the events of each mechanism, in the order of the source.

Sources: Linux 5.13 fs/ext4/{file,inode,namei,ialloc}.c, fs/jbd2/commit.c, fs/dax.c,
arch/x86/lib/{usercopy_64.c,copy_user_64.S} (`__copy_user_flushcache`: 8-byte non-temporal stores, cached bytes at
unaligned ends, whose lines are written back; it ends with an sfence, measured: one per write), drivers/nvdimm/pmem.c
(`memcpy_flushcache` per page; `nvdimm_flush` is two sfences, measured: four per fsync).  Data structures that only the
cost rows know of have one run of 64 bytes or so here, so that a TLB sees them.
"""

from scmsim.core.records import FLUSH, KERNEL, LOAD, NTSTORE, PM, STORE, USER
from scmsim.fs.engine.events import Steps

# Mechanism -> what the bytes that it stores to persistent memory are for.
SITES = {
    "syscall": "none",
    "copy": "data",
    "zeroing": "zeroing",
    "page cache": "none",
    "mapping": "none",
    "allocation": "none",
    "journal handle": "none",
    "inode": "none",
    "orphan list": "none",
    "namespace": "none",
    "writeback": "data",
    "journal": "log",
    "checkpoint": "metadata",
}

COSTS = (
    "null_call", "dax_write_call", "dax_read_call", "map_run", "copy_line", "handle", "inode_update",
    "orphan", "allocate", "zero_block", "cache_write_call", "cache_page", "cache_page_new", "cache_read_call",
    "cache_read_page", "cache_fill_page", "timer_tick", "fsync_call", "flush_call", "flush_page", "flush_run",
    "commit", "journal_block", "revoke", "checkpoint_block", "create", "open", "close", "unlink", "remove",
    "free_run", "free_page", "rename", "link", "mkdir", "rmdir", "stat", "sync_call", "search_entry", "place_entry",
    "remove_entry", "lookup", "probe",
    "join_block", "cache_page_dirty", "access_time",
)  # fmt: skip

# Registers.
(
    ZERO, INODE, SLOT, USER_AT, BYTES, TO, HEAD, HEAD_LINE, BODY_USER, BODY_AT, BODY, WIDTH, TAIL_USER,
    TAIL_AT, TAIL, TAIL_LINE_AT, TAIL_LINE, LINES, FROM, HAS, PAGES, NEW, GROWN, COUNT, BITMAP, GROUP, LOG,
    LOG_WRAPPED, COMMIT_AT, REVOKES,
) = range(30)  # fmt: skip
# Entries of a directory that are looked at for a name, for room, and for the one before an entry that goes; names that the dentry
# cache does not know, and searches of an index.
SEARCHED, PLACED, REMOVED, LOOKUPS, PROBES = NEW, GROWN, COUNT, HAS, PAGES
# A file system without a journal uses these for other things.
LEVELS, SCANNED, POINTERS = LOG, LOG_WRAPPED, COMMIT_AT

# Recipes.
(
    WRITE, TIMES, ALLOCATE, COPY, FINISH, FILL, READ, COPY_OUT, READ_PAGES, DIRTY_INODE, FLUSH_RUN,
    FLUSH_LOAD, FLUSHED, FSYNC, BARRIER, IMAGE, COMMIT, CHECKPOINT, IN_PLACE, NAME, CREATE, OPEN, CLOSE, STAT,
    OTHER, UNLINK, REMOVE, RMDIR, RENAME, LINK, MKDIR, FREED, TRUNCATE, FALLOCATE, FALLOCATED, CLEAR_PM,
    CLEAR_FRAME, ORPHAN, SYNC, EDGES, MAP, SCAN, JOINED, ACCESSED,
) = range(44)  # fmt: skip

RECIPES = ACCESSED + 1
BLOCK = 4096
BARRIER_FENCES = 2
# Where kernel objects lie in space KERNEL: areas of 1 TiB, far more than they use.
ZERO_PAGE, BUFFERS, INODES, FRAMES, DESCRIPTORS = BLOCK, 1 << 40, 2 << 40, 3 << 40, 4 << 40
_STEPS = Steps(SITES, COSTS, KERNEL)
_run, _work, _fence = _STEPS.run, _STEPS.work, _STEPS.fence


_INODE = _run(LOAD, "inode", INODE, 0, 64)


def _call(cost: str) -> list:
    return [_work(cost, 1), _INODE]


def dax_recipes(copy_fence: bool) -> dict[int, list]:
    """write() and read() without a page cache."""
    return {
        WRITE: _call("dax_write_call"),
        ALLOCATE: [
            _run(STORE, "allocation", BITMAP, 0, 8),
            _run(STORE, "allocation", GROUP, 0, 64),
            _work("allocate", 1),
            _work("zero_block", 0, COUNT),
            _run(LOAD, "zeroing", ZERO, ZERO_PAGE, BLOCK),
            _run(NTSTORE, "zeroing", TO, 0, 0, BYTES, space=PM, width=8),
        ],
        COPY: [
            _work("map_run", 1),
            _run(LOAD, "copy", USER_AT, 0, 0, HEAD, space=USER, width=1),
            _run(STORE, "copy", TO, 0, 0, HEAD, space=PM, width=1),
            _run(LOAD, "copy", BODY_USER, 0, 0, BODY, space=USER, width=8, width_by=WIDTH),
            _run(NTSTORE, "copy", BODY_AT, 0, 0, BODY, space=PM, width=8, width_by=WIDTH),
            _run(LOAD, "copy", TAIL_USER, 0, 0, TAIL, space=USER, width=1),
            _run(STORE, "copy", TAIL_AT, 0, 0, TAIL, space=PM, width=1),
            *(
                [_fence("copy", 1)] if copy_fence else []
            ),  # ends the kernel's copy routine; orders nothing of ext4's own
            _run(FLUSH, "copy", TO, 0, 0, HEAD_LINE, space=PM),
            _run(FLUSH, "copy", TAIL_LINE_AT, 0, 0, TAIL_LINE, space=PM),
            _work("copy_line", 0, LINES),
        ],
        # Three handles: on the orphan list, allocation, and size and off the orphan list.
        FINISH: [
            _work("handle", 0, GROWN),
            _work("inode_update", 0, NEW),
            _work("orphan", 0, HAS),
            _run(STORE, "orphan list", ZERO, BUFFERS, 0, HAS),
        ],
        READ: _call("dax_read_call"),
        COPY_OUT: [
            _work("map_run", 1),
            _run(LOAD, "copy", FROM, 0, 0, HAS, space=PM),
            _run(STORE, "copy", USER_AT, 0, 0, BYTES, space=USER),
        ],
        READ_PAGES: [_work("timer_tick", 0, LINES)],
    }


def cache_recipes() -> dict[int, list]:
    """write(), read() and write-back with a page cache."""
    return {
        WRITE: _call("cache_write_call"),
        COPY: [
            _run(LOAD, "copy", USER_AT, 0, 0, BYTES, space=USER),
            _run(STORE, "copy", TO, 0, 0, BYTES),
        ],
        FINISH: [
            _work("cache_page", 0, PAGES),
            _work("handle", 0, PAGES),
            _work("cache_page_new", 0, NEW),
            _work("cache_page_dirty", 0, HAS),
            _work("inode_update", 0, GROWN),
        ],
        FILL: [
            _work("cache_fill_page", 1),
            _run(LOAD, "page cache", FROM, 0, BLOCK, space=PM),
            _run(STORE, "page cache", TO, 0, BLOCK),
        ],
        READ: _call("cache_read_call"),
        COPY_OUT: [
            _run(LOAD, "copy", FROM, 0, 0, HAS),
            _run(STORE, "copy", USER_AT, 0, 0, BYTES, space=USER),
        ],
        READ_PAGES: [
            _work("cache_read_page", 0, PAGES),
            _work("cache_page_new", 0, NEW),
            _work("timer_tick", 0, LINES),
        ],
        FLUSH_RUN: [_run(NTSTORE, "writeback", TO, 0, 0, BYTES, space=PM, width=8)],
        FLUSH_LOAD: [_run(LOAD, "writeback", FROM, 0, 0, HAS, width=8)],
        FLUSHED: [_work("flush_call", 1), _work("flush_page", 0, PAGES), _work("flush_run", 0, NEW)],
    }


def journal_recipes() -> dict[int, list]:
    """Handles, commit and checkpoint.  A commit block goes out between two flushes of the device (REQ_PREFLUSH,
    REQ_FUA)."""
    return {
        TIMES: [_work("handle", 1), _work("inode_update", 1)],
        ACCESSED: [_work("access_time", 1)],
        JOINED: [_work("join_block", 0, COUNT)],
        DIRTY_INODE: [_run(STORE, "inode", SLOT, 0, 160)],
        FSYNC: [_work("fsync_call", 1)],
        BARRIER: [_fence("journal", BARRIER_FENCES)],
        IMAGE: [_run(LOAD, "journal", FROM, BUFFERS, BLOCK, width=8)],
        COMMIT: [
            _work("commit", 1),
            _work("journal_block", 0, COUNT),
            _work("revoke", 0, REVOKES),
            _run(LOAD, "journal", ZERO, DESCRIPTORS, 0, BYTES, width=8),
            _run(NTSTORE, "journal", TO, 0, 0, LOG, space=PM, width=8),
            _run(NTSTORE, "journal", FROM, 0, 0, LOG_WRAPPED, space=PM, width=8),
            _fence("journal", BARRIER_FENCES),
            _run(NTSTORE, "journal", COMMIT_AT, 0, BLOCK, space=PM, width=8),
            _fence("journal", BARRIER_FENCES),
        ],
        CHECKPOINT: [_work("checkpoint_block", 0, COUNT), _fence("checkpoint", BARRIER_FENCES)],
        IN_PLACE: [
            _run(LOAD, "checkpoint", FROM, BUFFERS, BLOCK, width=8),
            _run(NTSTORE, "checkpoint", FROM, 0, BLOCK, space=PM, width=8),
        ],
        SYNC: [_work("sync_call", 1)],
    }


def name_recipes() -> dict[int, list]:
    """Calls other than read and write."""
    orphan = _run(STORE, "orphan list", ZERO, BUFFERS, 8)
    return {
        NAME: [
            _run(LOAD, "namespace", FROM, BUFFERS, BLOCK),
            _work("search_entry", 0, SEARCHED),
            _work("place_entry", 0, PLACED),
            _work("remove_entry", 0, REMOVED),
            _work("lookup", 0, LOOKUPS),
            _work("probe", 0, PROBES),
            _run(STORE, "namespace", FROM, BUFFERS, 64),
        ],
        CREATE: _call("create"),
        OPEN: _call("open"),
        CLOSE: _call("close"),
        STAT: _call("stat"),
        OTHER: _call("null_call"),
        UNLINK: _call("unlink"),
        REMOVE: [*_call("remove"), orphan],
        RMDIR: [*_call("rmdir"), orphan],
        RENAME: _call("rename"),
        LINK: _call("link"),
        MKDIR: _call("mkdir"),
        FREED: [_work("free_run", 0, COUNT), _work("free_page", 0, PAGES)],
        TRUNCATE: [*_call("null_call"), _work("handle", 2), _work("inode_update", 2), _work("orphan", 1), orphan],
        FALLOCATE: [*_call("null_call"), _work("handle", 1), _work("inode_update", 1)],
        FALLOCATED: [_work("allocate", 0, COUNT)],
        CLEAR_PM: [
            _run(STORE, "zeroing", TO, 0, 0, BYTES, space=PM),
            _run(FLUSH, "zeroing", TO, 0, 0, BYTES, space=PM),
        ],
        CLEAR_FRAME: [_run(STORE, "page cache", TO, 0, 0, BYTES)],
        ORPHAN: [_work("handle", 1), _work("orphan", 1), orphan],
    }


def all_recipes(dax: bool, copy_fence: bool = False) -> dict[int, list]:
    """Every recipe of a model by number; those that it never plays are empty."""
    every = (dax_recipes(copy_fence) if dax else cache_recipes()) | journal_recipes() | name_recipes()
    return {number: every.get(number, []) for number in range(RECIPES)}
