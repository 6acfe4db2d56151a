"""Define SIMFS's mechanisms as recipes: those of files contiguous in virtual memory without ordering, and its own.

The list of free pages is linked through their first 8 bytes, and mappings come and go.
Sources: SIMFS balloc.c (nvmm_new_block, nvmm_free_block), pgtable.c (nvmm_establish_mapping, nvmm_destroy_mapping),
file.c (nvmm_consistency_function).
"""

from scmsim.core.records import FENCE, FLUSH, KERNEL, LOAD, STORE
from scmsim.fs.contiguous import recipes as contiguous_recipes
from scmsim.fs.contiguous.recipes import step, work

(
    PAGE_TAKEN, PAGE_FREED, ATTACHED, DETACHED, SHADOW_OPEN, SHADOW_COPY, SHADOW_CLOSE,
) = range(contiguous_recipes.COLLECTED + 1, contiguous_recipes.COLLECTED + 8)  # fmt: skip


def recipes() -> dict[int, list]:
    """Return all recipes of SIMFS, which orders nothing and counts a file's pages in its inode."""
    shared = contiguous_recipes.recipes()
    shared[contiguous_recipes.MAPPED].append(
        step(STORE, "inode", contiguous_recipes.INODE, 24, 0, contiguous_recipes.PTE_BYTES)
    )
    ordering = (FENCE, FLUSH)
    return {number: [one for one in steps if one[0] & 255 not in ordering] for number, steps in shared.items()} | _own()


def _own() -> dict[int, list]:
    """Return the recipes of pages, mappings and temporary files."""
    return {
        PAGE_TAKEN: [
            step(LOAD, "free list", contiguous_recipes.AT, 0, 0, contiguous_recipes.BYTES, width=-8),
            step(STORE, "free list", contiguous_recipes.NONE, 64, 8, contiguous_recipes.PTE_BYTES),
        ],
        PAGE_FREED: [
            step(STORE, "block zeroing", contiguous_recipes.AT, 0, 0, contiguous_recipes.BYTES),
            step(STORE, "free list", contiguous_recipes.AT, 0, 0, contiguous_recipes.BYTES, width=-8),
            step(STORE, "free list", contiguous_recipes.NONE, 64, 0, contiguous_recipes.COUNT),
        ],
        ATTACHED: [
            step(
                STORE,
                "page table",
                contiguous_recipes.DIRECTORY,
                0,
                0,
                contiguous_recipes.DIRECTORY_BYTES,
                space=KERNEL,
            ),
            work("new_page", 1),
        ],
        DETACHED: [
            step(
                STORE,
                "page table",
                contiguous_recipes.DIRECTORY,
                0,
                0,
                contiguous_recipes.DIRECTORY_BYTES,
                space=KERNEL,
            ),
            work("free_page", 1),
        ],
        SHADOW_OPEN: [
            step(STORE, "inode", contiguous_recipes.INODE, 0, contiguous_recipes.INODE_BYTES),
            step(
                STORE,
                "page table",
                contiguous_recipes.NONE,
                contiguous_recipes.BLOCK,
                3 * contiguous_recipes.BLOCK + 24,
            ),
            step(
                STORE, "page table", contiguous_recipes.NONE, contiguous_recipes.BLOCK, 0, contiguous_recipes.PTE_BYTES
            ),
            step(STORE, "free list", contiguous_recipes.NONE, 64, 8 + 3 * 16, contiguous_recipes.PTE_BYTES),
            work("new_table", 3),
            work("new_page", 0, contiguous_recipes.PAGES),
        ],
        SHADOW_COPY: [
            step(LOAD, "shadow copy", contiguous_recipes.NONE, contiguous_recipes.BLOCK, 0, contiguous_recipes.BYTES),
            step(STORE, "shadow copy", contiguous_recipes.NONE, contiguous_recipes.BLOCK, 0, contiguous_recipes.BYTES),
            work("copy_call", 1),
        ],
        SHADOW_CLOSE: [
            step(STORE, "page table", contiguous_recipes.NONE, contiguous_recipes.BLOCK, 16),
            step(
                STORE,
                "block zeroing",
                contiguous_recipes.NONE,
                contiguous_recipes.BLOCK,
                3 * contiguous_recipes.BLOCK,
                contiguous_recipes.BYTES,
            ),
            step(STORE, "free list", contiguous_recipes.NONE, 64, 3 * 24, contiguous_recipes.COUNT),
            work("free_page", 3, contiguous_recipes.PAGES),
        ],
    }
