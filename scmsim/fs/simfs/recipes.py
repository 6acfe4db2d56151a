"""SIMFS's mechanisms as recipes: those of files contiguous in virtual memory without an order, and its own beside.

A list of free pages is linked through their first 8 bytes, and mappings come and go.
Sources: SIMFS balloc.c (nvmm_new_block, nvmm_free_block), pgtable.c (nvmm_establish_mapping, nvmm_destroy_mapping), file.c
(nvmm_consistency_function).
"""

from scmsim.core.records import FENCE, FLUSH, KERNEL, LOAD, STORE
from scmsim.fs.contiguous import recipes as q
from scmsim.fs.contiguous.recipes import step, work

(
    PAGE_TAKEN, PAGE_FREED, ATTACHED, DETACHED, SHADOW_OPEN, SHADOW_COPY, SHADOW_CLOSE,
) = range(q.COLLECTED + 1, q.COLLECTED + 8)  # fmt: skip


def recipes() -> dict[int, list]:
    """All recipes of SIMFS, which orders nothing and counts a file's pages in its inode."""
    shared = q.recipes()
    shared[q.MAPPED].append(step(STORE, "inode", q.INODE, 24, 0, q.PTE_BYTES))
    ordering = (FENCE, FLUSH)
    return {number: [one for one in steps if one[0] & 255 not in ordering] for number, steps in shared.items()} | _own()


def _own() -> dict[int, list]:
    """Pages, mappings and temporary files."""
    return {
        PAGE_TAKEN: [
            step(LOAD, "free list", q.AT, 0, 0, q.BYTES, width=-8),
            step(STORE, "free list", q.NONE, 64, 8, q.PTE_BYTES),
        ],
        PAGE_FREED: [
            step(STORE, "block zeroing", q.AT, 0, 0, q.BYTES),
            step(STORE, "free list", q.AT, 0, 0, q.BYTES, width=-8),
            step(STORE, "free list", q.NONE, 64, 0, q.COUNT),
        ],
        ATTACHED: [step(STORE, "page table", q.DIRECTORY, 0, 0, q.DIRECTORY_BYTES, space=KERNEL), work("new_page", 1)],
        DETACHED: [step(STORE, "page table", q.DIRECTORY, 0, 0, q.DIRECTORY_BYTES, space=KERNEL), work("free_page", 1)],
        SHADOW_OPEN: [
            step(STORE, "inode", q.INODE, 0, q.INODE_BYTES),
            step(STORE, "page table", q.NONE, q.BLOCK, 3 * q.BLOCK + 24),
            step(STORE, "page table", q.NONE, q.BLOCK, 0, q.PTE_BYTES),
            step(STORE, "free list", q.NONE, 64, 8 + 3 * 16, q.PTE_BYTES),
            work("new_table", 3),
            work("new_page", 0, q.PAGES),
        ],
        SHADOW_COPY: [
            step(LOAD, "shadow copy", q.NONE, q.BLOCK, 0, q.BYTES),
            step(STORE, "shadow copy", q.NONE, q.BLOCK, 0, q.BYTES),
            work("copy_call", 1),
        ],
        SHADOW_CLOSE: [
            step(STORE, "page table", q.NONE, q.BLOCK, 16),
            step(STORE, "block zeroing", q.NONE, q.BLOCK, 3 * q.BLOCK, q.BYTES),
            step(STORE, "free list", q.NONE, 64, 3 * 24, q.COUNT),
            work("free_page", 3, q.PAGES),
        ],
    }
