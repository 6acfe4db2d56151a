"""Directories of ext2: unsorted lists of entries.

Adding a name searches the whole directory twice, for the name and for free space.  Other searches start at the
block in which the last search ended, and read half a block on average.  Source: Linux fs/ext2/dir.c: ext2_find_entry,
ext2_add_link.
"""

from scmsim.fs.engine.events import emit_template
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.files import entry_bytes
from scmsim.jit import subroutine

DOTS = 24  # bytes of the entries "." and ".." in a directory's first block


@subroutine
def growth(s, arena, row, d):
    """Return how many blocks directory `d` must grow by to take the entry of table row `row`."""
    used = arena[d + e.ENTRIES] + entry_bytes(arena, row)
    return 1 if used + DOTS > arena[d + e.PAGE_COUNT] * e.BLOCK else 0


@subroutine
def search(s, arena, out, row, d, change):
    """Emit the search for the entry of table row `row` in directory `d`; return the page that changes."""
    used, blocks = arena[d + e.ENTRIES], arena[d + e.PAGE_COUNT]
    searched = 2 * used if change else min(used, e.BLOCK) >> 1
    s.reg[q.SCANNED], s.reg[q.BYTES] = searched // entry_bytes(arena, row), searched
    s.reg[q.FROM] = arena[arena[d + e.PAGES]] >> e.BLOCK_SHIFT << 12
    emit_template(s, out, q.SCAN)
    return blocks - 1 if change else ((row - s.rows) // e.ROW_WORDS * e.HASH_FACTOR >> 8) % blocks


HOOKS = {"FIRST_BLOCKS": 1, "growth": growth, "search": search}
