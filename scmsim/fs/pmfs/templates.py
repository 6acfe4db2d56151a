"""Define PMFS's mechanisms as templates: every event of each mechanism, in the order of the source.

Sources: PMFS, port to DAX kernels, fs/pmfs/{xip,journal,inode,balloc,namei,dir,file}.c and pmfs.h; pmfs_flush_buffer
(one clwb per line), memset_nt (8-byte non-temporal stores). A log entry stores its 16 bytes of header and its data, of
which the compiler's inline copy stores 8 bytes twice; the first and the last entry of a transaction store their type
once more. The bytes of a new inode's fields (58), of a new directory's (10) and of a freed inode's (20) make create,
mkdir and unlink store as many bytes as measured on the 5.13 port.
"""

from scmsim.core.records import FLUSH, LOAD, NTSTORE, STORE, USER
from scmsim.fs.engine.events import TemplateBuilder

# Mechanism -> purpose of the bytes that it stores.
SITES = {
    "syscall": "none",
    "data copy": "data",
    "cow copy": "data",
    "block zeroing": "zeroing",
    "allocation": "none",
    "index": "metadata",
    "journal": "log",
    "log cleaner": "log",
    "inode": "metadata",
    "directory": "metadata",
    "directory scan": "none",
    "truncate list": "metadata",
    "namespace": "none",
    "fsync": "none",
}

COSTS = (
    "write_call", "fast_write", "transaction", "log_call", "log_entry", "find_page", "write_page", "copy_line", "nocache_line",
    "new_block", "new_node", "zero_call", "zero_line", "read_call", "read_page", "fsync_call", "clean_entry", "create", "open",
    "close", "unlink", "evict", "rename", "link", "mkdir", "rmdir", "stat", "readdir", "readdir_entry", "truncate", "mmap",
    "other_call", "match_entry", "fit_entry", "free_block", "cow_edge",
)  # fmt: skip


# Registers.
(
    ZERO, INODE, DIR, JOURNAL, STORED, FLUSHED, ENTRIES, LOGGED_AT, LOGGED, TWICE, NODE, SLOTS, DIRTY, BLOCK_BYTES, NEW_BLOCKS,
    TO, FROM, USER_AT, BYTES, LINES, PAGES, HEADERS, LEAF_AT, LEAF, UPPER_AT, UPPER, EDGE_AT, EDGE, GROWN, UPDATED, DIRENT, COUNT,
) = range(32)  # fmt: skip

# Templates.
(
    WRITE, FIND, COPY, FAST_END, BEGIN, LOG, REFLUSH, COMMIT, TIMES, GROW, NODE_NEW, ROOT, FILL, ZEROED, RESIZED, COW_EDGE, READ,
    READ_DATA, READ_HOLE, CLEAN, CREATE, MKDIR, NEW_INODE, DOTS, ADD_DIRENT, DEL_DIRENT, KILL_DIRENT, DIR_TIMES, LINKS, DIR_LINKS,
    SCAN_MATCH, MATCHED, SCAN_FIT, FITTED, TRUNCATE_ADD, TRUNCATE_DEL, EVICT, EVICTED, FREED, UNLINK, RMDIR, RENAME, LINK, OPEN,
    CLOSE, FSYNC, STAT, READDIR, MAP, OTHER, TRUNCATE, SHRUNK, CUT, OLD_FREED,
) = range(54)  # fmt: skip

# Layout of the device, bytes.
BLOCK = 4096
INODE_BYTES = 128
DESCRIPTOR = 128  # journal descriptor, in the super block's 512 bytes
TABLE_INODE = 256  # offset of the inode table's own inode in the super block
TRUNCATE_HEAD = 192
JOURNAL_AT = BLOCK  # after two super blocks of 512 bytes (pmfs_init)
LOG_DATA = 48
# Bytes that a block look-up loads from inodes: root, height and block type of the inode table and of the file.
TABLE_LOADS = 28
_SITE = {name: code for code, name in enumerate(SITES)}
_STEPS = TemplateBuilder(SITES, COSTS)
_step, _work, _fence = _STEPS.run, _STEPS.work, _STEPS.fence


def _find(site: str) -> list:
    """Return the steps of PAGES look-ups (pmfs_find_data_block): the inode table's inode, a slot per tree level."""
    return [
        _step(LOAD, site, ZERO, TABLE_INODE, 0, HEADERS),
        _step(LOAD, site, UPPER_AT, 0, 0, UPPER),
        _step(LOAD, site, LEAF_AT, 0, 0, LEAF),
        _work("find_page", 0, PAGES),
    ]


def templates(dax: bool) -> dict[int, list]:
    """Return all templates; `dax`: the port to DAX kernels (cached copy, then clwb), else the original (non-temporal copy)."""
    return _data(dax) | _tree() | _names()


