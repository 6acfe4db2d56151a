"""Templates of ext4: the events that each of its mechanisms emits, in the order of the source.

Sources: Linux 5.13 fs/ext4/{file,inode,namei,ialloc}.c, fs/jbd2/commit.c, fs/dax.c (dax_io: Linux 4.1 and 4.4),
arch/x86/lib/{usercopy_64.c,copy_user_64.S}, drivers/nvdimm/pmem.c.  `__copy_user_flushcache` copies by 8-byte non-temporal stores;
bytes at unaligned ends are stored to the cache and their lines written back.  It ends with an sfence; one per write was measured.
`memcpy_flushcache` copies page by page; `nvdimm_flush` is two sfences, and four per fsync were measured.  Data structures whose
accesses are otherwise only counted in cost rows have one run of about 64 bytes here, so that a TLB model sees their pages.
"""

from scmsim.core.records import FLUSH, KERNEL, LOAD, NTSTORE, PM, STORE, USER
from scmsim.fs.engine.events import TemplateBuilder
from scmsim.fs.linux import templates as q

# Mechanism -> purpose of the bytes that it stores to persistent memory.
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
    "join_block", "cache_page_dirty", "access_time", "convert", "split_extent", "readdir", "list_entry",
)  # fmt: skip
# additional costs of kernels whose page cache has large folios
FOLIO_COSTS = (*COSTS, *q.FOLIO_COSTS, "cache_buffer", "flush_buffer")

_STEPS = TemplateBuilder(SITES, FOLIO_COSTS, KERNEL)
_run, _work, _fence = _STEPS.run, _STEPS.work, _STEPS.fence
_INODE = _run(LOAD, "inode", q.INODE, 0, 64)


def _call(cost: str) -> list:
    return [_work(cost, 1), _INODE]


def dax_templates(copy_fence: bool) -> dict[int, list]:
    """Return the templates of write() and read() with DAX, which bypasses the page cache."""
    zeroing = [
        _work("zero_block", 0, q.COUNT),
        _run(LOAD, "zeroing", q.ZERO, q.ZERO_PAGE, q.BLOCK),
        _run(NTSTORE, "zeroing", q.TO, 0, 0, q.BYTES, space=PM, width=8),
    ]
    return {
        q.WRITE: _call("dax_write_call"),
        q.ALLOCATE: [
            _run(STORE, "allocation", q.BITMAP, 0, 8),
            _run(STORE, "allocation", q.GROUP, 0, 64),
            _work("allocate", 1),
            *zeroing,
        ],
        q.CONVERT: [_work("convert", 1), _work("split_extent", 0, q.HAS), *zeroing],
        q.COPY: [
            _work("map_run", 1),
            *q.dax_copy(_run, copy_fence),
            _work("copy_line", 0, q.LINES),
        ],
        # three handles if the file grows: orphan list; allocation; size and orphan list again (see `transfer.count_slice`)
        q.FINISH: [
            _work("handle", 0, q.GROWN),
            _work("inode_update", 0, q.NEW),
            _work("orphan", 0, q.HAS),
            _run(STORE, "orphan list", q.ZERO, q.BUFFERS, 0, q.HAS),
        ],
        q.READ: _call("dax_read_call"),
        q.COPY_OUT: [
            _work("map_run", 1),
            _run(LOAD, "copy", q.FROM, 0, 0, q.HAS, space=PM),
            _run(STORE, "copy", q.USER_AT, 0, 0, q.BYTES, space=USER),
        ],
        q.READ_PAGES: [_work("timer_tick", 0, q.LINES)],
    }


