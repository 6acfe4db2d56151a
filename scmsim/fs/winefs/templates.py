"""Define WineFS's mechanisms besides PMFS's as templates.

Source: WineFS fs/winefs/{xip,dir,journal}.c: data always by non-temporal stores; in strict mode a write to an aligned
file is copied twice, first to fresh blocks, then in place.
"""

from scmsim.core.records import FLUSH, LOAD, NTSTORE, PM, STORE, USER
from scmsim.fs.engine.events import TemplateBuilder
from scmsim.fs.pmfs import templates as pmfs_templates

SITES = {
    **pmfs_templates.SITES,
    "second copy": "data",  # in place, after the fresh blocks are committed
    "directory index": "none",  # red-black tree in DRAM
}
COSTS = ("tree_step",)
SECOND_COPY, BARRIER, RESTORE, SEARCH = range(pmfs_templates.OLD_FREED + 1, pmfs_templates.OLD_FREED + 5)
_STEPS = TemplateBuilder(SITES, (*pmfs_templates.COSTS, *COSTS))
_work, _fence = _STEPS.work, _STEPS.fence


def _step(code: int, site: str, base: int, by: int, space: int = PM, width: int = 0) -> tuple[int, ...]:
    return _STEPS.run(code, site, base, 0, 0, by, space=space, width=width)


def templates(dax: bool) -> dict[int, list]:
    """Return PMFS's templates with non-temporal copies, and WineFS's own; WineFS has no variant with cached copies."""
    second = "second copy"
    return pmfs_templates.templates(False) | {
        SECOND_COPY: [
            _step(LOAD, second, pmfs_templates.USER_AT, pmfs_templates.BYTES, USER, 8),
            _step(NTSTORE, second, pmfs_templates.TO, pmfs_templates.BYTES, PM, 8),
            _step(FLUSH, second, pmfs_templates.TO, pmfs_templates.LEAF),
            _step(FLUSH, second, pmfs_templates.EDGE_AT, pmfs_templates.EDGE),
            _work("write_page", 0, pmfs_templates.PAGES),
            _work("nocache_line", 0, pmfs_templates.LINES),
        ],
        BARRIER: [_fence("inode")],
        RESTORE: [
            _step(LOAD, "index", pmfs_templates.LEAF_AT, pmfs_templates.SLOTS),
            _step(STORE, "index", pmfs_templates.LEAF_AT, pmfs_templates.UPPER),
        ],
        SEARCH: [_work(COSTS[0], 0, pmfs_templates.COUNT)],
    }
