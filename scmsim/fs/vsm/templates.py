"""Define the templates that VSM adds to PMFS's: multi-grained copy-on-write (MCoW) and zero-copy migration (ZFDM).

Source: the VSM paper (2020), III.B steps 1 to 6 and III.C steps 1 to 4. Where the paper leaves details open (the layout
of a log and of its states, the fences between the steps) this is a reconstruction; docs/models/vsm.md explains each stored
address.
"""

from scmsim.core.records import FLUSH, INVALIDATE, LOAD, MAP, REMAP, STORE, WORK
from scmsim.fs.engine.events import TemplateBuilder
from scmsim.fs.pmfs import templates as tpl

# Mechanisms in addition to PMFS's, in the order of the steps -> purpose of the bytes that they store.
SITES = {
    **tpl.SITES,
    "page table": "metadata",  # step 2, and 2 MiB entries that are split into 4 KiB entries
    "mcow log": "log",  # step 3
    "mcow data": "data",  # step 4
    "mcow copy": "data",  # step 4: the rest of a 4 KiB page that the write covers in part
    "mcow commit": "log",  # records that the new data is durable
    "mcow swap": "metadata",  # step 5: entries of the page table, of the file's index, the inode
    "mcow index": "metadata",
    "mcow complete": "log",  # before step 6
    "zfdm flag": "metadata",  # III.C step 1
    "zfdm log": "log",
    "zfdm commit": "log",
    "zfdm swap": "metadata",  # step 2
    "zfdm index": "metadata",  # step 3
    "zfdm complete": "log",
}

COSTS = (
    "mcow_call", "new_superpage", "new_pages", "table_entry", "vsm_log_entry", "swap_entry", "index_entry", "free_pages",
    "migrate_call", "reclaim_call", "split_call",
)  # fmt: skip

# Registers that PMFS's templates use earlier in a call, for other values.
PTES_AT, FRESH_AT = tpl.LEAF_AT, tpl.UPPER_AT
PTES, VA = tpl.LEAF, tpl.TO
FRESH_VA, SPAN = tpl.FROM, tpl.BYTES
LOG_AT, LOG_BYTES = tpl.DIRENT, tpl.DIR
ENTRIES, COUNT = tpl.ENTRIES, tpl.COUNT
SLOT_AT, SLOTS, GROWN, PMD_AT = tpl.NODE, tpl.SLOTS, tpl.GROWN, tpl.EDGE_AT

(
    OPEN, TAKE_SUPER, TAKE_PAGES, OPEN_LOG, COPY, COPY_EDGE, COMMIT, SWAP, INDEX, COMPLETE, FREED, SPLIT, RECLAIM,
    MIGRATE, MOVE, MOVED,
) = range(tpl.OLD_FREED + 1, tpl.OLD_FREED + 17)  # fmt: skip

# A log: a header of 64 bytes (see docs/models/vsm.md), then both arrays, 16 bytes per entry.
STATE_BYTES, HEADER_BYTES, ENTRY_BYTES = 8, 64, 16
SHOOTDOWNS = ("local", "broadcast", "deferred")
# EVENT.cpu_count of a REMAP: the calling CPU invalidates the range at once, or with a later invalidation
OWN_CPU, LATER = 1, -1
INODE_FLAG = 96  # offset in an inode of the flag that the unused tail of the file's last superpage was freed
PTE = 8
_SITE = {name: code for code, name in enumerate(SITES)}
_STEPS = TemplateBuilder(SITES, COSTS, first_cost=len(tpl.COSTS))
_step, _work, _fence = _STEPS.run, _STEPS.work, _STEPS.fence


def _stored(site: str, base: int, at: int = 0, length: int = 0, by: int = 0) -> list[tuple[int, ...]]:
    """Return the steps of a store and its write-back."""
    return [_step(code, site, base, at, length, by) for code in (STORE, FLUSH)]


def _swapped(site: str, shootdown: str) -> list[tuple[int, ...]]:
    """Return the steps of an exchange of page-table entries (of 4 KiB or 2 MiB).

    The CPU that runs the call invalidates the old mappings; `_on_all_cpus` invalidates the other CPUs.
    """
    return [
        *_stored(site, PTES_AT, 0, 0, PTES),
        *_stored(site, FRESH_AT, 0, 0, PTES),
        _step(REMAP, site, VA, 0, 0, SPAN, width=OWN_CPU),
        _step(REMAP, site, FRESH_VA, 0, 0, SPAN, width=LATER if shootdown == "deferred" else OWN_CPU),
        _work("swap_entry", 0, COUNT),
    ]


