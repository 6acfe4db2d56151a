"""Templates of XFS with the page cache; those of the log and of names are shared with xfs-dax.

Source: Linux 6.1 fs/xfs/{xfs_file.c,xfs_aops.c,xfs_iomap.c}, fs/iomap/buffered-io.c, mm/filemap.c, drivers/nvdimm/pmem.c
(`memcpy_flushcache` per page).
"""

from scmsim.core.records import KERNEL, LOAD, NTSTORE, PM, STORE, USER
from scmsim.fs.engine.events import TemplateBuilder
from scmsim.fs.linux import templates as q
from scmsim.fs.xfs import templates as x

SITES = x.SITES | {"page cache": "none", "writeback": "data"}

_DAX = {"write_call", "read_call", "map_run", "copy_line", "zero_block"}
COSTS = (
    *(cost for cost in x.COSTS if cost not in _DAX),
    "cache_write_call", "cache_page", "cache_page_new", "cache_page_dirty", "reserve", "cache_read_call", "cache_read_page",
    "cache_fill_page", "flush_call", "flush_page", "flush_run", "convert", "free_page",
)  # fmt: skip

FOLIO_COSTS = (*COSTS, *q.FOLIO_COSTS)  # of kernels whose writes allocate large folios
RESERVATIONS = q.REVOKES  # register of a write: holes for which blocks are reserved

_STEPS = TemplateBuilder(SITES, FOLIO_COSTS, KERNEL)
_run, _work = _STEPS.run, _STEPS.work


def _cache_templates() -> dict[int, list]:
    """Return the templates of write() and read()."""
    return {
        q.WRITE: x.call(_STEPS, "cache_write_call"),
        q.TIMES: [_work("transaction", 1)],
        q.COPY: [
            _run(LOAD, "copy", q.USER_AT, 0, 0, q.BYTES, space=USER),
            _run(STORE, "copy", q.TO, 0, 0, q.BYTES),
        ],
        q.FINISH: [
            _work("cache_page", 0, q.PAGES),
            _work("cache_page_new", 0, q.NEW),
            _work("cache_page_dirty", 0, q.HAS),
            _work("reserve", 0, RESERVATIONS),
        ],
        q.FILL: [
            _work("cache_fill_page", 1),
            _run(LOAD, "page cache", q.FROM, 0, q.BLOCK, space=PM),
            _run(STORE, "page cache", q.TO, 0, q.BLOCK),
        ],
        q.READ: x.call(_STEPS, "cache_read_call"),
        q.COPY_OUT: [
            _run(LOAD, "copy", q.FROM, 0, 0, q.HAS),
            _run(STORE, "copy", q.USER_AT, 0, 0, q.BYTES, space=USER),
        ],
        q.READ_PAGES: [
            _work("cache_read_page", 0, q.PAGES),
            _work("cache_page_new", 0, q.NEW),
            _work("timer_tick", 0, q.LINES),
        ],
        q.CLEAR_FRAME: [_run(STORE, "page cache", q.TO, 0, 0, q.BYTES)],
    }


def _storing_templates() -> dict[int, list]:
    """Return the templates of write-back, of the end of its I/O, and of freed pages."""
    return {
        q.ALLOCATE: [_work("transaction", 1), _work("allocate", 1), _work("compared_run", 0, x.COMPARED)],
        q.FLUSH_RUN: [_work("flush_run", 1), _run(NTSTORE, "writeback", q.TO, 0, 0, q.BYTES, space=PM, width=8)],
        q.FLUSH_LOAD: [_run(LOAD, "writeback", q.FROM, 0, 0, q.HAS, width=8)],
        q.FLUSHED: [_work("flush_call", 1), _work("flush_page", 0, q.PAGES)],
        q.CONVERT: [_work("transaction", 1), _work("convert", 1)],
        q.FREED: [_work("free_extent", 0, q.COUNT), _work("free_page", 0, q.PAGES)],
    }


def all_templates(table_checksum: bool, folios: bool) -> dict[int, list]:
    """Return every template by number; those of ext4 that XFS does not use are empty.  `folios` adds FOLIO_COSTS."""
    every = (
        x.name_templates(_STEPS) | x.log_templates(table_checksum, _STEPS) | _cache_templates() | _storing_templates()
    )
    if folios:
        every |= {number: every[number] + steps for number, steps in q.folio_steps(_work).items()}
    return {number: every.get(number, []) for number in range(x.ITEM + 1)}
