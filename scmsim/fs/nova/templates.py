"""Define NOVA's mechanisms as templates: every event of each mechanism, in the order of the source.

Sources: NOVA (Linux 5.1 lineage, its port to 5.13) fs/nova/{file,dax,log,gc,journal,namei,dir,inode,rebuild,checksum}.c
and inode.h, log.h, nova.h; helpers: nova_flush_buffer (one clwb per line, a fence on request), memcpy_to_pmem_nocache
(non-temporal stores, then a fence). FAST'16: the same without entry clearing, page counters and inode write-back.
"""

from scmsim.core.records import FENCE, FLUSH, KERNEL, LOAD, NTSTORE, STACK, STORE, USER
from scmsim.fs.engine.events import TemplateBuilder

# Mechanism -> purpose of the bytes that it stores.
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
    "free_old_entry", "free_old_block", "update_entry", "read_call", "read_extent", "extend_log", "extend_page", "scan_page",
    "scan_entry", "scan_loop", "scan_live",
    "gc_entry", "gc_copy", "gc_page_reassign", "fsync_call", "create", "open", "close", "unlink", "unlink_name", "free_page",
    "rename", "link", "mkdir", "rmdir", "stat", "readdir", "truncate", "mmap", "other_call", "timer_tick", "stack_word",
)  # fmt: skip


# Registers.
(
    ZERO, INODE, ENTRY, PAGE, FROM, TO, USER_AT, BYTES, LINES, HEAD, BODY_AT, BODY, EDGE_AT, EDGE, OLD, OLD_PAGE, DEAD,
    JOURNAL, NODE, INSERTED, REPLACED, NODES, COUNT, ENTRIES, FIELDS, HAS, CHECKED, ASSIGNED, NAME,
    JOURNAL_PAGE, POINTERS,
) = range(31)  # fmt: skip

# Templates.
(
    WRITE, FIND, ALLOCATE, FILL_OLD, FILL_ZERO, COPY, APPEND, RECORD, NEXT_PAGE, COMMIT, ASSIGN, FREE_OLD, UPDATE, READ,
    READ_EXTENT, LOG_START, LOG_PAGES, LOG_EXTEND, LOG_SCAN, LOG_SCANNED, LOG_DROP, LOG_LINK, GC_PAGE, GC_SWITCH, CREATE, MKDIR,
    DROP_NAME, LINK_CHANGE, UNLINK, RMDIR, EVICT, RENAME, LINK, TRUNCATE, TRUNCATE_TAIL, FREED, ZEROED, OPEN, CLOSE, FSYNC, STAT,
    READDIR, MAP, OTHER, NAMED, NEW_INODE, DOTS, UNLINK_NAME, FOUND, TRANSACTION, VALID, REMOVE, BARRIER,
    RELEASE, CHECK, RESIZE,
) = range(56)  # fmt: skip

# Layout of the device, bytes.
BLOCK = 4096
LOG_BYTES = 4064  # bytes of a log page for entries; then the page tail: counters 2 x 4, epoch 8, replica 8, next page 8
LINK_BYTES = 40  # bytes of log entries without data, 5.1 lineage
SETATTR_BYTES = 56
DOT_BYTES = 56
FAST16_BYTES = 32  # bytes of each log entry without data in FAST'16
LINE = 64
RECORD_BYTES, CHECKED_BYTES = 32, 28  # bytes of a journal record, of the part that its checksum covers
# Numbers of journal records, each with the old value of an 8-byte field: for a change in place of a dentry or of a write
# entry (journal.c: nova_create_logentry_transaction), for the two log tails of nova_create_inode_transaction and
# nova_create_rename_transaction, and, in addition to the tails, for `valid` and `delete_epoch_id` of a removed inode.
DENTRY_RECORDS, ENTRY_RECORDS, TAILS, REMOVAL = 6, 8, 2, 2
_STEPS = TemplateBuilder(SITES, COSTS)
_step, _work, _fence = _STEPS.run, _STEPS.work, _STEPS.fence


def persist(base: int, site: str, inode_fence: bool) -> list:
    """Return the steps of nova_update_inode_checksum, which writes the inode back and fences even without checksums."""
    return [_step(FLUSH, site, base, 0, 120), *([_fence(site)] if inode_fence else [])]


