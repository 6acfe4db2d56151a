"""Registers and templates of the kernels that Linux's file systems share: their numbers, and the places of kernel objects.

A family defines the events of each template (`templates.py` in its folder); a template without steps emits nothing.
"""

from collections.abc import Callable

from scmsim.core.records import FENCE, FLUSH, LOAD, NTSTORE, PM, STORE, USER

# Registers.
(
    ZERO, INODE, SLOT, USER_AT, BYTES, TO, HEAD, HEAD_LINE, BODY_USER, BODY_AT, BODY, WIDTH, TAIL_USER,
    TAIL_AT, TAIL, TAIL_LINE_AT, TAIL_LINE, LINES, FROM, HAS, PAGES, NEW, GROWN, COUNT, BITMAP, GROUP, LOG,
    LOG_WRAPPED, COMMIT_AT, REVOKES,
) = range(30)  # fmt: skip
# Registers that count the directory entries examined to find a name, free space, or the entry before a removed one;
# then names that are missing from the dentry cache, and index searches.
SEARCHED, PLACED, REMOVED, LOOKUPS, PROBES = NEW, GROWN, COUNT, HAS, PAGES
LOOKED_AT = {  # cost -> register
    "search_entry": SEARCHED, "place_entry": PLACED, "remove_entry": REMOVED, "lookup": LOOKUPS, "probe": PROBES,
}  # fmt: skip
# A file system without a journal uses the journal's registers for other things.
LEVELS, SCANNED, POINTERS = LOG, LOG_WRAPPED, COMMIT_AT
# A page cache uses registers of allocation and of the journal to count folios, and pages of these folios (each has one buffer).
# In a write, FOLIOS counts new folios; the others count folios that the write copies into, folios that become dirty, new folios
# of several pages, and new pages of which a part is zeroed.
FOLIOS, FOLIO_PAGES, WRITTEN_FOLIOS, DIRTIED_FOLIOS, LARGE_FOLIOS, ZEROED_PAGES = (
    BITMAP,
    GROUP,
    COUNT,
    LINES,
    LOG,
    LOG_WRAPPED,
)

# Templates.
(
    WRITE, TIMES, ALLOCATE, COPY, FINISH, FILL, READ, COPY_OUT, READ_PAGES, DIRTY_INODE, FLUSH_RUN,
    FLUSH_LOAD, FLUSHED, FSYNC, BARRIER, IMAGE, COMMIT, CHECKPOINT, IN_PLACE, NAME, CREATE, OPEN, CLOSE, STAT,
    OTHER, UNLINK, REMOVE, RMDIR, RENAME, LINK, MKDIR, FREED, TRUNCATE, FALLOCATE, FALLOCATED, CLEAR_PM,
    CLEAR_FRAME, ORPHAN, SYNC, EDGES, MAP, SCAN, JOINED, ACCESSED, CONVERT, LIST,
) = range(46)  # fmt: skip

TEMPLATES = LIST + 1
BLOCK = 4096
BARRIER_FENCES = 2
# Addresses of kernel objects in space KERNEL: areas of 1 TiB, far more than they need.
ZERO_PAGE, BUFFERS, INODES, FRAMES, DESCRIPTORS = BLOCK, 1 << 40, 2 << 40, 3 << 40, 4 << 40
OBJECTS = tuple(place >> 40 for place in (ZERO_PAGE, BUFFERS, INODES, DESCRIPTORS))  # areas without a file's data

# Costs of a page cache with large folios, besides those per page; a family adds them to its own.
FOLIO_COSTS = (
    "cache_folio", "cache_folio_new", "cache_folio_large", "cache_folio_dirty", "cache_page_zeroed", "cache_read_folio",
    "flush_folio", "free_folio",
)  # fmt: skip


def folio_steps(work: Callable) -> dict[int, list]:
    """Return the steps that FOLIO_COSTS add to templates; `work` makes a step that charges a cost."""
    return {
        FINISH: [
            work("cache_folio", 0, WRITTEN_FOLIOS),
            work("cache_folio_new", 0, FOLIOS),
            work("cache_folio_large", 0, LARGE_FOLIOS),
            work("cache_page_zeroed", 0, ZEROED_PAGES),
            work("cache_folio_dirty", 0, DIRTIED_FOLIOS),
        ],
        READ_PAGES: [work("cache_read_folio", 0, FOLIOS), work("cache_folio_new", 0, NEW)],
        FLUSHED: [work("flush_folio", 0, FOLIOS)],
        FREED: [work("free_folio", 0, FOLIOS)],
    }


def dax_copy(run: Callable, copy_fence: bool, write_back: bool = True) -> list:
    """Return steps of the kernel's copy of a run into persistent memory: non-temporal stores, and cached stores at the edges.

    `run` makes a step of a family's templates.  `write_back` adds the flushes of the edges.  The fence (`copy_fence`)
    ends the copy routine; it orders nothing for the file system.
    """
    return [
        run(LOAD, "copy", USER_AT, 0, 0, HEAD, space=USER, width=1),
        run(STORE, "copy", TO, 0, 0, HEAD, space=PM, width=1),
        run(LOAD, "copy", BODY_USER, 0, 0, BODY, space=USER, width=8, width_by=WIDTH),
        run(NTSTORE, "copy", BODY_AT, 0, 0, BODY, space=PM, width=8, width_by=WIDTH),
        run(LOAD, "copy", TAIL_USER, 0, 0, TAIL, space=USER, width=1),
        run(STORE, "copy", TAIL_AT, 0, 0, TAIL, space=PM, width=1),
        *([run(FENCE, "copy", ZERO, 0, 1, space=PM)] if copy_fence else []),
        *([run(FLUSH, "copy", TO, 0, 0, HEAD_LINE, space=PM)] if write_back else []),
        *([run(FLUSH, "copy", TAIL_LINE_AT, 0, 0, TAIL_LINE, space=PM)] if write_back else []),
    ]


def plain_calls(call: Callable[[str], list], work: Callable) -> dict[int, list]:
    """Return the templates of calls that transfer no data, each with the cost of its name.

    `call` makes the steps of a call from the name of its cost, `work` a step that charges a cost.
    """
    cost_of = {
        CREATE: "create", OPEN: "open", CLOSE: "close", STAT: "stat", OTHER: "null_call", UNLINK: "unlink",
        REMOVE: "remove", RMDIR: "rmdir", RENAME: "rename", LINK: "link", MKDIR: "mkdir",
    }  # fmt: skip
    every = {number: call(cost) for number, cost in cost_of.items()}
    return every | {FSYNC: [work("fsync_call", 1)], LIST: [*call("readdir"), work("list_entry", 0, COUNT)]}
