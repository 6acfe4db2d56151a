"""Templates of ext2: the events that each of its mechanisms emits, in the order of the source.

Sources: Linux 5.13 fs/ext2/{inode,balloc,ialloc,namei,dir,file}.c, fs/dax.c, mm/filemap.c, fs/buffer.c,
drivers/nvdimm/pmem.c (`nvdimm_flush` is two sfences), drivers/block/brd.c (a page of a RAM disk is in DRAM and is
copied by a rep-string).
"""

from scmsim.core.records import FENCE, FLUSH, KERNEL, LOAD, NTSTORE, PM, STORE, USER
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
    "inode": "none",
    "namespace": "none",
    "directory scan": "none",
    "writeback": "data",
    "metadata": "metadata",
}
SITES_IN_DRAM = dict.fromkeys(SITES, "none")  # for a RAM disk: nothing is persistent

_COMMON = (
    "null_call", "timer_tick", "fsync_call", "metadata_block", "late_block", "inode_update", "create", "open", "close", "unlink",
    "remove", "free_run", "free_page", "rename", "link", "mkdir", "rmdir", "stat", "scan_entry", "sync_call",
    "forgotten_block", "recent_inode", "readdir", "list_entry",
)  # fmt: skip
DAX_COSTS = (
    *_COMMON, "write_call", "read_call", "map_run", "map_level", "scan_block", "copy_line", "allocate", "new_pointers",
    "zero_block",
)  # fmt: skip
CACHE_COSTS = (
    *_COMMON, "cache_write_call", "cache_page", "cache_page_new", "allocate", "cache_read_call", "cache_read_page",
    "cache_fill_page", "flush_call", "flush_page",
)  # fmt: skip
ENTRY_COSTS = tuple(q.LOOKED_AT)  # costs of the driver of ext4, after the others

RAM_DISK = 5 << 40  # address of a RAM disk's pages in space KERNEL
_run = TemplateBuilder(SITES, space=KERNEL).run


