"""NOVA's mechanisms as recipes: every event of each mechanism, in the order of the source.

Sources: NOVA (Linux 5.1 lineage) fs/nova/{file,dax,log,gc,journal,namei,inode}.c and inode.h, log.h; helpers: nova_flush_buffer
(one clwb a line), memcpy_to_pmem_nocache (8-byte non-temporal stores, then a fence).  FAST'16: the same without entry clearing,
page counters and inode write-back.  Field bytes of an inode (100) and of a changed dentry (30) are those that make create and
unlink store what was measured on the 5.13 port (296 and 553 bytes).
"""

from scmsim.fs.parts.emit import Steps
from scmsim.records import FENCE, FLUSH, KERNEL, LOAD, NTSTORE, STACK, STORE, USER

# Mechanism -> what the bytes that it stores are for.
SITES = {
    "syscall": "none",
    "data copy": "data",
    "partial block": "data",
    "block zeroing": "zeroing",
    "allocation": "none",
    "log append": "log",
    "log extension": "log",
    "log scan": "none",
    "log gc": "log",
    "log commit": "metadata",
    "radix tree": "none",
    "entry invalidation": "log",
    "journal": "log",
    "entry update": "log",
    "inode": "metadata",
    "namespace": "metadata",
    "fsync": "none",
}

COSTS = (
    "write_call", "cow_write", "inplace_write", "check_entry", "allocate", "partial_end", "partial_line", "copy_call",
    "copy_line", "append_entry", "commit_tail", "assign_entry", "page_insert", "page_replace", "node_allocate",
    "free_old_entry", "update_entry", "read_call", "read_extent", "extend_log", "extend_page", "scan_page", "scan_entry",
    "gc_entry", "gc_copy", "gc_page_reassign", "fsync_call", "create", "open", "close", "unlink", "free_page", "rename",
    "link", "mkdir", "rmdir", "stat", "readdir", "truncate", "mmap", "other_call", "timer_tick", "stack_word",
)  # fmt: skip

ONE = 1  # a constant that compiled kernels do not take for a literal (see _jit.part)

# Registers.
(
    ZERO, INODE, PARENT, ENTRY, PAGE, FROM, TO, USER_AT, BYTES, LINES, HEAD, BODY_AT, BODY, EDGE_AT, EDGE, OLD, OLD_PAGE, DEAD,
    JOURNAL, NODE, INSERTED, REPLACED, NODES, COUNT, ENTRIES, FIELDS, HAS, CHECKED, ASSIGNED,
) = range(29)  # fmt: skip

# Recipes.
(
    WRITE, FIND, ALLOCATE, FILL_OLD, FILL_ZERO, COPY, APPEND, RECORD, NEXT_PAGE, COMMIT, ASSIGN, FREE_OLD, UPDATE, READ,
    READ_EXTENT, LOG_START, LOG_PAGES, LOG_EXTEND, LOG_SCAN, LOG_SCANNED, LOG_DROP, LOG_LINK, GC_PAGE, GC_SWITCH, CREATE, MKDIR,
    DROP_NAME, LINK_CHANGE, UNLINK, RMDIR, EVICT, RENAME, LINK, TRUNCATE, TRUNCATE_TAIL, FREED, ZEROED, OPEN, CLOSE, FSYNC, STAT,
    READDIR, MAP, OTHER, RENAME_OVER,
) = range(45)  # fmt: skip

# Layout of the device, bytes.
BLOCK = 4096
LOG_BYTES = 4064  # of a log page; then the page tail: counters 2 x 4, epoch 8, replica 8, next page 8
LINK_BYTES = 40  # log entries without data, 5.1 lineage
SETATTR_BYTES = 56
DOT_BYTES = 56
FAST16_BYTES = 32  # each of these in FAST'16
JOURNAL_POINTERS = 48 * BLOCK
JOURNAL_PAGE = 64 * BLOCK
_STEPS = Steps(SITES, COSTS)
_step, _work, _fence = _STEPS.run, _STEPS.work, _STEPS.fence


def _commit(base: int, counters: bool, inode_fence: bool) -> list:
    """nova_update_tail, then the inode's checksum write-back (5.1 lineage; its own fence only in the 5.13 port)."""
    return [
        _fence("log commit"),
        _step(STORE, "log commit", base, 72, 8),
        _step(FLUSH, "log commit", base, 72, 64),
        _fence("log commit"),
        *([_step(FLUSH, "log commit", base, 0, 120)] if counters else []),
        *([_fence("log commit")] if inode_fence else []),
        _work("commit_tail", 1),
    ]