def _on_all_cpus(site: str, shootdown: str) -> list[tuple[int, ...]]:
    """Return the step that invalidates register SPAN's bytes on all CPUs; no step if `shootdown` is "local"."""
    return [_step(INVALIDATE, site, VA, 0, 0, SPAN)] if shootdown != "local" else []


def _resited(steps: list, sites: dict[str, str]) -> list:
    """Return the steps with their mechanisms replaced by `sites`; a WORK step keeps the mechanism of its cost."""
    to = {_SITE[old]: _SITE[new] for old, new in sites.items()}
    return [
        (
            what if what & 255 == WORK else what + (to.get(what >> 8 & 255, what >> 8 & 255) - (what >> 8 & 255) << 8),
            *rest,
        )
        for what, *rest in steps
    ]


def templates(shootdown: str, dax: bool) -> dict[int, list]:
    """Return PMFS's templates and those that virtual superpages add."""
    pmfs = tpl.templates(dax)
    return pmfs | _overwrite(pmfs, shootdown) | _migration(shootdown)


def _overwrite(pmfs: dict[int, list], shootdown: str) -> dict[int, list]:
    """Return the templates of MCoW."""
    return {
        OPEN: [_work("mcow_call", 1)],
        TAKE_SUPER: [_work("new_superpage", 1)],
        TAKE_PAGES: [
            _step(LOAD, "page table", PTES_AT, 0, 0, PTES),
            _step(LOAD, "page table", FRESH_AT, 0, 0, PTES),
            _work("new_pages", 1),
            _work("table_entry", 0, COUNT),
        ],
        OPEN_LOG: [*_stored("mcow log", LOG_AT, 0, 0, LOG_BYTES), _fence("mcow log"), _work("vsm_log_entry", 0, ENTRIES)],
        COPY: _resited(pmfs[tpl.COPY], {"data copy": "mcow data"}),
        COPY_EDGE: _resited(pmfs[tpl.COW_EDGE], {"cow copy": "mcow copy"}),
        COMMIT: [_fence("mcow data"), *_stored("mcow commit", LOG_AT, 0, STATE_BYTES), _fence("mcow commit")],
        SWAP: _swapped("mcow swap", shootdown),
        INDEX: [*_stored("mcow index", SLOT_AT, 0, 0, SLOTS), _work("index_entry", 0, COUNT)],
        COMPLETE: [
            _step(STORE, "mcow swap", tpl.INODE, 32, 8),
            _step(STORE, "mcow swap", tpl.INODE, 24, 0, GROWN),
            _step(FLUSH, "mcow swap", tpl.INODE, 0, 64),
            _fence("mcow swap"),
            *_on_all_cpus("mcow swap", shootdown),
            *_stored("mcow complete", LOG_AT, 0, STATE_BYTES),
            _fence("mcow complete"),
        ],
        FREED: [_work("free_pages", 0, COUNT)],
        SPLIT: [
            *_stored("page table", PTES_AT, 0, tpl.BLOCK),
            _fence("page table"),
            *_stored("page table", PMD_AT, 0, PTE),
            _fence("page table"),
            _step(MAP, "page table", VA, 0, 1 << 21, width=12),
            _step(INVALIDATE, "page table", VA, 0, 1 << 21, width=0 if _on_all_cpus("page table", shootdown) else OWN_CPU),
            _work("split_call", 1),
        ],
    }  # fmt: skip


def _migration(shootdown: str) -> dict[int, list]:
    """Return the templates of ZFDM."""
    return {
        RECLAIM: [*_stored("zfdm flag", tpl.INODE, INODE_FLAG, 8), _fence("zfdm flag"), _work("reclaim_call", 1)],
        MIGRATE: [
            *_stored("zfdm log", LOG_AT, 0, 0, LOG_BYTES),
            _fence("zfdm log"),
            *_stored("zfdm commit", LOG_AT, 0, STATE_BYTES),
            _fence("zfdm commit"),
            _work("migrate_call", 1),
            _work("new_superpage", 1),
            _work("vsm_log_entry", 0, ENTRIES),
        ],
        MOVE: [
            _step(LOAD, "zfdm swap", PTES_AT, 0, 0, PTES),
            _step(LOAD, "zfdm swap", FRESH_AT, 0, 0, PTES),
            *_swapped("zfdm swap", shootdown),
        ],
        MOVED: [
            *_stored("zfdm index", SLOT_AT, 0, PTE),
            *_stored("zfdm flag", tpl.INODE, INODE_FLAG, 8),
            _fence("zfdm swap"),
            *_on_all_cpus("zfdm swap", shootdown),
            *_stored("zfdm complete", LOG_AT, 0, STATE_BYTES),
            _fence("zfdm complete"),
            _work("free_pages", 0, COUNT),
        ],
    }  # fmt: skip