class _Templates:
    """Templates for one tuple of costs and one kind of device."""

    def __init__(self, costs: tuple[str, ...], ram_disk: bool) -> None:
        self.costs, self.work, self.ram_disk = costs, TemplateBuilder(SITES, costs).work, ram_disk

    def call(self, cost: str) -> list:
        return [self.work(cost, 1), _run(LOAD, "inode", q.INODE, 0, 64)]

    def device(self, code: int, site: str, base: int, length: int = 0, by: int = 0) -> tuple[int, ...]:
        """Return the step of a copy from or to the device at register `base`; to persistent memory it is non-temporal."""
        if self.ram_disk:
            return _run(STORE if code == NTSTORE else code, site, base, RAM_DISK, length, by)
        return _run(code, site, base, 0, length, by, space=PM, width=8 if code == NTSTORE else 0)

    def flush(self) -> list:
        """Return the template steps of a device flush: none for a RAM disk."""
        return [] if self.ram_disk else [_run(FENCE, "metadata", q.ZERO, 0, q.BARRIER_FENCES, space=PM)]

    def entries(self) -> list:
        """Return the steps that charge for the directory entries that the driver of ext4 examines."""
        return [self.work(cost, 0, register) for cost, register in q.LOOKED_AT.items() if cost in self.costs]

    def names(self) -> dict[int, list]:
        """Return the templates of calls other than read and write, with metadata in place."""
        work, call = self.work, self.call
        buffers = 0 if self.ram_disk else 8
        return q.plain_calls(call, work) | {
            q.TIMES: [work("inode_update", 1)],
            q.DIRTY_INODE: [_run(STORE, "inode", q.SLOT, 0, 160)],
            q.BARRIER: self.flush(),
            q.IN_PLACE: [
                work("metadata_block", 1),
                _run(LOAD, "metadata", q.FROM, q.BUFFERS, q.BLOCK, width=buffers),
                self.device(NTSTORE, "metadata", q.FROM, q.BLOCK),
            ],
            q.COMMIT: [work("late_block", 0, q.COUNT), work("forgotten_block", 0, q.REVOKES)],
            q.CHECKPOINT: self.flush(),
            q.SYNC: [work("sync_call", 1)],
            q.SCAN: [
                work("scan_entry", 0, q.SCANNED),
                _run(LOAD, "directory scan", q.FROM, q.BUFFERS, 0, q.BYTES),
            ],
            q.NAME: [*self.entries(), _run(STORE, "namespace", q.FROM, q.BUFFERS, 64)],
            q.CREATE: [*call("create"), work("recent_inode", 0, q.SCANNED)],
            q.MKDIR: [*call("mkdir"), work("recent_inode", 0, q.SCANNED)],
            q.FREED: [work("free_run", 0, q.COUNT), work("free_page", 0, q.PAGES)],
            q.TRUNCATE: [*call("null_call"), work("inode_update", 2)],
            q.FALLOCATE: [*call("null_call"), work("inode_update", 1)],
            q.FALLOCATED: [work("allocate", 0, q.COUNT)],
            q.CLEAR_PM: [
                _run(STORE, "zeroing", q.TO, 0, 0, q.BYTES, space=PM),
                _run(FLUSH, "zeroing", q.TO, 0, 0, q.BYTES, space=PM),
            ],
            q.CLEAR_FRAME: [_run(STORE, "page cache", q.TO, 0, 0, q.BYTES)],
        }

    def dax(self, copy_fence: bool) -> dict[int, list]:
        """Return the templates of write() and read() without a page cache."""
        work = self.work
        return {
            q.WRITE: self.call("write_call"),
            q.MAP: [work("map_run", 1), work("map_level", 0, q.LEVELS), work("scan_block", 0, q.SCANNED)],
            q.ALLOCATE: [
                _run(STORE, "allocation", q.BITMAP, 0, 8),
                _run(STORE, "allocation", q.GROUP, 0, 32),
                work("allocate", 1),
                work("new_pointers", 0, q.POINTERS),
                work("zero_block", 0, q.COUNT),
                _run(LOAD, "zeroing", q.ZERO, q.ZERO_PAGE, q.BLOCK),
                _run(NTSTORE, "zeroing", q.TO, 0, 0, q.BYTES, space=PM, width=8),
            ],
            q.COPY: [
                *q.dax_copy(_run, copy_fence),
                work("copy_line", 0, q.LINES),
            ],
            q.FINISH: [work("inode_update", 0, q.HAS)],
            q.READ: self.call("read_call"),
            q.COPY_OUT: [
                _run(LOAD, "copy", q.FROM, 0, 0, q.HAS, space=PM),
                _run(STORE, "copy", q.USER_AT, 0, 0, q.BYTES, space=USER),
            ],
            q.READ_PAGES: [work("timer_tick", 0, q.LINES)],
        }

    def cached(self) -> dict[int, list]:
        """Return the templates of write(), read() and write-back with a page cache."""
        work = self.work
        return {
            q.WRITE: self.call("cache_write_call"),
            q.ALLOCATE: [work("allocate", 0, q.COUNT)],
            q.COPY: [
                _run(LOAD, "copy", q.USER_AT, 0, 0, q.BYTES, space=USER),
                _run(STORE, "copy", q.TO, 0, 0, q.BYTES),
            ],
            q.FINISH: [
                work("cache_page", 0, q.PAGES),
                work("cache_page_new", 0, q.NEW),
                work("inode_update", 0, q.GROWN),
            ],
            q.FILL: [
                work("cache_fill_page", 1),
                self.device(LOAD, "page cache", q.FROM, q.BLOCK),
                _run(STORE, "page cache", q.TO, 0, q.BLOCK),
            ],
            q.READ: self.call("cache_read_call"),
            q.COPY_OUT: [
                _run(LOAD, "copy", q.FROM, 0, 0, q.HAS),
                _run(STORE, "copy", q.USER_AT, 0, 0, q.BYTES, space=USER),
            ],
            q.READ_PAGES: [
                work("cache_read_page", 0, q.PAGES),
                work("cache_page_new", 0, q.NEW),
                work("timer_tick", 0, q.LINES),
            ],
            q.FLUSH_RUN: [self.device(NTSTORE, "writeback", q.TO, 0, q.BYTES)],
            q.FLUSH_LOAD: [_run(LOAD, "writeback", q.FROM, 0, 0, q.HAS, width=0 if self.ram_disk else 8)],
            q.FLUSHED: [work("flush_call", 1), work("flush_page", 0, q.PAGES)],
        }


def costs_of(dax: bool, by_ext4: bool) -> tuple[str, ...]:
    """Return the names of a model's costs, in the order of its rows."""
    return (DAX_COSTS if dax else CACHE_COSTS) + (ENTRY_COSTS if by_ext4 else ())


def all_templates(costs: tuple[str, ...], dax: bool, ram_disk: bool, copy_fence: bool) -> dict[int, list]:
    """Return every template of a model by number; unused templates are empty."""
    make = _Templates(costs, ram_disk)
    every = make.names() | (make.dax(copy_fence) if dax else make.cached())
    every[q.CONVERT] = every[q.ALLOCATE]  # ext2 has no unwritten blocks; those of a trace's fallocate count as new
    return {number: every.get(number, []) for number in range(q.TEMPLATES)}