def commit(base: int, counters: bool, inode_fence: bool) -> list:
    """Return the steps of nova_update_inode: nova_update_tail, then nova_update_inode_checksum."""
    return [
        *new_tail(base),
        *(persist(base, "log commit", inode_fence) if counters else []),
        _work("commit_tail", 1),
    ]


def new_tail(base: int) -> list:
    """Return the steps of nova_update_tail; its write-back of 64 bytes at offset 72 reaches the next inode's first line."""
    return [
        _fence("log commit"),
        _step(STORE, "log commit", base, 72, 8),
        _step(FLUSH, "log commit", base, 72, 64),
        _fence("log commit"),
    ]


def transaction() -> list:
    """Return the steps of a lite transaction: records of the old values from FROM on, then the journal's tail.

    A record has 32 bytes: an 8-byte value, with a checksum. The journal's page is a ring: BYTES of records go to JOURNAL,
    LINES bytes to the page's start. Two fences:
    nova_flush_journal_in_batch, and the flush of the pointers that ends every nova_create_*_transaction. Loaded: the
    pair of pointers (head, tail, head again), FIELDS bytes of old values, and each record except its checksum (ENTRIES,
    CHECKED).
    """
    return [
        _step(LOAD, "journal", POINTERS, 0, 24),
        _step(LOAD, "journal", FROM, 0, 0, FIELDS),
        _step(LOAD, "journal", JOURNAL, 0, 0, ENTRIES),
        _step(LOAD, "journal", JOURNAL_PAGE, 0, 0, CHECKED),
        _step(STORE, "journal", JOURNAL, 0, 0, BYTES),
        _step(STORE, "journal", JOURNAL_PAGE, 0, 0, LINES),
        _step(FLUSH, "journal", JOURNAL, 0, 0, BYTES),
        _step(FLUSH, "journal", JOURNAL_PAGE, 0, 0, LINES),
        _fence("journal"),
        _step(STORE, "journal", POINTERS, 8, 8),
        _step(FLUSH, "journal", POINTERS, 8, 8),
        _fence("journal"),
    ]


def release() -> list:
    """Return the steps of nova_commit_lite_transaction."""
    return [
        _step(LOAD, "journal", POINTERS, 8, 8),
        _step(STORE, "journal", POINTERS, 0, 8),
        _step(FLUSH, "journal", POINTERS, 0, 8),
        _fence("journal"),
    ]


def _fill(site: str, load: bool) -> list:
    """Return the steps that fill one unwritten end of a partly written block, from the old block or with zeroes.

    The filled bytes are written back without a fence.
    """
    return [
        *([_step(LOAD, site, ENTRY, 0, 20), _step(LOAD, site, FROM, 0, 0, BYTES)] if load else []),
        _step(STORE, site, TO, 0, 0, BYTES),
        _step(FLUSH, site, TO, 0, 0, BYTES),
        _work("partial_end", 1),
        _work("partial_line", 0, LINES),
    ]