def _journal(source: int, records: int) -> list:
    """Lite transaction: 32-byte records of old 8-byte values with a checksum, then the journal's tail pointer.

    Loaded: the pair of pointers (head, tail, head again), the old values, and each record but its checksum.
    """
    return [
        _step(LOAD, "journal", ZERO, JOURNAL_POINTERS, 24),
        _step(LOAD, "journal", source, 0, 8 * records),
        _step(LOAD, "journal", JOURNAL, 0, 28 * records),
        _step(STORE, "journal", JOURNAL, 0, 32 * records),
        _step(FLUSH, "journal", JOURNAL, 0, 32 * records),
        _fence("journal"),
        _step(STORE, "journal", ZERO, JOURNAL_POINTERS + 8, 8),
        _step(FLUSH, "journal", ZERO, JOURNAL_POINTERS + 8, 8),
        _fence("journal"),
    ]


def _journal_commit() -> list:
    return [
        _step(LOAD, "journal", ZERO, JOURNAL_POINTERS + 8, 8),
        _step(STORE, "journal", ZERO, JOURNAL_POINTERS, 8),
        _step(FLUSH, "journal", ZERO, JOURNAL_POINTERS, 8),
        _fence("journal"),
    ]


def _fill(site: str, load: bool) -> list:
    """One unwritten end of a partly written block, from the old block or with zeroes; written back without a fence."""
    return [
        *([_step(LOAD, site, ENTRY, 0, 20), _step(LOAD, site, FROM, 0, 0, BYTES)] if load else []),
        _step(STORE, site, TO, 0, 0, BYTES),
        _step(FLUSH, site, TO, 0, 0, BYTES),
        _work("partial_end", 1),
        _work("partial_line", 0, LINES),
    ]


