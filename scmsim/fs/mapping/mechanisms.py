"""The mechanisms of mappings and the costs of their code; a model's own come before them."""

# Mechanism -> what the bytes that it stores are for.
SITES = {"page fault": "none", "mapped access": "data", "mapped write-back": "none", "unmapping": "none"}
FAULT_SITE, ACCESS_SITE, CLEAN_SITE, UNMAP_SITE = range(4)

COSTS = (
    "fault_load", "fault_store", "fault_protected", "fault_large_load", "fault_large_store", "given_blocks", "around_page",
    "copy_page", "page_table", "protect_page", "clean_entry", "unmap_page",
)  # fmt: skip
(
    LOAD_COST, STORE_COST, PROTECTED_COST, LARGE_LOAD_COST, LARGE_STORE_COST, GIVEN_COST, AROUND_COST, COPY_COST,
    TABLE_COST, PROTECT_COST, CLEAN_COST, UNMAP_COST,
) = range(len(COSTS))  # fmt: skip
