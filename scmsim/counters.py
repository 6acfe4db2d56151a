"""The counter schema: one record for the simulator, the perf harness and the lab, fields named after perf events.

A producer that cannot supply a counter leaves it out of its result; absent is not zero.
"""

from typing import NamedTuple

import numpy as np


class Counter(NamedTuple):
    """What one field means."""

    event: str | None  # perf's name on Skylake-family CPUs; None where no PMU counts it
    unit: str
    meaning: str


def _walks(side: str, what: str) -> dict[str, Counter]:
    event = f"{side}_misses" if side == "itlb" else f"{side}_misses"
    sizes = ("4k", "2m_4m") if side == "itlb" else ("4k", "2m_4m", "1g")
    table = {
        f"{side}_lookups": Counter(None, "accesses", f"TLB look-ups for {what}"),
        f"{side}_l1_hit": Counter(None, "accesses", f"look-ups for {what} that hit the first level"),
        f"{side}_misses_stlb_hit": Counter(f"{event}.stlb_hit", "accesses", f"{what}: first level missed, second hit"),
        f"{side}_misses_walk_completed": Counter(f"{event}.walk_completed", "walks", f"page walks for {what}"),
    }
    for size in sizes:
        table[f"{side}_misses_walk_completed_{size}"] = Counter(
            f"{event}.walk_completed_{size}", "walks", f"page walks for {what} that ended at a {size} page"
        )
    table[f"{side}_misses_walk_pending"] = Counter(
        f"{event}.walk_pending", "cycles", f"walker-cycles of page walks for {what}"
    )
    table[f"{side}_misses_walk_active"] = Counter(
        f"{event}.walk_active", "cycles", f"cycles with at least one page walk for {what} under way"
    )
    return table


SCHEMA: dict[str, Counter] = {
    "instructions": Counter("inst_retired.any_p", "instructions", "retired instructions; a rep-string counts once"),
    "mem_inst_retired_all_loads": Counter(
        "mem_inst_retired.all_loads",
        "instructions",
        "retired load instructions, rep-strings left out (perf: dTLB-loads)",
    ),
    "mem_inst_retired_all_stores": Counter(
        "mem_inst_retired.all_stores",
        "instructions",
        "retired store instructions, rep-strings left out (perf: dTLB-stores)",
    ),
    **_walks("dtlb_load", "loads"),
    **_walks("dtlb_store", "stores"),
    **_walks("itlb", "instruction fetches"),
    "dtlb_user_lookups": Counter(None, "accesses", "data look-ups whose address lies in the user half"),
    "dtlb_user_misses_stlb_hit": Counter(None, "accesses", "user addresses: first level missed, second hit"),
    "dtlb_user_misses_walk_completed": Counter(None, "walks", "page walks for data at user addresses"),
    "page_walker_loads": Counter(None, "loads", "page-table entries read by page walks"),
    "page_walk_cache_hits": Counter(None, "hits", "walks shortened by a page-walk cache"),
    "tlb_invalidations": Counter(None, "invalidations", "pages invalidated by INVALIDATE, UNMAP or REMAP events"),
    "pm_loaded_bytes": Counter(None, "bytes", "bytes loaded from persistent memory"),
    "pm_stored_bytes": Counter(None, "bytes", "bytes stored to persistent memory"),
    "nt_stored_bytes": Counter(None, "bytes", "of those, by non-temporal stores"),
    "flushes": Counter(None, "lines", "cache-line write-back instructions (clwb, clflushopt)"),
    "fences": Counter(None, "fences", "ordering store fences (sfence)"),
    "lines_written_back": Counter(None, "lines", "dirty 64-byte lines that left the CPU caches for persistent memory"),
    "media_bytes_64": Counter(None, "bytes", "bytes written at the medium with a 64-byte granule"),
    "media_bytes_256": Counter(None, "bytes", "bytes written at the medium with a 256-byte granule"),
    "media_bytes_4096": Counter(None, "bytes", "bytes written at the medium with a 4096-byte granule"),
}

# Kept in thousandths while replaying (see records.MILLI), because measured costs per call are not whole numbers.
MILLI_FIELDS = ("instructions", "mem_inst_retired_all_loads", "mem_inst_retired_all_stores")

COUNTERS = np.dtype((np.record, [(field, "i8") for field in SCHEMA]))


def rounded(record: np.void) -> dict[str, int]:
    """One COUNTERS record as a dict of whole numbers, thousandths rounded half up."""
    values = {field: int(record[field]) for field in SCHEMA}
    for field in MILLI_FIELDS:
        values[field] = (values[field] + 500) // 1000
    return values
