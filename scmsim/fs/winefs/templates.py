"""Define templates of the mechanisms that WineFS adds to PMFS.

Source: WineFS fs/winefs/{xip,dir,journal,inode,balloc}.c: data is always written by non-temporal stores; in strict
mode a write to an aligned file is copied twice, first to fresh blocks, then in place.  WineFS allocates, looks up, copies and
frees runs of blocks, so its costs are per run where PMFS's are per block.
"""

from scmsim.core.records import FLUSH, LOAD, NTSTORE, PM, STORE, USER
from scmsim.fs.engine.events import TemplateBuilder
from scmsim.fs.pmfs import templates as tpl

SITES = {
    **tpl.SITES,
    "second copy": "data",  # in place, after the fresh blocks are committed
    "directory index": "none",  # red-black tree in DRAM
}
COSTS = ("tree_step", "find_call", "new_run", "free_run", "free_slot", "access_time")
ALL_COSTS = (*tpl.COSTS, *COSTS)
JOURNAL_AT = 9 * tpl.BLOCK  # after two super blocks of 8 KiB and the heads of the inode tables (winefs_init)
LOGGED_INODE = 96  # bytes of a new inode that create logs: all of struct pmfs_inode
NEW_INODE_BYTES = 68  # PMFS's 58, and pmfs_ino (8), huge_aligned_file and numa_node
ACCESS_TIME = 76  # offset of i_atime
SECOND_COPY, BARRIER, RESTORE, SEARCH, ATIME = range(tpl.OLD_FREED + 1, tpl.OLD_FREED + 6)
_STEPS = TemplateBuilder(SITES, ALL_COSTS)
_work, _fence = _STEPS.work, _STEPS.fence


def _step(code: int, site: str, base: int, by: int, space: int = PM, width: int = 0) -> tuple[int, ...]:
    return _STEPS.run(code, site, base, 0, 0, by, space=space, width=width)


def _copy(site: str) -> list:
    """Return the template that copies one run of blocks from the caller's buffer."""
    return [
        _step(LOAD, site, tpl.USER_AT, tpl.BYTES, USER, 8),
        _step(NTSTORE, site, tpl.TO, tpl.BYTES, PM, 8),
        _step(FLUSH, site, tpl.TO, tpl.LEAF),
        _step(FLUSH, site, tpl.EDGE_AT, tpl.EDGE),
        _work("write_page", 1),
        _work("nocache_line", 0, tpl.LINES),
    ]


def templates(dax: bool) -> dict[int, list]:
    """Return PMFS's templates with non-temporal copies, and those that WineFS adds; `dax` has no effect."""
    base = tpl.templates(False)
    inode = tpl.INODE
    return base | {
        tpl.WRITE: [*base[tpl.WRITE], _work("find_call", 1)],
        tpl.FIND: [*base[tpl.FIND], _work("find_call", 1)],
        tpl.COPY: _copy("data copy"),
        tpl.FILL: [*base[tpl.FILL], _work("new_run", 0, tpl.COUNT)],
        tpl.FREED: [
            _step(LOAD, "index", tpl.LEAF_AT, tpl.SLOTS, width=8),
            *base[tpl.FREED][1:],
            _work("free_run", 0, tpl.PAGES),
        ],
        tpl.OLD_FREED: [
            *base[tpl.OLD_FREED],
            _work("free_run", 0, tpl.PAGES),
        ],
        tpl.NEW_INODE: [_STEPS.run(STORE, "inode", inode, 0, NEW_INODE_BYTES)],
        SECOND_COPY: _copy("second copy"),
        BARRIER: [_fence("inode")],
        RESTORE: [
            _step(LOAD, "index", tpl.LEAF_AT, tpl.SLOTS),
            _step(STORE, "index", tpl.LEAF_AT, tpl.UPPER),
        ],
        SEARCH: [_work("tree_step", 0, tpl.COUNT)],
        ATIME: [
            _STEPS.run(STORE, "inode", inode, ACCESS_TIME, 4),
            _STEPS.run(FLUSH, "inode", inode, ACCESS_TIME, 4),
            _work("access_time", 1),
        ],
    }
