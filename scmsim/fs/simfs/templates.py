"""Define SIMFS's templates: those of `contiguous` without flushes and fences, and those that SIMFS adds.

The first 8 bytes of each free page hold the address of the next one. A file is mapped only while it is in use.
Sources: SIMFS balloc.c (nvmm_new_block, nvmm_free_block), pgtable.c (nvmm_establish_mapping, nvmm_destroy_mapping),
file.c (nvmm_consistency_function).
"""

from scmsim.core.records import FENCE, FLUSH, KERNEL, LOAD, STORE
from scmsim.fs.contiguous import templates as tpl
from scmsim.fs.contiguous.templates import step, work

(
    PAGE_TAKEN, PAGE_FREED, ATTACHED, DETACHED, SHADOW_OPEN, SHADOW_COPY, SHADOW_CLOSE,
) = range(tpl.COLLECTED + 1, tpl.COLLECTED + 8)  # fmt: skip


def templates() -> dict[int, list]:
    """Return all templates of SIMFS: those of `contiguous` without fences and write-backs, and its own."""
    shared = tpl.templates()
    shared[tpl.MAPPED].append(step(STORE, "inode", tpl.INODE, 24, 0, tpl.PTE_BYTES))
    ordering = (FENCE, FLUSH)
    return {number: [one for one in steps if one[0] & 255 not in ordering] for number, steps in shared.items()} | _own()


def _own() -> dict[int, list]:
    """Return the templates of pages, mappings and temporary files."""
    return {
        PAGE_TAKEN: [
            step(LOAD, "free list", tpl.AT, 0, 0, tpl.BYTES, width=-8),
            step(STORE, "free list", tpl.NONE, 64, 8, tpl.PTE_BYTES),
        ],
        PAGE_FREED: [
            step(STORE, "block zeroing", tpl.AT, 0, 0, tpl.BYTES),
            step(STORE, "free list", tpl.AT, 0, 0, tpl.BYTES, width=-8),
            step(STORE, "free list", tpl.NONE, 64, 0, tpl.COUNT),
        ],
        ATTACHED: [
            step(STORE, "page table", tpl.DIRECTORY, 0, 0, tpl.DIRECTORY_BYTES, space=KERNEL),
            work("new_page", 1),
        ],
        DETACHED: [
            step(STORE, "page table", tpl.DIRECTORY, 0, 0, tpl.DIRECTORY_BYTES, space=KERNEL),
            work("free_page", 1),
        ],
        SHADOW_OPEN: [
            step(STORE, "inode", tpl.INODE, 0, tpl.INODE_BYTES),
            step(STORE, "page table", tpl.NONE, tpl.BLOCK, 3 * tpl.BLOCK + 24),
            step(STORE, "page table", tpl.NONE, tpl.BLOCK, 0, tpl.PTE_BYTES),
            step(STORE, "free list", tpl.NONE, 64, 8 + 3 * 16, tpl.PTE_BYTES),
            work("new_table", 3),
            work("new_page", 0, tpl.PAGES),
        ],
        SHADOW_COPY: [
            step(LOAD, "shadow copy", tpl.NONE, tpl.BLOCK, 0, tpl.BYTES),
            step(STORE, "shadow copy", tpl.NONE, tpl.BLOCK, 0, tpl.BYTES),
            work("copy_call", 1),
        ],
        SHADOW_CLOSE: [
            step(STORE, "page table", tpl.NONE, tpl.BLOCK, 16),
            step(STORE, "block zeroing", tpl.NONE, tpl.BLOCK, 3 * tpl.BLOCK, tpl.BYTES),
            step(STORE, "free list", tpl.NONE, 64, 3 * 24, tpl.COUNT),
            work("free_page", 3, tpl.PAGES),
        ],
    }
