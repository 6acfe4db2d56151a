"""Define WineFS's mechanisms besides PMFS's as templates.

Source: WineFS fs/winefs/{xip,dir,journal,inode,balloc}.c: data always by non-temporal stores; in strict mode a write to an
aligned file is copied twice, first to fresh blocks, then in place.  Blocks are allocated, looked up, copied and freed by
runs, so costs are per run where PMFS's are per block.
"""

from scmsim.core.records import FLUSH, LOAD, NTSTORE, PM, STORE, USER
from scmsim.fs.engine.events import TemplateBuilder
from scmsim.fs.pmfs import templates as pmfs_templates

SITES = {
    **pmfs_templates.SITES,
    "second copy": "data",  # in place, after the fresh blocks are committed
    "directory index": "none",  # red-black tree in DRAM
}
COSTS = ("tree_step", "find_call", "new_run", "free_run", "free_slot", "access_time")
ALL_COSTS = (*pmfs_templates.COSTS, *COSTS)
LOGGED_INODE = 96  # bytes of a new inode that create logs: all of struct pmfs_inode
NEW_INODE_BYTES = 68  # PMFS's 58, and pmfs_ino (8), huge_aligned_file and numa_node
ACCESS_TIME = 76  # offset of i_atime
SECOND_COPY, BARRIER, RESTORE, SEARCH, ATIME = range(pmfs_templates.OLD_FREED + 1, pmfs_templates.OLD_FREED + 6)
_STEPS = TemplateBuilder(SITES, ALL_COSTS)
_work, _fence = _STEPS.work, _STEPS.fence


def _step(code: int, site: str, base: int, by: int, space: int = PM, width: int = 0) -> tuple[int, ...]:
    return _STEPS.run(code, site, base, 0, 0, by, space=space, width=width)


def _copy(site: str) -> list:
    """Return the copy of one run of blocks from the caller's buffer."""
    return [
        _step(LOAD, site, pmfs_templates.USER_AT, pmfs_templates.BYTES, USER, 8),
        _step(NTSTORE, site, pmfs_templates.TO, pmfs_templates.BYTES, PM, 8),
        _step(FLUSH, site, pmfs_templates.TO, pmfs_templates.LEAF),
        _step(FLUSH, site, pmfs_templates.EDGE_AT, pmfs_templates.EDGE),
        _work("write_page", 1),
        _work("nocache_line", 0, pmfs_templates.LINES),
    ]


def templates(dax: bool) -> dict[int, list]:
    """Return PMFS's templates with non-temporal copies, and WineFS's own; WineFS has no variant with cached copies."""
    base = pmfs_templates.templates(False)
    inode = pmfs_templates.INODE
    return base | {
        pmfs_templates.WRITE: [*base[pmfs_templates.WRITE], _work("find_call", 1)],
        pmfs_templates.FIND: [*base[pmfs_templates.FIND], _work("find_call", 1)],
        pmfs_templates.COPY: _copy("data copy"),
        pmfs_templates.FILL: [*base[pmfs_templates.FILL], _work("new_run", 0, pmfs_templates.COUNT)],
        pmfs_templates.FREED: [
            _step(LOAD, "index", pmfs_templates.LEAF_AT, pmfs_templates.SLOTS, width=8),
            *base[pmfs_templates.FREED][1:],
            _work("free_run", 0, pmfs_templates.PAGES),
        ],
        pmfs_templates.OLD_FREED: [
            *base[pmfs_templates.OLD_FREED],
            _work("free_run", 0, pmfs_templates.PAGES),
        ],
        pmfs_templates.NEW_INODE: [_STEPS.run(STORE, "inode", inode, 0, NEW_INODE_BYTES)],
        SECOND_COPY: _copy("second copy"),
        BARRIER: [_fence("inode")],
        RESTORE: [
            _step(LOAD, "index", pmfs_templates.LEAF_AT, pmfs_templates.SLOTS),
            _step(STORE, "index", pmfs_templates.LEAF_AT, pmfs_templates.UPPER),
        ],
        SEARCH: [_work("tree_step", 0, pmfs_templates.COUNT)],
        ATIME: [
            _STEPS.run(STORE, "inode", inode, ACCESS_TIME, 4),
            _STEPS.run(FLUSH, "inode", inode, ACCESS_TIME, 4),
            _work("access_time", 1),
        ],
    }
