"""Model NOVA's thorough garbage collection: copy the live entries of a log's old pages to fresh pages at its head.

The collection runs after the append that requested it, before the operation's next allocation or release, with the counts of
that extension.  It waits until the operation's end if the operation changes names or the device is nearly full.
Source: NOVA fs/nova/gc.c (nova_inode_log_thorough_gc, nova_gc_assign_file_entry).
"""

from scmsim.alloc import cpu_lists
from scmsim.fs.engine.arena import give, has_room
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.nova import state, templates
from scmsim.fs.nova.log import add_pages, inode_of, used_bytes, words_of
from scmsim.jit import kernel, subroutine

CHECKED_BYTES = 9  # bytes loaded of each entry to check whether it is live: type 1, num_pages 4, invalid_pages 4
ASSIGNED_BYTES = 13  # bytes loaded of each copied entry to find its pages: type 1, pgoff 8, num_pages 4


@subroutine
def move_entry(s, arena, row, at, fresh):
    """Copy the fields of the write entry at arena offset `at` to entry `fresh` and map the entry's pages to `fresh`.

    Register OLD_PAGE holds the arena offset of the old entry's log page.
    """
    to, old = words_of(s, fresh), s.reg[templates.OLD_PAGE]
    arena[to], arena[to + 1] = arena[at], arena[at + 1]
    first = arena[row + state.PAGES] + (arena[at] >> 24)
    for i in range(first, first + (arena[at] & state.PAGES_MASK)):
        if arena[i] >> 9 == old and words_of(s, arena[i]) == at:
            arena[i] = fresh


@subroutine
def copy_live(s, arena, out, row, target):
    """Copy the live entries of the log page in register OLD_PAGE (arena offset) to the log's pages from `target` on.

    Copy the entries without data first, as one block. The events place all copies from one old page on the page that
    receives the last copy. Return the index of the page written last.
    """
    old = s.reg[templates.OLD_PAGE]
    counts = arena[old + state.PAGE_COUNTS]
    copied, moved, covered = counts >> state.PLAIN_SHIFT & state.ENTRIES_MASK, counts >> state.BYTES_SHIFT, 0
    page = arena[arena[row + state.LOG] + target]
    used = used_bytes(s, arena, page)
    if used + moved > state.LOG_BYTES:
        target, used = target + 1, 0
        page = arena[arena[row + state.LOG] + target]
    arena[page + state.PAGE_COUNTS] += copied + copied * state.PLAIN_ONE + moved * state.PLAIN_BYTE
    used += moved
    for slot in range(state.LOG_BYTES >> s.entry_shift):
        at = old + state.PAGE_ENTRIES + 2 * slot
        pages = arena[at] & state.PAGES_MASK
        # The entry is dead: each of its file pages has a newer entry.
        if pages <= (arena[at + 1] & state.COUNT_MASK):
            continue
        if used + s.entry_bytes > state.LOG_BYTES:
            target, used = target + 1, 0
            page = arena[arena[row + state.LOG] + target]
        move_entry(s, arena, row, at, page << 9 | used >> 3)
        arena[page + state.PAGE_COUNTS] += 1
        used += s.entry_bytes
        moved += s.entry_bytes
        copied += 1
        covered += pages
    s.reg[templates.FROM] = arena[old + state.PAGE_BLOCK] * state.BLOCK
    s.reg[templates.TO] = arena[page + state.PAGE_BLOCK] * state.BLOCK
    s.reg[templates.ENTRIES], s.reg[templates.BYTES] = used_bytes(s, arena, old), moved
    s.reg[templates.LINES], s.reg[templates.COUNT] = counts & state.ENTRIES_MASK, copied
    s.reg[templates.REPLACED] = covered
    s.reg[templates.CHECKED] = -CHECKED_BYTES * (counts & state.ENTRIES_MASK)
    s.reg[templates.HAS], s.reg[templates.FIELDS] = (4 if copied else 0), -4 * copied
    s.reg[templates.ASSIGNED] = ASSIGNED_BYTES * copied
    emit_template(s, out, templates.GC_PAGE)
    s.copied_entries += copied
    return target


@subroutine
def reverse(arena, low, high):
    """Reverse arena[low:high]."""
    high -= 1
    while low < high:
        arena[low], arena[high] = arena[high], arena[low]
        low += 1
        high -= 1


@subroutine
def drop_pages(s, arena, row, low, high):
    """Free the device blocks and the arena space of the file's log pages [low, high)."""
    for i in range(low, high):
        page = arena[arena[row + state.LOG] + i]
        cpu_lists.release(s, arena, arena[page + state.PAGE_BLOCK], 1)
        give(s, arena, page, s.page_order)
    s.log_pages -= high - low


@kernel
def collect(record, arena, out):
    """Run the thorough GC that an operation requested in `need_collect` (row of the file).

    `need_collect` stays set only if the event buffer or the arena must grow first; the caller then retries.

    FAST'16 allocates ceil(valid * 40 / 4064) pages, as if a page held 101.6 entries instead of 101. `most` therefore
    includes extra pages.
    """
    s = record[0]
    row, old, count = s.need_collect, s.gc_tail, arena[s.need_collect + state.LOG_COUNT]
    s.emitted, s.need_events, s.need_words = 0, 0, 0
    most = s.gc_blocks + s.gc_blocks // 64 + 8
    if s.free_blocks < s.cpus * (most + s.dead_zone):
        s.need_collect = 0
        return
    if not reserve_events(s, out, 64 + 12 * (old + most)):
        return
    if not cpu_lists.ready(s, arena, most) or not has_room(s, arena, (most << s.page_order) + 8 * (count + most)):
        return
    s.need_collect = 0
    add_pages(s, arena, out, row, s.gc_blocks)
    target = count
    for i in range(old):
        page = arena[arena[row + state.LOG] + i]
        used = used_bytes(s, arena, arena[arena[row + state.LOG] + target])
        dead = arena[page + state.PAGE_COUNTS] >> state.INVALID_SHIFT & state.ENTRIES_MASK
        if (
            target + 1 == arena[row + state.LOG_COUNT]
            and used + used_bytes(s, arena, page) - dead * s.entry_bytes > state.LOG_BYTES
        ):
            # The live entries may need more pages than the extension estimated.
            add_pages(s, arena, out, row, 1)
        s.reg[templates.OLD_PAGE] = page
        target = copy_live(s, arena, out, row, target)
    drop_pages(s, arena, row, 0, old)
    # Free the fresh pages that the copies did not need.
    drop_pages(s, arena, row, target + 1, arena[row + state.LOG_COUNT])
    # Remove the old pages and move the fresh pages to the log's head: [old][rest][fresh] -> [fresh][rest]. Three
    # reversals swap `rest` and `fresh` in place.
    at, rest, fresh = arena[row + state.LOG], count - old, target + 1 - count
    reverse(arena, at + old, at + old + rest + fresh)
    reverse(arena, at + old, at + old + fresh)
    reverse(arena, at + old + fresh, at + old + fresh + rest)
    for i in range(rest + fresh):
        arena[at + i] = arena[at + old + i]
    arena[row + state.TAIL_PAGE] += fresh - old
    arena[row + state.LOG_SIZE] -= old
    arena[row + state.LOG_COUNT] = fresh + rest
    s.reg[templates.INODE] = inode_of(s, (row - s.files) // state.FILE_WORDS)
    s.reg[templates.PAGE] = arena[arena[at + fresh - 1] + state.PAGE_BLOCK] * state.BLOCK
    emit_template(s, out, templates.GC_SWITCH)
    s.thorough_gcs += 1