def _data(dax: bool) -> dict[int, list]:
    """Return the templates of write(), read() and the journal."""
    copied = (
        [_step(STORE, "data copy", TO, 0, 0, BYTES), _step(FLUSH, "data copy", TO, 0, 0, BYTES)]
        if dax
        else [_step(NTSTORE, "data copy", TO, 0, 0, BYTES, width=8)]
    )
    # The port copies with a string instruction and writes back; the original loops over loads and stores of 8 bytes.
    line, width = ("copy_line", 0) if dax else ("nocache_line", 8)
    edges = [_step(FLUSH, "data copy", TO, 0, 0, LEAF), _step(FLUSH, "data copy", EDGE_AT, 0, 0, EDGE)]
    return {
        WRITE: [_work("write_call", 1), *_find("index")],
        FIND: _find("index"),
        COPY: [
            _step(LOAD, "data copy", USER_AT, 0, 0, BYTES, space=USER, width=width),
            *copied,
            *edges,
            _work("write_page", 0, PAGES),
            _work(line, 0, LINES),
        ],
        FAST_END: [
            _fence("data copy", 0, GROWN),
            _step(LOAD, "inode", INODE, 0, 20),
            _step(STORE, "inode", INODE, 32, 0, UPDATED),
            _step(FLUSH, "inode", INODE, 0, 1),
            _work("fast_write", 1),
        ],
        BEGIN: [
            _work("transaction", 1),
            _step(LOAD, "journal", ZERO, DESCRIPTOR, 22),
            _step(STORE, "journal", ZERO, DESCRIPTOR + 16, 4),
            _step(FLUSH, "journal", ZERO, DESCRIPTOR, 24),
        ],
        LOG: [
            _step(LOAD, "journal", LOGGED_AT, 0, 0, LOGGED),
            _step(STORE, "journal", JOURNAL, 0, 0, STORED),
            _step(FLUSH, "journal", JOURNAL, 0, 0, FLUSHED),
            _fence("journal"),
            _work("log_call", 1),
            _work("log_entry", 0, ENTRIES),
        ],
        REFLUSH: [
            _step(FLUSH, "journal", LOGGED_AT, 0, 0, LOGGED),
            _step(FLUSH, "journal", LOGGED_AT, 0, 0, TWICE),
        ],
        COMMIT: [
            _step(LOAD, "journal", JOURNAL, 0, 0, STORED),
            _fence("journal"),
            _step(STORE, "journal", JOURNAL, 0, 17),
            _step(FLUSH, "journal", JOURNAL, 0, 64),
            _fence("journal"),
            _work("log_call", 1),
            _work("log_entry", 1),
        ],
        TIMES: [_step(STORE, "inode", INODE, 32, 8)],
        RESIZED: [_step(STORE, "inode", INODE, 24, 8)],
        COW_EDGE: [
            _step(LOAD, "cow copy", FROM, 0, 0, BYTES, width=width),
            *[
                (what if site != _SITE["data copy"] else what - (_SITE["data copy"] << 8) + (_SITE["cow copy"] << 8), *rest)
                for (what, *rest), site in ((step, step[0] >> 8 & 255) for step in copied)
            ],
            _work("cow_edge", 1),
            _work(line, 0, LINES),
        ],
        READ: [_work("read_call", 1)],
        READ_DATA: [
            *_find("index"),
            _step(LOAD, "data copy", FROM, 0, 0, BYTES),
            _step(STORE, "data copy", USER_AT, 0, 0, BYTES, space=USER),
            _work("read_page", 0, PAGES),
        ],
        READ_HOLE: [
            *_find("index"),
            _step(STORE, "data copy", USER_AT, 0, 0, BYTES, space=USER),
            _work("read_page", 0, PAGES),
        ],
        CLEAN: [
            _step(LOAD, "log cleaner", ZERO, JOURNAL_AT, 0, BYTES),
            _step(STORE, "log cleaner", ZERO, DESCRIPTOR + 12, 4),
            _step(FLUSH, "log cleaner", ZERO, DESCRIPTOR, 24),
            _fence("log cleaner"),
            _work("clean_entry", 0, COUNT),
        ],
    }  # fmt: skip


