"""Define the mechanisms of hugetlbfs and device-dax as templates.

Sources: Linux 6.1 fs/hugetlbfs/inode.c (hugetlbfs_read_iter, hugetlbfs_fallocate), mm/hugetlb.c (clear_huge_page),
drivers/dax/device.c.  `ported` writes are a program's own memcpy.
"""

from scmsim.core.records import KERNEL, LOAD, PM, STORE, USER
from scmsim.fs.engine.events import TemplateBuilder
from scmsim.fs.linux import templates as q

# Mechanism -> purpose of the bytes that it stores.
SITES = {
    "syscall": "none",
    "copy": "data",
    "zeroing": "zeroing",
    "inode": "none",
    "namespace": "none",
    "allocation": "none",
}
SITES_IN_DRAM = dict.fromkeys(SITES, "none")

COSTS = (
    "null_call", "read_call", "read_page", "copy_call", "fsync_call", "create", "open", "close", "unlink", "remove",
    "rename", "link", "mkdir", "rmdir", "stat", "readdir", "list_entry", "take_page", "clear_page", "free_page",
    "reserve_call",
)  # fmt: skip

OPEN, CLOSE, FSYNC, STAT, OTHER = q.OPEN, q.CLOSE, q.FSYNC, q.STAT, q.OTHER
MAP, COPY_HOLE, TAKE, CLEAR, FREE, RESERVE = range(q.TEMPLATES, q.TEMPLATES + 6)
TEMPLATES = RESERVE + 1


def templates(in_dram: bool) -> dict[int, list]:
    """Return every template by number."""
    steps = TemplateBuilder(SITES, COSTS, space=KERNEL)
    run, work, space = steps.run, steps.work, KERNEL if in_dram else PM

    def call(cost: str) -> list:
        return [work(cost, 1), run(LOAD, "inode", q.INODE, 0, 64)]

    every = {
        q.COPY: [
            run(LOAD, "copy", q.USER_AT, 0, 0, q.BYTES, space=USER),
            run(STORE, "copy", q.TO, 0, 0, q.BYTES, space=space),
            work("copy_call", 1),
        ],
        q.WRITE: call("null_call"),  # a refused write(); `ported` writes are not system calls
        q.READ: call("read_call"),
        q.COPY_OUT: [
            run(LOAD, "copy", q.FROM, 0, 0, q.BYTES, space=space),
            run(STORE, "copy", q.USER_AT, 0, 0, q.BYTES, space=USER),
            work("read_page", 1),
        ],
        COPY_HOLE: [run(STORE, "copy", q.USER_AT, 0, 0, q.BYTES, space=USER), work("read_page", 1)],
        **q.plain_calls(call, work),
        MAP: call("null_call"),
        TAKE: [work("take_page", 1)],
        CLEAR: [run(STORE, "zeroing", q.TO, 0, 0, q.BYTES, space=space), work("clear_page", 0, q.PAGES)],
        FREE: [work("free_page", 0, q.PAGES)],
        RESERVE: [work("reserve_call", 1)],
    }
    return {number: every.get(number, []) for number in range(TEMPLATES)}