def dax_io_templates(copy: str, copy_fence: bool) -> dict[int, list]:
    """Return the templates that differ with dax_io: allocation, clearing of a new block's uncopied parts, and copy.

    With `copy` "nocache" (from Linux 4.3 on), the copy bypasses the caches, cleared parts are written back, and the write ends with
    a fence.  With "cached", the copy is a rep-string whose cache lines are not written back.
    """
    past_caches = copy == "nocache"
    edges = ((q.TO, 0, 0, q.HEAD), (q.TAIL_AT, 0, 0, q.TAIL))
    cached = [
        _run(LOAD, "copy", q.USER_AT, 0, 0, q.BYTES, space=USER),
        _run(STORE, "copy", q.TO, 0, 0, q.BYTES, space=PM),
    ]
    stepwise = [*q.dax_copy(_run, copy_fence, write_back=False), _work("copy_line", 0, q.LINES)]
    return {
        q.ALLOCATE: [
            _run(STORE, "allocation", q.BITMAP, 0, 8),
            _run(STORE, "allocation", q.GROUP, 0, 32),
            _work("allocate", 1),
        ],
        q.CONVERT: [_work("convert", 1), _work("split_extent", 0, q.HAS)],
        q.EDGES: [
            _run(code, "zeroing", *edge, space=PM)
            for edge in edges
            for code in ((STORE, FLUSH) if past_caches else (STORE,))
        ],
        q.COPY: [_work("map_run", 1), _work("handle", 1), *(stepwise if past_caches else cached)],
        q.FINISH: [*([_fence("copy", 1)] if past_caches else []), *dax_templates(False)[q.FINISH]],
    }


def cache_templates() -> dict[int, list]:
    """Return the templates of write(), read() and write-back with a page cache."""
    return {
        q.WRITE: _call("cache_write_call"),
        q.COPY: [
            _run(LOAD, "copy", q.USER_AT, 0, 0, q.BYTES, space=USER),
            _run(STORE, "copy", q.TO, 0, 0, q.BYTES),
        ],
        q.FINISH: [
            _work("cache_page", 0, q.PAGES),
            _work("handle", 0, q.PAGES),
            _work("cache_page_new", 0, q.NEW),
            _work("cache_page_dirty", 0, q.HAS),
            _work("inode_update", 0, q.GROWN),
        ],
        q.FILL: [
            _work("cache_fill_page", 1),
            _run(LOAD, "page cache", q.FROM, 0, q.BLOCK, space=PM),
            _run(STORE, "page cache", q.TO, 0, q.BLOCK),
        ],
        q.READ: _call("cache_read_call"),
        q.COPY_OUT: [
            _run(LOAD, "copy", q.FROM, 0, 0, q.HAS),
            _run(STORE, "copy", q.USER_AT, 0, 0, q.BYTES, space=USER),
        ],
        q.READ_PAGES: [
            _work("cache_read_page", 0, q.PAGES),
            _work("cache_page_new", 0, q.NEW),
            _work("timer_tick", 0, q.LINES),
        ],
        q.FLUSH_RUN: [_run(NTSTORE, "writeback", q.TO, 0, 0, q.BYTES, space=PM, width=8)],
        q.FLUSH_LOAD: [_run(LOAD, "writeback", q.FROM, 0, 0, q.HAS, width=8)],
        q.FLUSHED: [_work("flush_call", 1), _work("flush_page", 0, q.PAGES), _work("flush_run", 0, q.NEW)],
    }


def folio_templates(single: dict[int, list]) -> dict[int, list]:
    """Return the templates that differ from those of `single` pages on a kernel whose page cache has large folios.

    A write takes a step per folio, which visits each buffer of the folio (ext4_block_write_begin, block_commit_write).  The
    step starts no journal handle and leaves the inode to write-back (ext4_da_write_end).
    """
    steps = q.folio_steps(_work)
    return {
        q.FINISH: [
            *steps[q.FINISH],
            _work("cache_buffer", 0, q.FOLIO_PAGES),
            _work("cache_page", 0, q.PAGES),
            _work("cache_page_new", 0, q.NEW),
            _work("cache_page_dirty", 0, q.HAS),
        ],
        q.READ_PAGES: [*single[q.READ_PAGES], *steps[q.READ_PAGES]],
        q.FLUSHED: [*single[q.FLUSHED], *steps[q.FLUSHED], _work("flush_buffer", 0, q.FOLIO_PAGES)],
        q.FREED: [*single[q.FREED], *steps[q.FREED]],
    }


