"""Table of the events that can supply each input of a metric, because CPU generations name the same quantity differently."""

# A formula's input -> the events that can supply it, of which the first one present is used.  An input without an entry is the
# name of its event.  Walk cycles: Sandy Bridge to Broadwell count `walk_duration` (one walker).  Skylake and later have two
# walkers: `walk_active` counts cycles with at least one busy (a share of time), `walk_pending` sums over the walkers (the
# cost of a walk).  Nehalem, Zen and Arm count the walks of loads and stores together (`data_...`).
SUPPLIERS: dict[str, tuple[str, ...]] = {
    "cycles": ("cycles", "cpu_cycles", "cpu_clk_unhalted_thread_p", "cpu_clk_unhalted_thread"),
    "instructions": ("inst_retired_any_p", "inst_retired_any", "instructions"),
    "loads": ("dtlb_loads", "mem_uops_retired_all_loads", "mem_inst_retired_all_loads"),
    "stores": ("dtlb_stores", "mem_uops_retired_all_stores", "mem_inst_retired_all_stores"),
    "load_misses": ("dtlb_load_misses", "dtlb_load_misses_walk_completed"),
    "store_misses": ("dtlb_store_misses", "dtlb_store_misses_walk_completed"),
    "load_walks": ("dtlb_load_misses_walk_completed",),
    "store_walks": ("dtlb_store_misses_walk_completed",),
    "data_walks": ("l2_dtlb_misses", "ls_l1_d_tlb_miss_all_l2_miss", "dtlb_walk", "dtlb_misses_walk_completed"),
    "code_walks": (
        "l2_itlb_misses",
        "bp_l1_tlb_miss_l2_tlb_miss_all",
        "itlb_walk",
        "itlb_misses_walk_completed",
    ),
    "load_walk_time": ("dtlb_load_misses_walk_duration", "dtlb_load_misses_walk_active"),
    "store_walk_time": ("dtlb_store_misses_walk_duration", "dtlb_store_misses_walk_active"),
    "data_walk_time": ("dtlb_misses_walk_cycles", "dtlb_misses_walk_active"),
    "code_walk_time": ("itlb_misses_walk_duration", "itlb_misses_walk_cycles", "itlb_misses_walk_active"),
    "load_walk_cost": ("dtlb_load_misses_walk_duration", "dtlb_load_misses_walk_pending"),
    "store_walk_cost": ("dtlb_store_misses_walk_duration", "dtlb_store_misses_walk_pending"),
    "data_walk_cost": ("dtlb_misses_walk_cycles", "dtlb_walk_percyc", "dtlb_misses_walk_pending"),
    "code_walk_cost": (
        "itlb_misses_walk_duration",
        "itlb_misses_walk_cycles",
        "itlb_walk_percyc",
        "itlb_misses_walk_pending",
    ),
    "l1d_replacement": ("l1d_repl", "l1d_replacement"),
    # Up to Broadwell llc_hit leaves out the hits that needed a snoop, so Table 7 adds them.  From Skylake on llc_hit includes
    # them and the sum would count them twice: there the direct event is the only source of L2 misses.
    "llc_hit": ("mem_load_uops_retired_llc_hit", "mem_load_uops_retired_l3_hit"),
    "xsnp_hit": (
        "mem_load_uops_llc_hit_retired_xsnp_hit",
        "mem_load_l3_hit_retired_xsnp_hit",
        "mem_load_uops_l3_hit_retired_xsnp_hit",
    ),
    "xsnp_hitm": (
        "mem_load_uops_llc_hit_retired_xsnp_hitm",
        "mem_load_l3_hit_retired_xsnp_hitm",
        "mem_load_uops_l3_hit_retired_xsnp_hitm",
    ),
    "llc_miss": (
        "mem_load_uops_misc_retired_llc_miss",
        "mem_load_uops_retired_llc_miss",
        "mem_load_uops_retired_l3_miss",
        "mem_load_retired_l3_miss",
    ),
    "l2_miss": ("mem_load_uops_retired_l2_miss", "mem_load_retired_l2_miss"),
    "load_lookups": ("dtlb_load_lookups",),
    "store_lookups": ("dtlb_store_lookups",),
    "load_stlb_hits": ("dtlb_load_misses_stlb_hit",),
    "store_stlb_hits": ("dtlb_store_misses_stlb_hit",),
    "data_stlb_hits": ("dtlb_misses_stlb_hit",),
    "user_stlb_hits": ("dtlb_user_misses_stlb_hit",),
    "user_walks": ("dtlb_user_misses_walk_completed",),
    "data_l1_misses": ("ls_l1_d_tlb_miss_all", "l1d_tlb_refill", "dtlb_l1_miss"),
}
