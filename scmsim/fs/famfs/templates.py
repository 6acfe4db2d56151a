"""Define famfs's mechanisms as templates: the events of each mechanism, in the order of the source.

The numbers and registers of Linux's templates are kept, since the copy of a DAX write is theirs.
Sources: famfs src/famfs_lib.c (famfs_append_log, famfs_init_locked_log, famfs_build_bitmap), src/fcc-x86_64.c
(flush_processor_cache), fs/famfs/famfs_file.c.  Simplified: the library's stores to the mapped log are in the direct map.
"""

from scmsim.core.records import FENCE, FLUSH, KERNEL, LOAD, PM, STORE, USER
from scmsim.fs.engine.events import TemplateBuilder
from scmsim.fs.linux import templates as q

# Mechanism -> purpose of the bytes that it stores.
SITES = {
    "syscall": "none",
    "copy": "data",
    "mapping": "none",
    "inode": "none",
    "namespace": "none",
    "log": "log",
    "log scan": "none",
}

COSTS = (
    "null_call", "write_call", "read_call", "find_extent", "find_chunk", "walk_extent", "chase_line", "copy_line",
    "fsync_call", "create", "open", "close", "unlink", "remove", "rename", "link", "mkdir", "rmdir", "stat", "readdir",
    "list_entry", "set_map", "log_entry", "flush_line", "scan_entry", "fuse_request",
)  # fmt: skip

# Registers after those of Linux.
LOG_AT, LOG_BYTES = 30, 31

# Templates that `engine.calls` names, then famfs's own after those of Linux.
OPEN, CLOSE, FSYNC, STAT, OTHER = q.OPEN, q.CLOSE, q.FSYNC, q.STAT, q.OTHER
MAP, LOOK_UP, SET_MAP, ASK_MAP, APPEND, SCAN_LOG = range(q.TEMPLATES, q.TEMPLATES + 6)
TEMPLATES = SCAN_LOG + 1

UNIT_SHIFT = 21  # FAMFS_ALLOC_UNIT
UNIT = 1 << UNIT_SHIFT
LOG_OFFSET = UNIT  # the superblock takes the first unit
LOG_HEADER = 48  # struct famfs_log without its entries
ENTRY_BYTES = 544  # struct famfs_log_entry
NEXT_FIELDS = 32  # offset of famfs_log_next_seqnum and famfs_log_next_index in the header
EXTENT_BYTES = 24  # struct famfs_meta_simple_ext

_STEPS = TemplateBuilder(SITES, COSTS, space=KERNEL)
_run, _work = _STEPS.run, _STEPS.work


def _call(cost: str) -> list:
    """Return the steps of a call that charges `cost` and reads the inode."""
    return [_work(cost, 1), _run(LOAD, "inode", q.INODE, 0, 64)]


def templates(log_bytes: int, fuse: bool) -> dict[int, list]:
    """Return every template by number; `fuse`: the kernel gets a new file's map by a request to the FUSE server."""
    lines = log_bytes >> 6
    flushed = [
        _run(FLUSH, "log", q.ZERO, LOG_OFFSET, 0, LOG_BYTES, space=PM),
        _work("flush_line", lines),
        _run(FENCE, "log", q.ZERO, 0, 1, space=PM),
    ]
    every = {
        q.WRITE: _call("write_call"),
        q.COPY: [*q.dax_copy(_run, True), _work("copy_line", 0, q.LINES)],
        q.READ: _call("read_call"),
        q.COPY_OUT: [
            _run(LOAD, "copy", q.FROM, 0, 0, q.BYTES, space=PM),
            _run(STORE, "copy", q.USER_AT, 0, 0, q.BYTES, space=USER),
        ],
        **q.plain_calls(_call, _work),
        MAP: _call("null_call"),
        LOOK_UP: [
            _work("find_extent", 1),
            _work("find_chunk", 0, q.NEW),
            _work("walk_extent", 0, q.COUNT),
            _work("chase_line", 0, q.PAGES),
            _run(LOAD, "mapping", q.FROM, 0, EXTENT_BYTES, q.HAS),
        ],
        SET_MAP: [_work("set_map", 1)],
        ASK_MAP: [_work("fuse_request", 1)] if fuse else [],
        # Source: famfs_append_log writes back the whole log, not the entry alone.
        APPEND: [
            _work("log_entry", 1),
            _run(STORE, "log", LOG_AT, 0, ENTRY_BYTES, space=PM),
            _run(STORE, "log", q.ZERO, LOG_OFFSET + NEXT_FIELDS, 16, space=PM),
            *flushed,
        ],
        SCAN_LOG: [
            *flushed,
            _run(LOAD, "log scan", q.ZERO, LOG_OFFSET, LOG_HEADER, q.BYTES, space=PM),
            _work("scan_entry", 0, q.COUNT),
        ],
    }
    return {number: every.get(number, []) for number in range(TEMPLATES)}