def journal_templates() -> dict[int, list]:
    """Return the templates of journal handles, inode updates, fsync, commit, checkpoint and sync.

    The commit block is written between two flushes of the device (REQ_PREFLUSH, REQ_FUA).
    """
    return {
        q.TIMES: [_work("handle", 1), _work("inode_update", 1)],
        q.ACCESSED: [_work("access_time", 1)],
        q.JOINED: [_work("join_block", 0, q.COUNT)],
        q.DIRTY_INODE: [_run(STORE, "inode", q.SLOT, 0, 160)],
        q.FSYNC: [_work("fsync_call", 1)],
        q.BARRIER: [_fence("journal", q.BARRIER_FENCES)],
        q.IMAGE: [_run(LOAD, "journal", q.FROM, q.BUFFERS, q.BLOCK, width=8)],
        q.COMMIT: [
            _work("commit", 1),
            _work("journal_block", 0, q.COUNT),
            _work("revoke", 0, q.REVOKES),
            _run(LOAD, "journal", q.ZERO, q.DESCRIPTORS, 0, q.BYTES, width=8),
            _run(NTSTORE, "journal", q.TO, 0, 0, q.LOG, space=PM, width=8),
            _run(NTSTORE, "journal", q.FROM, 0, 0, q.LOG_WRAPPED, space=PM, width=8),
            _fence("journal", q.BARRIER_FENCES),
            _run(NTSTORE, "journal", q.COMMIT_AT, 0, q.BLOCK, space=PM, width=8),
            _fence("journal", q.BARRIER_FENCES),
        ],
        q.CHECKPOINT: [_work("checkpoint_block", 0, q.COUNT), _fence("checkpoint", q.BARRIER_FENCES)],
        q.IN_PLACE: [
            _run(LOAD, "checkpoint", q.FROM, q.BUFFERS, q.BLOCK, width=8),
            _run(NTSTORE, "checkpoint", q.FROM, 0, q.BLOCK, space=PM, width=8),
        ],
        q.SYNC: [_work("sync_call", 1)],
    }


def name_templates() -> dict[int, list]:
    """Return the templates of calls other than read and write, and of the freeing and clearing of blocks."""
    orphan = _run(STORE, "orphan list", q.ZERO, q.BUFFERS, 8)
    return {
        q.NAME: [
            _run(LOAD, "namespace", q.FROM, q.BUFFERS, q.BLOCK),
            *(_work(cost, 0, register) for cost, register in q.LOOKED_AT.items()),
            _run(STORE, "namespace", q.FROM, q.BUFFERS, 64),
        ],
        q.CREATE: _call("create"),
        q.OPEN: _call("open"),
        q.CLOSE: _call("close"),
        q.STAT: _call("stat"),
        q.OTHER: _call("null_call"),
        q.LIST: [*_call("readdir"), _work("list_entry", 0, q.COUNT)],
        q.UNLINK: _call("unlink"),
        q.REMOVE: [*_call("remove"), orphan],
        q.RMDIR: [*_call("rmdir"), orphan],
        q.RENAME: _call("rename"),
        q.LINK: _call("link"),
        q.MKDIR: _call("mkdir"),
        q.FREED: [_work("free_run", 0, q.COUNT), _work("free_page", 0, q.PAGES)],
        q.TRUNCATE: [*_call("null_call"), _work("handle", 2), _work("inode_update", 2), _work("orphan", 1), orphan],
        q.FALLOCATE: [*_call("null_call"), _work("handle", 1), _work("inode_update", 1)],
        q.FALLOCATED: [_work("allocate", 0, q.COUNT)],
        q.CLEAR_PM: [
            _run(STORE, "zeroing", q.TO, 0, 0, q.BYTES, space=PM),
            _run(FLUSH, "zeroing", q.TO, 0, 0, q.BYTES, space=PM),
        ],
        q.CLEAR_FRAME: [_run(STORE, "page cache", q.TO, 0, 0, q.BYTES)],
        q.ORPHAN: [_work("handle", 1), _work("orphan", 1), orphan],
    }


def all_templates(dax: bool, copy_fence: bool = False, copy: str = "", folios: bool = False) -> dict[int, list]:
    """Return every template of a model by number; unused templates are empty.

    `copy` is how dax_io copies (see `dax_io_templates`), or "" for a kernel with iomap.  `folios`: see `folio_templates`.
    """
    every = (dax_templates(copy_fence) if dax else cache_templates()) | journal_templates() | name_templates()
    if copy:
        every |= dax_io_templates(copy, copy_fence)
    if folios:
        every |= folio_templates(every)
    return {number: every.get(number, []) for number in range(q.TEMPLATES)}
