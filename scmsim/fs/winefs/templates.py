"""Define WineFS's mechanisms besides PMFS's as recipes.

Source: WineFS fs/winefs/{xip,dir,journal}.c: data always by non-temporal stores; in strict mode a write to an aligned
file is copied twice, first to fresh blocks, then in place.
"""

from scmsim.core.records import FLUSH, LOAD, NTSTORE, PM, STORE, USER
from scmsim.fs.engine.events import RecipeBuilder
from scmsim.fs.pmfs import recipes as pmfs_recipes

SITES = {
    **pmfs_recipes.SITES,
    "second copy": "data",  # in place, after the fresh blocks are committed
    "directory index": "none",  # red-black tree in DRAM
}
COSTS = ("tree_step",)
SECOND_COPY, BARRIER, RESTORE, SEARCH = range(pmfs_recipes.OLD_FREED + 1, pmfs_recipes.OLD_FREED + 5)
_STEPS = RecipeBuilder(SITES, (*pmfs_recipes.COSTS, *COSTS))
_work, _fence = _STEPS.work, _STEPS.fence


def _step(code: int, site: str, base: int, by: int, space: int = PM, width: int = 0) -> tuple[int, ...]:
    return _STEPS.run(code, site, base, 0, 0, by, space=space, width=width)


def recipes(dax: bool) -> dict[int, list]:
    """Return PMFS's recipes with non-temporal copies, and WineFS's own; WineFS has no variant with cached copies."""
    second = "second copy"
    return pmfs_recipes.recipes(False) | {
        SECOND_COPY: [
            _step(LOAD, second, pmfs_recipes.USER_AT, pmfs_recipes.BYTES, USER, 8),
            _step(NTSTORE, second, pmfs_recipes.TO, pmfs_recipes.BYTES, PM, 8),
            _step(FLUSH, second, pmfs_recipes.TO, pmfs_recipes.LEAF),
            _step(FLUSH, second, pmfs_recipes.EDGE_AT, pmfs_recipes.EDGE),
            _work("write_page", 0, pmfs_recipes.PAGES),
            _work("nocache_line", 0, pmfs_recipes.LINES),
        ],
        BARRIER: [_fence("inode")],
        RESTORE: [
            _step(LOAD, "index", pmfs_recipes.LEAF_AT, pmfs_recipes.SLOTS),
            _step(STORE, "index", pmfs_recipes.LEAF_AT, pmfs_recipes.UPPER),
        ],
        SEARCH: [_work(COSTS[0], 0, pmfs_recipes.COUNT)],
    }
