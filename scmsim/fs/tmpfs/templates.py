"""Define the mechanisms of tmpfs and ramfs as templates: the events of each mechanism, in the order of the source.

Data is in pages of DRAM (space KERNEL); nothing is persistent, nothing is written back, and fsync does nothing. Copies
use string instructions.
Sources: Linux mm/{filemap.c: generic_perform_write, shmem.c: shmem_write_begin, shmem_write_end, shmem_file_read_iter,
swap.c: mark_page_accessed}, fs/libfs.c: simple_write_begin, simple_write_end, noop_fsync.
"""

from scmsim.core.records import KERNEL, LOAD, STORE, USER
from scmsim.fs.engine.events import TemplateBuilder
from scmsim.fs.linux import templates as q

# Mechanism -> purpose of the bytes that it stores to persistent memory.
SITES = {
    "syscall": "none",
    "copy": "none",
    "zeroing": "none",
    "page cache": "none",
    "inode": "none",
    "namespace": "none",
}

COSTS = (
    "null_call", "write_call", "write_page", "new_page", "activate_page", "read_call", "read_page", "timer_tick",
    "fsync_call", "create", "open", "close", "stat", "unlink", "remove", "free_page", "rename", "link", "mkdir", "rmdir",
    "sync_call", "readdir", "list_entry",
)  # fmt: skip

_STEPS = TemplateBuilder(SITES, COSTS, KERNEL)
_run, _work = _STEPS.run, _STEPS.work


def _call(cost: str) -> list:
    return [_work(cost, 1), _run(LOAD, "inode", q.INODE, 0, 64)]


def all_templates(activates: bool) -> dict[int, list]:
    """Return every template by number; `activates`: the second use of a page moves it to the active list (tmpfs)."""
    again = [_work("activate_page", 0, q.NEW)] if activates else []
    every = {
        q.WRITE: _call("write_call"),
        **dict.fromkeys((q.ALLOCATE, q.CONVERT), [_work("new_page", 0, q.COUNT)]),
        q.EDGES: [
            _run(STORE, "zeroing", q.TO, 0, 0, q.HEAD),
            _run(STORE, "zeroing", q.TAIL_AT, 0, 0, q.TAIL),
        ],
        q.COPY: [
            _run(LOAD, "copy", q.USER_AT, 0, 0, q.BYTES, space=USER),
            _run(STORE, "copy", q.TO, 0, 0, q.BYTES),
        ],
        q.FINISH: [_work("write_page", 0, q.PAGES), *again],
        q.READ: _call("read_call"),
        q.COPY_OUT: [
            _run(LOAD, "copy", q.FROM, 0, 0, q.HAS),
            _run(STORE, "copy", q.USER_AT, 0, 0, q.BYTES, space=USER),
        ],
        q.READ_PAGES: [_work("read_page", 0, q.PAGES), *again, _work("timer_tick", 0, q.LINES)],
        q.SYNC: [_work("sync_call", 1)],
        q.FREED: [_work("free_page", 0, q.PAGES)],
        q.CLEAR_PM: [_run(STORE, "zeroing", q.TO, 0, 0, q.BYTES)],
        q.TRUNCATE: _call("null_call"),
        q.FALLOCATE: _call("null_call"),
        q.FALLOCATED: [],
        **q.plain_calls(_call, _work),
    }
    return {number: every.get(number, []) for number in range(q.TEMPLATES)}
