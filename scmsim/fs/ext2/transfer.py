"""Reads and writes of ext2 where they differ from ext4's: write() allocates blocks, and pointer blocks lead to blocks."""

from scmsim.fs.engine.events import emit_template
from scmsim.fs.ext2.map import DIRECT, levels
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.blocks import add_changed
from scmsim.jit import subroutine


@subroutine
def allocate_now(s, arena, out, f, page, count):
    """Page cache: allocate blocks for those of `count` cached pages from `page` on that have none."""
    end = page + count
    s.reg[q.COUNT], s.reg[q.POINTERS] = 0, 0
    while page < end:
        if page < arena[f + e.PAGE_COUNT] and arena[arena[f + e.PAGES] + page] >> e.BLOCK_SHIFT:
            page += 1
            continue
        count = add_changed(s, arena, f, page, 1, 0)
        arena[f + e.MAPPED] += count
        s.reg[q.COUNT] += count
        s.reg[q.POINTERS] += s.new_pointers
        page += count
    if s.reg[q.COUNT]:
        s.changed = 1
        emit_template(s, out, q.ALLOCATE)


@subroutine
def find_blocks(s, out, page, count):
    """DAX: emit the search for `count` adjacent blocks from `page` on."""
    if s.dax:
        s.reg[q.LEVELS], s.reg[q.SCANNED] = levels(page), count if page >= DIRECT else 0
        emit_template(s, out, q.MAP)


HOOKS = {"allocate_now": allocate_now, "find_blocks": find_blocks}
