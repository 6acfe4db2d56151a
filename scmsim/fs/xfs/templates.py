"""Templates of XFS with DAX: the events that each of its mechanisms emits, in the order of the source.

Registers, and the numbers of the templates that the shared data kernels emit, are those of linux/templates.py.  Sources:
Linux 5.13 fs/xfs/{xfs_file.c,xfs_iomap.c,xfs_log.c,xfs_log_cil.c,xfs_trans_ail.c}, fs/dax.c,
arch/x86/lib/{usercopy_64.c,copy_user_64.S}, drivers/nvdimm/pmem.c.  Each log buffer is written with a flush of the
device before and after it (REQ_PREFLUSH, REQ_FUA: two store fences each, measured: four per log buffer).
"""

from scmsim.core.records import FENCE, FLUSH, KERNEL, LOAD, NTSTORE, PM, STORE, USER
from scmsim.fs.engine.events import TemplateBuilder
from scmsim.fs.linux import templates as q

# Mechanism -> purpose of the bytes that it stores to persistent memory.
SITES = {
    "syscall": "none",
    "copy": "data",
    "zeroing": "zeroing",
    "mapping": "none",
    "allocation": "none",
    "transaction": "none",
    "namespace": "none",
    "log": "log",
    "metadata": "metadata",
}

COSTS = (
    "null_call", "write_call", "read_call", "map_run", "copy_line", "transaction", "allocate", "zero_block", "timer_tick",
    "fsync_call", "checkpoint", "log_block", "log_item", "busy_extent", "freed_inode", "push_block", "create", "open",
    "close", "unlink", "remove", "free_extent", "rename", "link", "mkdir", "rmdir", "stat", "sync_call",
    "checksum_step", "readdir", "list_entry", "block_entry", "leaf_entry", "compared_run",
)  # fmt: skip

FENCES, CHECKED = 30, 31  # registers after those of linux/templates.py
IN_BLOCK, IN_LEAF, COMPARED = q.SEARCHED, q.PLACED, q.REVOKES  # reuse registers that XFS does not need then

# Templates after those of linux/templates.py.
LOG_WRITE, LOG_DONE, METADATA, ITEM = range(q.TEMPLATES, q.TEMPLATES + 4)
BARRIER_FENCES = 2
LOG_WRITE_FENCES = 2 * BARRIER_FENCES
_STEPS = TemplateBuilder(SITES, COSTS, KERNEL)


def call(steps: TemplateBuilder, cost: str) -> list:
    """Return the steps of a call that reads an inode: its cost, and a load of the inode."""
    return [steps.work(cost, 1), steps.run(LOAD, "transaction", q.INODE, 0, 64)]


def data_templates(copy_fence: bool) -> dict[int, list]:
    """Return the templates of write() and read(); a write that changes nothing but data has no transaction."""
    run, work = _STEPS.run, _STEPS.work
    zeroing = [
        work("zero_block", 0, q.COUNT),
        run(LOAD, "zeroing", q.ZERO, q.ZERO_PAGE, q.BLOCK),
        run(NTSTORE, "zeroing", q.TO, 0, 0, q.BYTES, space=PM, width=8),
    ]
    return {
        q.WRITE: call(_STEPS, "write_call"),
        q.TIMES: [work("transaction", 1)],
        q.ALLOCATE: [work("transaction", 1), work("allocate", 1), work("compared_run", 0, COMPARED), *zeroing],
        q.CONVERT: [work("transaction", 1), *zeroing],
        q.COPY: [
            work("map_run", 1),
            *q.dax_copy(run, copy_fence),
            work("copy_line", 0, q.LINES),
        ],
        q.FINISH: [work("transaction", 1)],
        q.READ: call(_STEPS, "read_call"),
        q.COPY_OUT: [
            work("map_run", 1),
            run(LOAD, "copy", q.FROM, 0, 0, q.HAS, space=PM),
            run(STORE, "copy", q.USER_AT, 0, 0, q.BYTES, space=USER),
        ],
        q.READ_PAGES: [work("timer_tick", 0, q.LINES)],
    }


