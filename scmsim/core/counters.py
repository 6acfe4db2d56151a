"""Counter schema, a record that the simulator, the perf harness and the lab share, with fields named after perf events.

A producer that cannot supply a counter leaves it out of its result; absent is not zero.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np


class Counter(NamedTuple):
    """Meaning of one field."""

    event: str | None  # perf's name on Skylake-family CPUs; None where Intel's PMU has no such event
    unit: str
    meaning: str


def _walks(side: str, what: str) -> dict[str, Counter]:
    event = f"{side}_misses"
    sizes = ("4k", "2m_4m") if side == "itlb" else ("4k", "2m_4m", "1g")
    table = {
        f"{side}_lookups": Counter(None, "accesses", f"TLB look-ups for {what}"),
        f"{side}_l1_hit": Counter(None, "accesses", f"look-ups for {what} that hit the first level"),
        f"{side}_misses_stlb_hit": Counter(
            f"{event}.stlb_hit", "accesses", f"{what} that missed the first level and hit the second"
        ),
        f"{side}_misses_walk_completed": Counter(f"{event}.walk_completed", "walks", f"page walks for {what}"),
    }
    for size in sizes:
        table[f"{side}_misses_walk_completed_{size}"] = Counter(
            f"{event}.walk_completed_{size}", "walks", f"page walks for {what} that ended at a {size} page"
        )
    table[f"{side}_misses_walk_pending"] = Counter(
        f"{event}.walk_pending", "cycles", f"cycles of page walks for {what}, added up over the page walkers"
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
    "dtlb_user_lookups": Counter(None, "accesses", "data look-ups at user addresses"),
    "dtlb_user_misses_stlb_hit": Counter(
        None, "accesses", "data look-ups at user addresses that missed the first level and hit the second"
    ),
    "dtlb_user_misses_walk_completed": Counter(None, "walks", "page walks for data at user addresses"),
    **{
        f"dtlb_misses_stlb_hit_{size}": Counter(
            None, "accesses", f"data look-ups that missed the first level and hit a {size} page in the second"
        )
        for size in ("4k", "2m_4m", "1g")
    },
    "page_walker_loads": Counter(None, "loads", "page-table entries read by page walks"),
    **{
        f"page_walker_loads_{level}": Counter(None, "loads", f"page-table entries read by page walks: {level.upper()}s")
        for level in ("pte", "pde", "pdpte", "pml4e", "pml5e")
    },
    **{
        f"page_walker_loads_{place}": Counter(None, "loads", f"page-table entries that page walks got from {what}")
        for place, what in (
            ("l1", "the first-level cache"),
            ("l2", "the second-level cache"),
            ("l3", "the last-level cache"),
            ("memory", "DRAM"),
            ("scm", "storage-class memory"),
        )
    },
    "page_walker_nested_loads": Counter(None, "loads", "page-table entries read by page walks in the host's tables"),
    "page_walk_cache_hits": Counter(None, "hits", "walks shortened by a page-walk cache"),
    **{
        f"page_walk_cache_hits_{level}": Counter(None, "hits", f"walks shortened by a cached {level.upper()}")
        for level in ("pde", "pdpte", "pml4e")
    },
    "page_table_updates": Counter(None, "updates", "accessed and dirty bits that the MMU set in user pages' entries"),
    "page_table_update_cycles": Counter(None, "cycles", "cycles spent in setting accessed and dirty bits"),
    "tlb_invalidations": Counter(None, "invalidations", "pages invalidated one by one"),
    "tlb_flushes": Counter(None, "flushes", "times that every entry was invalidated at once"),
    "tlb_shootdowns": Counter(None, "interrupts", "interrupts of other CPUs, which invalidate the same pages"),
    "tlb_invalidation_cycles": Counter(
        None, "cycles", "cycles spent in invalidations, including the wait for other CPUs"
    ),
    "pm_dependent_loads": Counter(
        None,
        "loads",
        "first lines of runs loaded from persistent memory that no CPU cache held: each waits for the medium",
    ),
    "pm_loaded_bytes": Counter(None, "bytes", "bytes loaded from persistent memory"),
    "pm_stored_bytes": Counter(None, "bytes", "bytes stored to persistent memory"),
    "nt_stored_bytes": Counter(None, "bytes", "bytes stored to persistent memory by non-temporal stores"),
    "write_buffer_misses": Counter(
        None,
        "stores",
        "non-temporal stores of at most 256 bytes to a line of 256 bytes that such stores did not write recently, in a memory "
        "module with a write buffer",
    ),
    "write_buffer_miss_lines": Counter(None, "lines", "64-byte lines that these stores wrote"),
    "deferred_instructions": Counter(
        None, "instructions", "the part of the instructions that the kernel deferred to its own threads"
    ),
    "other_instructions": Counter(
        None,
        "instructions",
        "instructions of interrupts and unrelated tasks during the run; not part of the counter instructions",
    ),
    "interprocessor_interrupts": Counter(
        None,
        "interrupts",
        "interrupts that CPUs sent each other while a call ran: to run a function, or to choose the next task",
    ),
    "flushes": Counter(None, "lines", "cache-line write-back instructions (clwb, clflushopt)"),
    "fences": Counter(None, "fences", "ordering store fences (sfence)"),
    "lines_written_back": Counter(None, "lines", "dirty 64-byte lines that left the CPU caches for persistent memory"),
    "media_bytes_64": Counter(None, "bytes", "bytes written at the medium with a 64-byte granule"),
    "media_bytes_256": Counter(None, "bytes", "bytes written at the medium with a 256-byte granule"),
    "media_bytes_4096": Counter(None, "bytes", "bytes written at the medium with a 4096-byte granule"),
    **{
        f"page_faults_{level}": Counter(
            None, "faults", f"page faults of mapped files that set {level.upper()}s ({what})"
        )
        for level, what in (("pte", "4 KiB, or several at once"), ("pmd", "2 MiB"), ("pud", "1 GiB"))
    },
    "page_faults_write_protect": Counter(
        None, "faults", "page faults of mapped files, by stores, that found an entry without the right to store"
    ),
    "page_faults_major": Counter(None, "faults", "page faults of mapped files that read or allocated the page"),
    **{
        f"mapped_bytes_{size}": Counter(None, "bytes", f"bytes of files that page faults mapped by {size} entries")
        for size in ("4k", "2m", "1g")
    },
}


def _measured() -> dict[str, Counter]:
    """Return the counters that only a real CPU or kernel supplies: Skylake's events."""
    table = {"cycles": Counter("cpu_clk_unhalted.thread", "cycles", "core cycles while the thread was not halted")}
    for side, what in (("dtlb_load", "loads"), ("dtlb_store", "stores"), ("itlb", "instruction fetches")):
        table[f"{side}_misses_miss_causes_a_walk"] = Counter(
            f"{side}_misses.miss_causes_a_walk", "walks", f"page walks begun for {what}, completed or not"
        )
    both = "loads and stores together"
    table |= {
        "dtlb_misses_stlb_hit": Counter(None, "accesses", f"{both} that missed the first level and hit the second"),
        "dtlb_misses_walk_completed": Counter(None, "walks", f"page walks for {both}"),
        "dtlb_misses_walk_pending": Counter(
            None, "cycles", f"cycles of page walks for {both}, added up over the page walkers"
        ),
        "dtlb_misses_walk_active": Counter(None, "cycles", f"cycles with at least one page walk for {both} under way"),
        "dtlb_load_l1_miss": Counter(None, "accesses", "loads that missed the first level"),
        "dtlb_store_l1_miss": Counter(None, "accesses", "stores that missed the first level"),
        "dtlb_l1_miss": Counter(None, "accesses", f"{both} that missed the first level"),
        "page_walks_completed": Counter(None, "walks", "page walks for data and instructions together"),
        "page_walks_active": Counter(None, "cycles", "cycles in page walks for data and instructions together"),
        "l1d_replacement": Counter("l1d.replacement", "lines", "lines brought into the L1 data cache"),
        "mem_load_retired_l2_miss": Counter("mem_load_retired.l2_miss", "loads", "retired loads that missed the L2"),
        "mem_load_retired_l3_hit": Counter("mem_load_retired.l3_hit", "loads", "retired loads served by the LLC"),
        "mem_load_uops_retired_l3_hit": Counter(None, "loads", "retired loads served by the LLC without a snoop"),
        "mem_load_retired_l3_miss": Counter("mem_load_retired.l3_miss", "loads", "retired loads that missed the LLC"),
    }
    snoops = {
        "hit": "whose snoop found a clean line",
        "hitm": "whose snoop found a modified line",
        "miss": "whose snoop missed",
    }
    for how, meaning in snoops.items():
        table[f"mem_load_l3_hit_retired_xsnp_{how}"] = Counter(
            f"mem_load_l3_hit_retired.xsnp_{how}", "loads", f"retired loads served by the LLC {meaning}"
        )
    return table


