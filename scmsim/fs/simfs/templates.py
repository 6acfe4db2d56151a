"""Define SIMFS's mechanisms as templates: those of files contiguous in virtual memory without ordering, and its own.

The list of free pages is linked through their first 8 bytes, and mappings come and go.
Sources: SIMFS balloc.c (nvmm_new_block, nvmm_free_block), pgtable.c (nvmm_establish_mapping, nvmm_destroy_mapping),
file.c (nvmm_consistency_function).
"""

from scmsim.core.records import FENCE, FLUSH, KERNEL, LOAD, STORE
from scmsim.fs.contiguous import templates as contiguous_templates
from scmsim.fs.contiguous.templates import step, work

(
    PAGE_TAKEN, PAGE_FREED, ATTACHED, DETACHED, SHADOW_OPEN, SHADOW_COPY, SHADOW_CLOSE,
) = range(contiguous_templates.COLLECTED + 1, contiguous_templates.COLLECTED + 8)  # fmt: skip


def templates() -> dict[int, list]:
    """Return all templates of SIMFS, which orders nothing and counts a file's pages in its inode."""
    shared = contiguous_templates.templates()
    shared[contiguous_templates.MAPPED].append(
        step(STORE, "inode", contiguous_templates.INODE, 24, 0, contiguous_templates.PTE_BYTES)
    )
    ordering = (FENCE, FLUSH)
    return {number: [one for one in steps if one[0] & 255 not in ordering] for number, steps in shared.items()} | _own()


def _own() -> dict[int, list]:
    """Return the templates of pages, mappings and temporary files."""
    return {
        PAGE_TAKEN: [
            step(LOAD, "free list", contiguous_templates.AT, 0, 0, contiguous_templates.BYTES, width=-8),
            step(STORE, "free list", contiguous_templates.NONE, 64, 8, contiguous_templates.PTE_BYTES),
        ],
        PAGE_FREED: [
            step(STORE, "block zeroing", contiguous_templates.AT, 0, 0, contiguous_templates.BYTES),
            step(STORE, "free list", contiguous_templates.AT, 0, 0, contiguous_templates.BYTES, width=-8),
            step(STORE, "free list", contiguous_templates.NONE, 64, 0, contiguous_templates.COUNT),
        ],
        ATTACHED: [
            step(
                STORE,
                "page table",
                contiguous_templates.DIRECTORY,
                0,
                0,
                contiguous_templates.DIRECTORY_BYTES,
                space=KERNEL,
            ),
            work("new_page", 1),
        ],
        DETACHED: [
            step(
                STORE,
                "page table",
                contiguous_templates.DIRECTORY,
                0,
                0,
                contiguous_templates.DIRECTORY_BYTES,
                space=KERNEL,
            ),
            work("free_page", 1),
        ],
        SHADOW_OPEN: [
            step(STORE, "inode", contiguous_templates.INODE, 0, contiguous_templates.INODE_BYTES),
            step(
                STORE,
                "page table",
                contiguous_templates.NONE,
                contiguous_templates.BLOCK,
                3 * contiguous_templates.BLOCK + 24,
            ),
            step(
                STORE,
                "page table",
                contiguous_templates.NONE,
                contiguous_templates.BLOCK,
                0,
                contiguous_templates.PTE_BYTES,
            ),
            step(STORE, "free list", contiguous_templates.NONE, 64, 8 + 3 * 16, contiguous_templates.PTE_BYTES),
            work("new_table", 3),
            work("new_page", 0, contiguous_templates.PAGES),
        ],
        SHADOW_COPY: [
            step(
                LOAD,
                "shadow copy",
                contiguous_templates.NONE,
                contiguous_templates.BLOCK,
                0,
                contiguous_templates.BYTES,
            ),
            step(
                STORE,
                "shadow copy",
                contiguous_templates.NONE,
                contiguous_templates.BLOCK,
                0,
                contiguous_templates.BYTES,
            ),
            work("copy_call", 1),
        ],
        SHADOW_CLOSE: [
            step(STORE, "page table", contiguous_templates.NONE, contiguous_templates.BLOCK, 16),
            step(
                STORE,
                "block zeroing",
                contiguous_templates.NONE,
                contiguous_templates.BLOCK,
                3 * contiguous_templates.BLOCK,
                contiguous_templates.BYTES,
            ),
            step(STORE, "free list", contiguous_templates.NONE, 64, 3 * 24, contiguous_templates.COUNT),
            work("free_page", 3, contiguous_templates.PAGES),
        ],
    }