def log_templates(table_checksum: bool, steps: TemplateBuilder = _STEPS) -> dict[int, list]:
    """Return the templates of items, checkpoints, log writes, and metadata in place."""
    run, work = steps.run, steps.work
    return {
        ITEM: [run(STORE, "transaction", q.SLOT, 0, 128)],
        LOG_WRITE: [
            work("log_block", 0, q.COUNT),
            *([work("checksum_step", 0, CHECKED)] if table_checksum else []),
            run(LOAD, "log", q.ZERO, q.DESCRIPTORS, 0, q.BYTES, width=8),
            run(NTSTORE, "log", q.TO, 0, 0, q.LOG, space=PM, width=8),
            run(NTSTORE, "log", q.FROM, 0, 0, q.LOG_WRAPPED, space=PM, width=8),
            run(FENCE, "log", q.ZERO, 0, 0, FENCES, space=PM),
        ],
        LOG_DONE: [
            work("checkpoint", 1),
            work("log_item", 0, q.COUNT),
            work("busy_extent", 0, q.REVOKES),
            work("freed_inode", 0, q.NEW),
        ],
        q.FSYNC: [work("fsync_call", 1)],
        q.BARRIER: [run(FENCE, "log", q.ZERO, 0, BARRIER_FENCES, space=PM)],
        METADATA: [
            work("push_block", 1),
            run(LOAD, "metadata", q.FROM, q.BUFFERS, 0, q.BYTES, width=8),
            run(NTSTORE, "metadata", q.FROM, 0, 0, q.BYTES, space=PM, width=8),
        ],
        q.SYNC: [work("sync_call", 1)],
    }


def name_templates(steps: TemplateBuilder = _STEPS) -> dict[int, list]:
    """Return the templates of calls other than read and write."""
    run, work = steps.run, steps.work
    return {
        q.NAME: [
            work("block_entry", 0, IN_BLOCK),
            work("leaf_entry", 0, IN_LEAF),
            run(LOAD, "namespace", q.FROM, q.BUFFERS, q.BLOCK),
            run(STORE, "namespace", q.FROM, q.BUFFERS, 64),
        ],
        q.CREATE: call(steps, "create"),
        q.OPEN: call(steps, "open"),
        q.CLOSE: call(steps, "close"),
        q.STAT: call(steps, "stat"),
        q.OTHER: call(steps, "null_call"),
        q.LIST: [*call(steps, "readdir"), work("list_entry", 0, q.COUNT)],
        q.UNLINK: call(steps, "unlink"),
        q.REMOVE: call(steps, "remove"),
        q.RMDIR: call(steps, "rmdir"),
        q.RENAME: call(steps, "rename"),
        q.LINK: call(steps, "link"),
        q.MKDIR: call(steps, "mkdir"),
        q.FREED: [work("free_extent", 0, q.COUNT)],
        q.TRUNCATE: [*call(steps, "null_call"), work("transaction", 2)],
        q.FALLOCATE: [*call(steps, "null_call"), work("transaction", 1)],
        q.FALLOCATED: [work("allocate", 0, q.COUNT), work("compared_run", 0, COMPARED)],
        q.CLEAR_PM: [
            run(STORE, "zeroing", q.TO, 0, 0, q.BYTES, space=PM),
            run(FLUSH, "zeroing", q.TO, 0, 0, q.BYTES, space=PM),
        ],
    }


def all_templates(copy_fence: bool, table_checksum: bool) -> dict[int, list]:
    """Return every template by number; those of ext4 that XFS does not use are empty."""
    every = data_templates(copy_fence) | log_templates(table_checksum) | name_templates()
    return {number: every.get(number, []) for number in range(ITEM + 1)}
