"""Indices of the MMU's counters in `at`, a record of counters viewed as one array so that a kernel can index it."""

import numpy as np

from scmsim.core.counters import SCHEMA

_NAMES = list(SCHEMA)
ROW = np.dtype((np.record, [("at", "i8", (len(_NAMES),))]))

INSTRUCTIONS, LOADS, STORES = map(_NAMES.index, _NAMES[:3])
LOOKUPS = _NAMES.index("dtlb_load_lookups")
BLOCK = _NAMES.index("dtlb_store_lookups") - LOOKUPS  # fields per side
HIT, STLB_HIT, WALKS, SIZED, PENDING, ACTIVE = (
    _NAMES.index(f"dtlb_load_{name}") - LOOKUPS
    for name in (
        "l1_hit",
        "misses_stlb_hit",
        "misses_walk_completed",
        "misses_walk_completed_4k",
        "misses_walk_pending",
        "misses_walk_active",
    )
)
USER_LOOKUPS = _NAMES.index("dtlb_user_lookups")
USER_FAR_HIT = _NAMES.index("dtlb_user_misses_stlb_hit")
USER_WALKS = _NAMES.index("dtlb_user_misses_walk_completed")
FAR_HIT_SIZED = _NAMES.index("dtlb_misses_stlb_hit_4k")
WALKER_LOADS = _NAMES.index("page_walker_loads")
LOADS_OF_LEVEL = _NAMES.index("page_walker_loads_pte")
LOADS_FROM = _NAMES.index("page_walker_loads_l1")  # followed by l2, l3, memory, scm
NESTED_LOADS = _NAMES.index("page_walker_nested_loads")
SHORTENED = _NAMES.index("page_walk_cache_hits")
SHORTENED_AT = _NAMES.index("page_walk_cache_hits_pde")
UPDATES = _NAMES.index("page_table_updates")
UPDATE_CYCLES = _NAMES.index("page_table_update_cycles")
INVALIDATIONS = _NAMES.index("tlb_invalidations")
FLUSHES = _NAMES.index("tlb_flushes")
SHOOTDOWNS = _NAMES.index("tlb_shootdowns")
INVALIDATION_CYCLES = _NAMES.index("tlb_invalidation_cycles")
SUPPLIED = tuple(_NAMES[: INVALIDATION_CYCLES + 1])  # counters that the MMU adds to
