"""WineFS's mechanisms beside PMFS's, as recipes.

Source: WineFS fs/winefs/{xip,dir,journal}.c: data always by non-temporal stores; in strict mode a write to an aligned file
is copied twice, first to fresh blocks, then in place.
"""

from scmsim.core.records import FLUSH, LOAD, NTSTORE, PM, STORE, USER
from scmsim.fs.engine.events import Steps
from scmsim.fs.pmfs import recipes as q

SITES = {
    **q.SITES,
    "second copy": "data",  # in place, after the fresh blocks are committed
    "directory index": "none",  # red-black tree in DRAM
}
COSTS = ("tree_step",)
SECOND_COPY, BARRIER, RESTORE, SEARCH = range(q.OLD_FREED + 1, q.OLD_FREED + 5)
_STEPS = Steps(SITES, (*q.COSTS, *COSTS))
_work, _fence = _STEPS.work, _STEPS.fence


def _step(code: int, site: str, base: int, by: int, space: int = PM, width: int = 0) -> tuple[int, ...]:
    return _STEPS.run(code, site, base, 0, 0, by, space=space, width=width)


def recipes(dax: bool) -> dict[int, list]:
    """PMFS's recipes with non-temporal copies, and WineFS's own; it has no variant with cached copies."""
    second = "second copy"
    return q.recipes(False) | {
        SECOND_COPY: [
            _step(LOAD, second, q.USER_AT, q.BYTES, USER),
            _step(NTSTORE, second, q.TO, q.BYTES, PM, 8),
            _step(FLUSH, second, q.TO, q.LEAF),
            _step(FLUSH, second, q.EDGE_AT, q.EDGE),
            _work("write_page", 0, q.PAGES),
            _work("copy_line", 0, q.LINES),
        ],
        BARRIER: [_fence("inode")],
        RESTORE: [
            _step(LOAD, "index", q.LEAF_AT, q.SLOTS),
            _step(STORE, "index", q.LEAF_AT, q.UPPER),
        ],
        SEARCH: [_work(COSTS[0], 0, q.COUNT)],
    }