def data_templates(inplace: bool, counters: bool, entry_bytes: int, inode_fence: bool) -> dict[int, list]:
    """Return the templates of write() and read()."""
    # The in-place path keeps its entry unaligned on the stack, so the flush covers one line more (measured, 5.13 port).
    stack = [_step(FLUSH, "log append", ZERO, 32 if inplace else 0, 64, space=STACK)] if counters else []
    page_tail = [
        _step(LOAD, "log append", PAGE, LOG_BYTES, 4),
        _step(STORE, "log append", PAGE, LOG_BYTES, 4),
        _step(FLUSH, "log append", PAGE, LOG_BYTES, 4),
    ]
    # nova_append_log_entry of a record without data: clear it, then store its fields. nova_update_entry_csum flushes
    # 64 bytes from the record's start, even if checksums are off.
    checked = [_step(LOAD, "inode", INODE, 0, 120)] if counters else []  # nova_check_inode_integrity
    entry = [*checked, _step(STORE, "log append", ENTRY, 0, 0, BYTES), _step(STORE, "log append", ENTRY, 0, 0, FIELDS)]
    written = (
        [_step(FLUSH, "log append", ENTRY, 0, LINE), *page_tail]
        if counters
        else [_step(FLUSH, "log append", ENTRY, 0, 0, BYTES)]
    )
    return {
        WRITE: [
            *checked,
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
            _work("stack_word", entry_bytes // 8),  # loads of the copy on the stack, one per store
            _step(NTSTORE, "log append", ENTRY, 0, entry_bytes, width=8),
            _fence("log append"),
            *(page_tail if counters else []),
            _work("append_entry", 1),
        ],
        RECORD: [*entry, *written],
        # memcpy_to_pmem_nocache copies the name, with its fence (nova_update_new_dentry).
        NAMED: [*entry, _step(NTSTORE, "log append", ENTRY, 48, 0, NAME), _fence("log append"), *written],
        # nova_set_next_page_flag, if the full page has room for the flag (HAS: 64 or 0).
        NEXT_PAGE: [
            _step(LOAD, "log append", PAGE, LOG_BYTES, 32),
            _step(STORE, "log append", ENTRY, 0, 1 - LINE, HAS),
            _step(FLUSH, "log append", ENTRY, 0, 0, HAS),
            _fence("log append", 1 - LINE, HAS),
        ],
        COMMIT: commit(INODE, counters, inode_fence),
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
            *([_step(FLUSH, "entry invalidation", OLD, 0, entry_bytes)] if counters else []),
            _work("free_old_entry" if counters else "free_old_block", 1),
        ],
        FOUND: [_step(LOAD, "entry update", ENTRY, 0, 41)],  # the lookup loads 21 bytes, then 20 for the block
        UPDATE: [
            _step(STORE, "entry update", ENTRY, 0, 29),
            _step(FLUSH, "entry update", ENTRY, 0, 64),
            _fence("entry update"),
            _work("update_entry", 1),
        ],
        RESIZE: [  # fallocate has no fence after it (nova_update_entry_csum)
            _step(LOAD, "entry update", ENTRY, 0, 41),
            _step(STORE, "entry update", ENTRY, 24, 8),
            _step(FLUSH, "entry update", ENTRY, 0, 64),
        ],
        CHECK: checked,
        TRANSACTION: transaction(),
        RELEASE: release(),
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


def log_templates(counters: bool, entry_bytes: int, inode_fence: bool) -> dict[int, list]:
    """Return the templates of a log's growth, of the scan at each extension, and of garbage collection."""
    inode_written = persist(INODE, "log extension", inode_fence) if counters else []
    page_tail = 16 if counters else 8  # counters and next page, or next page alone
    scanned = 40 if counters else LOG_BYTES // entry_bytes * entry_bytes
    checked = [_work("scan_entry", 0, ENTRIES), _work("scan_loop", 0, ENTRIES), _work("scan_live", 0, ASSIGNED)]
    return {
        # nova_initialize_inode_log, after LOG_PAGES.
        LOG_START: [
            _step(STORE, "log extension", INODE, 64, 16),
            _step(FLUSH, "log extension", INODE, 72, 64),
            _step(FLUSH, "log extension", INODE, 64, 64),
            _fence("log extension"),
            *inode_written,
        ],
        # nova_coalesce_log_pages fences the last page of each run of blocks.
        LOG_PAGES: [
            _step(STORE, "log extension", TO, LOG_BYTES, 32 - BLOCK, BYTES, width=-page_tail),
            _step(FLUSH, "log extension", TO, LOG_BYTES, 32 - BLOCK, BYTES, width=-32),
            _fence("log extension"),
            _work("extend_page", 0, COUNT),
        ],
        LOG_EXTEND: [_work("extend_log", 1)],
        LOG_SCAN: [_step(LOAD, "log scan", FROM, 0, 0, BYTES, width=-scanned)],
        LOG_SCANNED: [_work("scan_page", 0, COUNT), *([] if counters else checked)],
        LOG_DROP: [
            _step(STORE, "log gc", PAGE, LOG_BYTES + 24, 8),
            _step(FLUSH, "log gc", PAGE, LOG_BYTES, 32),
            _fence("log gc"),
        ],
        # The end of nova_inode_log_fast_gc: link the new pages, then write the log's head.
        LOG_LINK: [
            _step(STORE, "log extension", PAGE, LOG_BYTES + 24, 8),
            _step(FLUSH, "log extension", PAGE, LOG_BYTES, 32),
            _fence("log extension"),
            _step(STORE, "log extension", INODE, 64, 16),
            *inode_written,
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
            *(persist(INODE, "log gc", inode_fence) if counters else []),
            _step(FLUSH, "log gc", INODE, 0, 120),
            _fence("log gc"),
        ],
    }
