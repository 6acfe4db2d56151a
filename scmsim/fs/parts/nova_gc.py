"""NOVA's thorough garbage collection: live entries of a log's old pages are copied to fresh pages that become its head.

Runs between two operations, on what the extension that asked for it found.  Source: NOVA fs/nova/gc.c
(nova_inode_log_thorough_gc, nova_gc_assign_file_entry).
"""

from scmsim._jit import kernel, part
from scmsim.alloc import first_fit
from scmsim.fs.parts import nova_recipes as q
from scmsim.fs.parts import nova_state as n
from scmsim.fs.parts.arena import give
from scmsim.fs.parts.emit import play
from scmsim.fs.parts.nova_log import add_pages


@part
def copy_live(s, arena, out, row, target):
    """Copy the live entries of the log page in register OLD_PAGE (arena offset) to the log's page `target` and on.

    The copies of one old page make one run on the page that takes the last of them.  Returns the page written to.
    """
    old = s.reg[q.OLD_PAGE]
    count = arena[old + n.PAGE_COUNTS] & n.ENTRIES_MASK
    copied, covered = 0, 0
    for slot in range(count):
        at = old + n.PAGE_ENTRIES + 2 * slot
        pages = arena[at] & n.PAGES_MASK
        if pages <= (arena[at + 1] & n.COUNT_MASK):
            continue
        if arena[arena[arena[row + n.LOG] + target] + n.PAGE_COUNTS] & n.ENTRIES_MASK == s.slots:
            target += 1
        page = arena[arena[row + n.LOG] + target]
        fresh = arena[page + n.PAGE_COUNTS] & n.ENTRIES_MASK
        arena[page + n.PAGE_ENTRIES + 2 * fresh] = arena[at]
        arena[page + n.PAGE_ENTRIES + 2 * fresh + 1] = arena[at + 1]
        arena[page + n.PAGE_COUNTS] += 1
        if arena[at + 1] >> 24:  # maps data
            for i in range(arena[row + n.PAGES] + (arena[at] >> 24), arena[row + n.PAGES] + (arena[at] >> 24) + pages):
                if arena[i] == old << 8 | slot:
                    arena[i] = page << 8 | fresh
        copied += 1
        covered += pages
    s.reg[q.FROM] = arena[old + n.PAGE_BLOCK] * n.BLOCK
    s.reg[q.TO] = arena[arena[arena[row + n.LOG] + target] + n.PAGE_BLOCK] * n.BLOCK
    s.reg[q.ENTRIES] = count * s.entry_bytes
    s.reg[q.BYTES] = copied * s.entry_bytes
    s.reg[q.LINES], s.reg[q.COUNT], s.reg[q.REPLACED] = count, copied, covered
    s.reg[q.HAS], s.reg[q.FIELDS] = (4 if copied else 0), -4 * copied
    play(s, out, q.GC_PAGE)
    s.copied_entries += copied
    return target


@part
def reverse(arena, low, high):
    """Reverse arena[low:high]."""
    high -= 1
    while low < high:
        arena[low], arena[high] = arena[high], arena[low]
        low += 1
        high -= 1


@part
def drop_pages(s, arena, row, low, high):
    """Free the log pages [low, high) of the file's log, blocks and words."""
    for i in range(low, high):
        page = arena[arena[row + n.LOG] + i]
        first_fit.release(s, arena, arena[page + n.PAGE_BLOCK], q.ONE)
        give(s, arena, page, s.page_order)
    s.log_pages -= high - low


@kernel
def collect(state, arena, out):
    """Do the thorough GC that the last operation left in `need_collect` (row of the file); clears it unless room lacks."""
    s = state[0]
    row, old, count = s.need_collect, s.gc_tail, arena[s.need_collect + n.LOG_COUNT]
    s.emitted = 0
    s.need_events = 64 + 12 * (old + s.gc_blocks)
    s.need_words = ((s.gc_blocks + 8) << s.page_order) + 4 * (count + s.gc_blocks + 8)
    if s.need_events > out.size or s.arena_top + s.need_words > arena.size:
        return
    s.need_events, s.need_words, s.need_collect = 0, 0, 0
    if s.free_blocks < s.gc_blocks + 8:
        return
    add_pages(s, arena, out, row, s.gc_blocks)
    target = count
    for i in range(old):
        page = arena[arena[row + n.LOG] + i]
        used = arena[arena[arena[row + n.LOG] + target] + n.PAGE_COUNTS] & n.ENTRIES_MASK
        live = (arena[page + n.PAGE_COUNTS] & n.ENTRIES_MASK) - (arena[page + n.PAGE_COUNTS] >> 32)
        if target + 1 == arena[row + n.LOG_COUNT] and used + live > s.slots:
            add_pages(s, arena, out, row, q.ONE)
        s.reg[q.OLD_PAGE] = page
        target = copy_live(s, arena, out, row, target)
    drop_pages(s, arena, row, q.ZERO, old)
    drop_pages(s, arena, row, target + 1, arena[row + n.LOG_COUNT])
    # [old pages][rest of the log][fresh pages] -> [fresh pages][rest], by three reversals
    at, rest, fresh = arena[row + n.LOG], count - old, target + 1 - count
    reverse(arena, at + old, at + old + rest + fresh)
    reverse(arena, at + old, at + old + fresh)
    reverse(arena, at + old + fresh, at + old + fresh + rest)
    for i in range(rest + fresh):
        arena[at + i] = arena[at + old + i]
    arena[row + n.TAIL_PAGE] += fresh - old
    arena[row + n.LOG_SIZE] -= old
    arena[row + n.LOG_COUNT] = fresh + rest
    s.reg[q.INODE] = s.inode_table + (row - s.files) // n.FILE_WORDS * n.INODE_BYTES
    s.reg[q.PAGE] = arena[arena[at + fresh - 1] + n.PAGE_BLOCK] * n.BLOCK
    play(s, out, q.GC_SWITCH)
    s.thorough_gcs += 1
