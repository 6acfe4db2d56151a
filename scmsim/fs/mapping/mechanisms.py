"""Mechanisms of mappings and the costs of their code; both are appended to the model's mechanisms and costs."""

# Mechanism -> purpose of the bytes that it stores.
SITES = {"page fault": "none", "mapped access": "data", "mapped write-back": "none", "unmapping": "none"}
FAULT_SITE, ACCESS_SITE, CLEAN_SITE, UNMAP_SITE = range(4)

# MUNMAP_COST follows MMAP_COST (the state record's `map_cost`).
CALLS = ("mmap_call", "munmap_call", "cut_mapping")
COSTS = (
    "fault_load", "fault_zeros", "fault_store", "fault_protected", "fault_large_load", "fault_large_store",
    "large_entry", "asked_large_load", "asked_large_store", "looked_large", "given_blocks", "given_new",
    "given_first", "huge_page", "around_page", "passed_page", "copy_page", "page_table", "tree_node", "tree_level",
    "protect_page", "clean_call", "clean_entry", "clean_line", "clean_mapping", "unmap_page", "unmap_large",
    "unmap_slot", "unmap_copy", "unmap_table", *CALLS, "msync_call",
)  # fmt: skip
(
    LOAD_COST, ZEROS_COST, STORE_COST, PROTECTED_COST, LARGE_LOAD_COST, LARGE_STORE_COST, LARGE_ENTRY_COST,
    ASKED_LOAD_COST, ASKED_STORE_COST, LOOKED_COST, GIVEN_COST, GIVEN_NEW_COST, GIVEN_FIRST_COST, HUGE_PAGE_COST,
    AROUND_COST, PASSED_COST, COPY_COST, TABLE_COST, NODE_COST, LEVEL_COST, PROTECT_COST, CLEAN_CALL_COST, CLEAN_COST,
    LINE_COST, CLEAN_MAPPING_COST, UNMAP_COST, UNMAP_LARGE_COST, UNMAP_SLOT_COST, UNMAP_COPY_COST, UNMAP_TABLE_COST,
    MMAP_COST, MUNMAP_COST, CUT_COST, MSYNC_COST,
) = range(len(COSTS))  # fmt: skip