def _tree() -> dict[int, list]:
    """Return the templates of the B-tree of data blocks."""
    return {
        GROW: [
            _step(NTSTORE, "index", NODE, 0, BLOCK, width=8),
            _step(STORE, "index", NODE, 0, 8),
            _step(FLUSH, "index", NODE, 0, 8),
            _work("new_node", 1),
        ],
        NODE_NEW: [
            _step(NTSTORE, "index", NODE, 0, BLOCK, width=8),
            _step(LOAD, "index", UPPER_AT, 0, 8),
            _step(STORE, "index", UPPER_AT, 0, 8),
            _step(FLUSH, "index", UPPER_AT, 0, 0, DIRTY),
            _work("new_node", 1),
        ],
        ROOT: [_step(STORE, "inode", INODE, 0, 9)],
        FILL: [
            _step(LOAD, "index", LEAF_AT, 0, 0, SLOTS),
            _step(LOAD, "inode", INODE, 0, 0, BLOCK_BYTES),
            _step(STORE, "inode", INODE, 0, 0, BLOCK_BYTES),
            _step(STORE, "index", LEAF_AT, 0, 0, UPPER),
            _step(FLUSH, "index", LEAF_AT, 0, 0, DIRTY),
            _work("new_block", 0, NEW_BLOCKS),
        ],
        ZEROED: [
            _step(NTSTORE, "block zeroing", TO, 0, 0, BYTES, width=8),
            _work("zero_call", 1),
            _work("zero_line", 0, LINES),
        ],
        FREED: [
            _step(LOAD, "index", LEAF_AT, 0, 0, SLOTS),
            _work("free_block", 0, COUNT),
        ],
        OLD_FREED: [_work("free_block", 0, COUNT)],
    }


def _names() -> dict[int, list]:
    """Return the templates of namespace operations and of the calls that touch no data."""
    return {
        CREATE: [_work("create", 1)],
        MKDIR: [_work("mkdir", 1)],
        NEW_INODE: [_step(STORE, "inode", INODE, 0, 58)],
        DOTS: [
            _step(STORE, "inode", INODE, 0, 10),
            _step(STORE, "directory", NODE, 0, 27),
            _step(FLUSH, "directory", NODE, 0, 24),
            _fence("directory"),
        ],
        ADD_DIRENT: [
            _step(STORE, "directory", DIRENT, 0, 0, BYTES),
            _step(FLUSH, "directory", DIRENT, 0, 0, LINES),
        ],
        DEL_DIRENT: [_step(LOAD, "directory", DIRENT, 8, 2), _step(STORE, "directory", DIRENT, 8, 2)],
        KILL_DIRENT: [_step(STORE, "directory", DIRENT, 0, 8)],
        DIR_TIMES: [_step(STORE, "inode", DIR, 32, 8)],
        LINKS: [_step(STORE, "inode", INODE, 20, 6)],
        DIR_LINKS: [_step(STORE, "inode", DIR, 20, 2)],
        SCAN_MATCH: [_step(LOAD, "directory scan", NODE, 0, 0, BYTES)],
        MATCHED: [_work("match_entry", 0, COUNT)],
        SCAN_FIT: [_step(LOAD, "directory scan", NODE, 0, 0, BYTES)],
        FITTED: [_work("fit_entry", 0, COUNT)],
        TRUNCATE_ADD: [
            _step(STORE, "truncate list", INODE, 80, 16),
            _step(FLUSH, "truncate list", INODE, 80, 16),
            _fence("truncate list"),
            _step(STORE, "truncate list", ZERO, TRUNCATE_HEAD, 8),
            _step(FLUSH, "truncate list", ZERO, TRUNCATE_HEAD, 8),
            _fence("truncate list"),
        ],
        TRUNCATE_DEL: [
            _step(STORE, "truncate list", ZERO, TRUNCATE_HEAD, 8),
            _step(FLUSH, "truncate list", ZERO, TRUNCATE_HEAD, 8),
            _fence("truncate list"),
        ],
        EVICT: [_work("evict", 1)],
        EVICTED: [_step(STORE, "inode", INODE, 0, 20)],
        UNLINK: [_work("unlink", 1)],
        RMDIR: [_work("rmdir", 1)],
        RENAME: [_work("rename", 1)],
        LINK: [_work("link", 1)],
        OPEN: [_work("open", 1)],
        CLOSE: [_work("close", 1), _fence("fsync")],
        FSYNC: [_work("fsync_call", 1), _fence("fsync")],
        STAT: [_work("stat", 1)],
        READDIR: [_work("readdir", 1), _work("readdir_entry", 0, COUNT)],
        MAP: [_work("mmap", 1)],
        OTHER: [_work("other_call", 1)],
        TRUNCATE: [_work("truncate", 1)],
        CUT: [
            _step(STORE, "block zeroing", TO, 0, 0, BYTES),
            _step(FLUSH, "block zeroing", TO, 0, 0, BYTES),
            _work("zero_call", 1),
            _work("zero_line", 0, LINES),
        ],
        SHRUNK: [
            _step(STORE, "inode", INODE, 0, 24),
            _step(FLUSH, "inode", INODE, 0, 1),
            _step(STORE, "inode", INODE, 24, 8),
            _step(FLUSH, "inode", INODE, 0, 64),
            _fence("inode"),
        ],
    }