# Counters that the perf harness adds to SCHEMA.  No model predicts them, so they are not in the simulator's record.
SOFTWARE: dict[str, Counter] = {
    "page_faults": Counter("page-faults", "faults", "page faults"),
    "minor_faults": Counter("minor-faults", "faults", "page faults served without I/O"),
    "major_faults": Counter("major-faults", "faults", "page faults that waited for I/O"),
    "context_switches": Counter("context-switches", "switches", "switches to another thread"),
    "cpu_migrations": Counter("cpu-migrations", "migrations", "moves of the thread to another CPU"),
    "task_clock": Counter("task-clock", "ns", "time on a CPU"),
    "raw_syscalls_sys_enter": Counter("raw_syscalls:sys_enter", "calls", "system calls entered"),
    "raw_syscalls_sys_exit": Counter("raw_syscalls:sys_exit", "calls", "system calls left"),
    "elapsed_ns": Counter(None, "ns", "time that the measured loop took"),
}
MEASURED: dict[str, Counter] = {**_measured(), **SOFTWARE}


def _cached() -> dict[str, Counter]:
    """Return the counters of the data caches, which only a replay with caches supplies."""
    table: dict[str, Counter] = {}
    for side, who in (("load", "loads"), ("store", "stores"), ("prefetch", "the prefetcher"), ("walk", "page walks")):
        what = f"lines that {who} looked up"
        table |= {
            f"cache_{side}_lines": Counter(
                None, "lines", f"{what} in the data caches, each line once per run of bytes"
            ),
            f"cache_{side}_l1_hit": Counter(None, "lines", f"{what} and found in the first level"),
            f"cache_{side}_l2_lookups": Counter(None, "lines", f"{what} in the second level"),
            f"cache_{side}_l2_hit": Counter(None, "lines", f"{what} and found in the second level"),
            f"cache_{side}_l3_lookups": Counter(None, "lines", f"{what} in the third level"),
            f"cache_{side}_l3_hit": Counter(None, "lines", f"{what} and found in the third level"),
            f"cache_{side}_memory": Counter(None, "lines", f"{what} and found in no level"),
        }
    return table | {
        "cache_nt_lines": Counter(
            None, "lines", "lines of non-temporal stores, which pass the caches and evict the line"
        ),
        "cache_flushed_lines": Counter(None, "lines", "write-back instructions for lines, dirty or not"),
        "cache_written_back_evicted": Counter(None, "lines", "dirty lines that the last level evicted to memory"),
        "cache_written_back_flushed": Counter(
            None, "lines", "dirty lines that write-back instructions wrote to memory"
        ),
        "cache_pm_read": Counter(None, "lines", "lines that the caches read from persistent memory"),
        "cache_pm_written_back": Counter(
            None, "lines", "lines written to persistent memory: evicted, flushed or stored non-temporally"
        ),
        "cache_unchecked": Counter(
            None,
            "accesses",
            "loads and stores whose address is not known, so that they pass no cache (kernel code, stacks)",
        ),
    }


CACHED: dict[str, Counter] = _cached()
EVERY: dict[str, Counter] = {**SCHEMA, **MEASURED, **CACHED}  # every counter that a result may have

# Replays keep these fields in thousandths (see records.MILLI), because measured costs per call are not whole numbers.
MILLI_FIELDS = ("instructions", "mem_inst_retired_all_loads", "mem_inst_retired_all_stores")

COUNTERS = np.dtype((np.record, [(field, "i8") for field in SCHEMA]))


def rounded(record: Mapping[str, int] | np.void) -> dict[str, int]:
    """Return a COUNTERS record, or a dict of its fields, as a dict of whole numbers, with thousandths rounded half up."""
    values = {field: int(record[field]) for field in SCHEMA}
    for field in MILLI_FIELDS:
        values[field] = (values[field] + 500) // 1000
    return values