def data_recipes(inplace: bool, counters: bool, inode_fence: bool) -> dict[int, list]:
    """write() and read()."""
    entry_bytes = 64 if counters else 40
    # The in-place path keeps its entry unaligned on the stack, so that flush covers one line more (measured, 5.13 port).
    stack = [_step(FLUSH, "log append", ZERO, 32 if inplace else 0, 64, space=STACK)] if counters else []
    page_tail = [
        _step(LOAD, "log append", PAGE, LOG_BYTES, 4),
        _step(STORE, "log append", PAGE, LOG_BYTES, 4),
        _step(FLUSH, "log append", PAGE, LOG_BYTES, 4),
    ]
    return {
        WRITE: [
            *([_step(LOAD, "inode", INODE, 0, 120)] if counters else []),
            _work("write_call", 1),
            _work("inplace_write" if inplace else "cow_write", 1),
        ],
        FIND: [_work("check_entry", 1)],
        ALLOCATE: [_work("allocate", 1)],
        FILL_OLD: _fill("partial block", True),
        FILL_ZERO: _fill("block zeroing", False),
        COPY: [
            _step(LOAD, "data copy", USER_AT, 0, 0, BYTES, space=USER, width=8),
            _step(STORE, "data copy", TO, 0, 0, HEAD),
            _step(NTSTORE, "data copy", BODY_AT, 0, 0, BODY, width=8),
            _step(STORE, "data copy", EDGE_AT, 0, 0, EDGE),
            _fence("data copy"),
            _work("copy_call", 1),
            _work("copy_line", 0, LINES),
        ],
        APPEND: [
            *stack,
            *([_step(STORE, "log append", ENTRY, 0, entry_bytes)] if counters else []),
            _work("stack_word", entry_bytes // 8),  # loads of the copy on the stack, one for each store
            _step(NTSTORE, "log append", ENTRY, 0, entry_bytes, width=8),
            _fence("log append"),
            *(page_tail if counters else []),
            _work("append_entry", 1),
        ],
        RECORD: [
            _step(STORE, "log append", ENTRY, 0, 0, BYTES),
            _step(STORE, "log append", ENTRY, 0, 0, FIELDS),
            *(page_tail if counters else []),
            _step(FLUSH, "log append", ENTRY, 0, 0, BYTES),
        ],
        NEXT_PAGE: [_step(LOAD, "log append", PAGE, LOG_BYTES, 32)],
        COMMIT: _commit(INODE, counters, inode_fence),
        ASSIGN: [
            _step(LOAD, "radix tree", ENTRY, 0, 13),
            _step(STORE, "radix tree", NODE, 0, 8, space=KERNEL),
            _work("assign_entry", 1),
            _work("page_insert", 0, INSERTED),
            _work("page_replace", 0, REPLACED),
            _work("node_allocate", 0, NODES),
        ],
        FREE_OLD: [
            _step(LOAD, "entry invalidation", OLD, 0, 49 if counters else 24),
            *([_step(LOAD, "entry invalidation", OLD_PAGE, LOG_BYTES, 0, DEAD)] if counters else []),
            _step(STORE, "entry invalidation", OLD, 0, 5 if counters else 4),
            *([_step(STORE, "entry invalidation", OLD_PAGE, LOG_BYTES, 0, DEAD)] if counters else []),
            *([_step(FLUSH, "entry invalidation", OLD_PAGE, LOG_BYTES, 0, DEAD)] if counters else []),
            _step(FLUSH, "entry invalidation", OLD, 0, entry_bytes if counters else 8),
            _work("free_old_entry", 1),
        ],
        UPDATE: [
            _step(LOAD, "entry update", ENTRY, 0, 41),  # found: 21, then its block: 20
            *_journal(ENTRY, 8),
            _step(STORE, "entry update", ENTRY, 0, 29),
            _step(FLUSH, "entry update", ENTRY, 0, 64),
            _fence("entry update"),
            *_journal_commit(),
            _work("update_entry", 1),
        ],
        READ: [_work("read_call", 1)],
        READ_EXTENT: [
            _step(LOAD, "radix tree", ENTRY, 0, 0, HAS),
            _step(LOAD, "data copy", FROM, 0, 0, EDGE),
            _step(LOAD, "radix tree", NODE, 0, 8, space=KERNEL),
            _step(STORE, "data copy", USER_AT, 0, 0, BYTES, space=USER),
            _work("read_extent", 1),
            _work("timer_tick", 0, LINES),
        ],
    }


def log_recipes(counters: bool) -> dict[int, list]:
    """Growth of a log, the scan at each extension, and garbage collection."""
    entry_bytes = 64 if counters else 40
    page_tail = 16 if counters else 8  # counters and next page, or next page alone
    scanned = 40 if counters else LOG_BYTES // entry_bytes * entry_bytes
    return {
        LOG_START: [
            _fence("log extension"),
            _step(STORE, "log extension", INODE, 64, 16),
            _step(FLUSH, "log extension", INODE, 72, 64),
            _step(FLUSH, "log extension", INODE, 64, 64),
            _fence("log extension"),
        ],
        LOG_PAGES: [
            _step(STORE, "log extension", TO, LOG_BYTES, 32 - BLOCK, BYTES, width=-page_tail),
            _step(FLUSH, "log extension", TO, LOG_BYTES, 32 - BLOCK, BYTES, width=-32),
            _work("extend_page", 0, COUNT),
        ],
        LOG_EXTEND: [_fence("log extension"), _work("extend_log", 1)],
        LOG_SCAN: [_step(LOAD, "log scan", FROM, 0, 0, BYTES, width=-scanned)],
        LOG_SCANNED: [_work("scan_page", 0, COUNT), *([] if counters else [_work("scan_entry", 0, ENTRIES)])],
        LOG_DROP: [
            _step(STORE, "log gc", PAGE, LOG_BYTES + 24, 8),
            _step(FLUSH, "log gc", PAGE, LOG_BYTES, 32),
            _fence("log gc"),
        ],
        LOG_LINK: [
            _step(STORE, "log extension", PAGE, LOG_BYTES + 24, 8),
            _step(FLUSH, "log extension", PAGE, LOG_BYTES, 32),
            _fence("log extension"),
            _step(STORE, "log extension", INODE, 64, 16),
            _step(FLUSH, "log extension", INODE, 64, 64),
            _fence("log extension"),
        ],
        GC_PAGE: [
            _step(LOAD, "log gc", FROM, 0, 0, ENTRIES, width_by=CHECKED),
            _step(LOAD, "log gc", FROM, 0, 0, BYTES, width=8),
            _step(LOAD, "log gc", FROM, 0, 0, ASSIGNED),
            *([_step(LOAD, "log gc", TO, LOG_BYTES, 0, HAS, width_by=FIELDS)] if counters else []),
            _step(NTSTORE, "log gc", TO, 0, 0, BYTES, width=8),
            _step(FENCE, "log gc", ZERO, 0, 0, COUNT),
            *([_step(STORE, "log gc", TO, LOG_BYTES, 0, HAS, width_by=FIELDS)] if counters else []),
            *([_step(FLUSH, "log gc", TO, LOG_BYTES, 0, HAS, width_by=COUNT)] if counters else []),
            _work("gc_entry", 0, LINES),
            _work("gc_copy", 0, COUNT),
            _work("gc_page_reassign", 0, REPLACED),
        ],
        GC_SWITCH: [
            _step(STORE, "log gc", PAGE, LOG_BYTES + 24, 8),
            _step(FLUSH, "log gc", PAGE, LOG_BYTES, 32),
            _fence("log gc"),
            _step(STORE, "log gc", INODE, 64, 16),
            _step(FLUSH, "log gc", INODE, 0, 120),
            _fence("log gc"),
        ],
    }


def name_recipes(counters: bool, inode_fence: bool) -> dict[int, list]:
    """Namespace operations; dentries and link changes go to the logs by RECORD."""
    link_bytes = LINK_BYTES if counters else FAST16_BYTES

    def new_inode(call: str) -> list:
        return [
            _work(call, 1),
            _fence("namespace"),  # the name's non-temporal copy
            _step(STORE, "inode", INODE, 0, 100),
            _step(FLUSH, "inode", INODE, 0, 120),
            *_journal(PARENT, 2),
            *_commit(PARENT, counters, inode_fence),
            _step(STORE, "inode", INODE, 1, 1),
            _step(FLUSH, "inode", INODE, 0, 120),
            _fence("inode"),
            *_journal_commit(),
        ]

    def two_tails(call: str, records: int, stores: int) -> list:
        return [
            _work(call, 1),
            *_journal(INODE, records),
            *_commit(INODE, counters, inode_fence),
            *_commit(PARENT, counters, inode_fence),
            _step(STORE, "inode", INODE, 1, 0, ZERO) if stores == 0 else _step(STORE, "inode", INODE, 96, stores),
            _fence("inode"),
            *_journal_commit(),
        ]

    return {
        CREATE: new_inode("create"),
        MKDIR: new_inode("mkdir"),
        DROP_NAME: [
            *_journal(OLD, 6),
            _step(STORE, "namespace", OLD, 0, 30),
            *([_step(STORE, "namespace", OLD, LOG_BYTES, 4)] if counters else []),
            *([_step(FLUSH, "namespace", OLD, LOG_BYTES, 4)] if counters else []),
            _step(FLUSH, "namespace", OLD, 0, 56),
            _fence("namespace"),
            *_journal_commit(),
        ],
        LINK_CHANGE: [
            *_journal(INODE, link_bytes // 8),
            _step(STORE, "namespace", INODE, 0, 30),
            _step(FLUSH, "namespace", INODE, 0, link_bytes),
            _fence("namespace"),
            *_journal_commit(),
        ],
        UNLINK: two_tails("unlink", 4, 9),
        RMDIR: two_tails("rmdir", 4, 9),
        EVICT: [
            _step(STORE, "inode", INODE, 2, 1),
            _step(STORE, "inode", INODE, 64, 32),
            _step(FLUSH, "inode", INODE, 0, 120),
        ],
        RENAME: [_fence("namespace"), *two_tails("rename", 2, 0)],
        RENAME_OVER: [
            _fence("namespace"),
            *two_tails("rename", 5, 0),
        ],  # and tail, valid, delete_epoch_id of the old file
        LINK: [_fence("namespace"), *two_tails("link", 5, 0)],
        TRUNCATE: [_work("truncate", 1)],
        TRUNCATE_TAIL: [
            _step(NTSTORE, "block zeroing", TO, 0, 0, BYTES, width=8),
            _fence("block zeroing"),
        ],
        FREED: [_work("free_page", 0, COUNT)],
        ZEROED: [_work("allocate", 1), _step(NTSTORE, "block zeroing", TO, 0, 0, BYTES, width=8)],
        OPEN: [_work("open", 1)],
        CLOSE: [_work("close", 1), _fence("fsync")],
        FSYNC: [_work("fsync_call", 1), _fence("fsync")],
        STAT: [_work("stat", 1)],
        READDIR: [_work("readdir", 1)],
        MAP: [_work("mmap", 1)],
        OTHER: [_work("other_call", 1)],
    }
