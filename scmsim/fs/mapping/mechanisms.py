"""The mechanisms of mappings and the costs of their code; a model's own come before them."""

# Mechanism -> what the bytes that it stores are for.
SITES = {"page fault": "none", "mapped access": "data", "mapped write-back": "none", "unmapping": "none"}
FAULT_SITE, ACCESS_SITE, CLEAN_SITE, UNMAP_SITE = range(4)

COSTS = ("fault", "fault_large", "around_page", "copy_page", "page_table", "protect_page", "clean_entry", "unmap_page")
FAULT_COST, LARGE_COST, AROUND_COST, COPY_COST, TABLE_COST, PROTECT_COST, CLEAN_COST, UNMAP_COST = range(8)
