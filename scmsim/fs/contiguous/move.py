"""Background work between the operations: migration to superpages, and the collection of mapped but unused pages.

One thread migrates one file at a time: it fills superpages while reads still go to the old pages, then switches the
file's page-directory entries and frees the old pages.  A write in between waits for it (both writes and waiting times
are counted).
Source: SCMFS superpage paper (2013), IV.B; the speed of a copy and the times when the threads run are parameters.
"""

from scmsim.alloc import first_fit, two_zone
from scmsim.core import records
from scmsim.fs.contiguous import map as page_map
from scmsim.fs.contiguous import names as names
from scmsim.fs.contiguous import state, templates
from scmsim.fs.contiguous.data import inode_at, stretch
from scmsim.fs.engine import file_row, ranges, table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.jit import kernel, subroutine

SECOND = 1_000_000_000


@subroutine
def enqueue(s, arena, row):
    """Queue a file for migration if it outgrew the threshold and, if it has superpages, has 2 MiB of normal pages."""
    normal = arena[row + file_row.MAPPED] - arena[row + state.HELD] * page_map.PIECE
    if (
        s.threshold == 0
        or arena[row + file_row.STATUS] & (state.QUEUED | file_row.IS_DIR)
        or arena[row + file_row.MAPPED] <= s.threshold
    ):
        return
    if arena[row + state.HELD] > 0 and normal < page_map.PIECE:
        return
    arena[row + file_row.STATUS] |= state.QUEUED
    arena[row + state.NEXT] = 0
    if s.queue == 0:
        s.queue = row
    else:
        arena[s.queue_end + state.NEXT] = row
    s.queue_end = row


@subroutine
def dequeue(s, arena):
    """Take the first file out of the migration queue."""
    row = s.queue
    s.queue = arena[row + state.NEXT]
    arena[row + file_row.STATUS] &= ~state.QUEUED
    return row


@subroutine
def disturbs(s, op):
    """Return whether an operation must wait for the migration of its file, because it changes the file's pages."""
    code, row = op.op, s.files + op.file * state.FILE_WORDS
    if code == records.RENAME:
        return op.replaced >= 0 and s.files + op.replaced * state.FILE_WORDS == s.moving
    if row != s.moving:
        return False
    return (
        code == records.WRITE
        or code == records.TRUNCATE
        or code == records.FALLOCATE
        or code == records.UNLINK
        or code == records.CLOSE
    )


@subroutine
def next_due(s, arena, op):
    """Return the background work before operation `op` begins (NOTHING, MIGRATE, SETTLE or TIDY)."""
    if s.moving != 0:
        if s.now >= s.moved_at:
            return state.SETTLE
        if disturbs(s, op):
            if op.op == records.WRITE:
                s.waited_writes += 1
                s.waited_ns += s.moved_at - s.now
            return state.SETTLE
    elif s.queue != 0 and s.looked <= s.seen:
        s.looked = s.seen + 1  # the queue is examined once per operation, even if that is resumed
        row = dequeue(s, arena)
        if arena[row + file_row.STATUS] & file_row.EXISTS:
            if arena[row + file_row.OPENS] <= 0 or s.now - arena[row + state.WRITTEN] >= s.quiet:
                s.moving, s.copy_at = row, -1
                return state.MIGRATE
            enqueue(s, arena, row)
    if s.spare_blocks > s.tidy_above and s.now - s.tidied >= s.tidy_every:
        s.tidy_from = s.reclaimed_blocks
        return state.TIDY
    return state.NOTHING


@subroutine
def pages_to_move(arena, row):
    """Return the end of the hole-free pages at the start of the file, before its spare pages."""
    page = page_map.next_missing(arena, row, arena[row + state.HELD] * page_map.PIECE, arena[row + state.PAGE_COUNT])
    return min(page, arena[row + state.SPARE_AT]) if arena[row + state.SPARE] > 0 else page


@subroutine
def begin_move(s, arena, row):
    """Allocate the superpages of a migration; return FULL if nothing is to be migrated or too few superpages are free."""
    pages, held = pages_to_move(arena, row), arena[row + state.HELD]
    wanted = pages // page_map.PIECE
    if s.whole and pages % page_map.PIECE and pages * templates.BLOCK >= arena[row + file_row.SIZE]:
        # the rest of the file also gets a superpage
        wanted += 1
    if wanted <= held:
        return FULL
    if s.free_supers < wanted - held:
        s.refused_migrations += 1
        return FULL
    words = table.words_to_hold(arena, row + state.NEWER, wanted - held) + page_map.words_for(
        arena, row, wanted * page_map.PIECE
    )
    if not has_room(s, arena, words):
        return NO_ROOM
    page_map.reserve(s, arena, row, wanted * page_map.PIECE)
    table.reserve(s, arena, row + state.NEWER, wanted - held)
    arena[row + state.FILLED] = two_zone.nvmalloc_superpage(s, arena, arena[row + state.NEWER], wanted - held)
    s.data_blocks += (wanted - held) * page_map.PIECE
    # pages after the last new superpage stay where they are
    s.copy_at, s.wanted = held * page_map.PIECE, min(pages, wanted * page_map.PIECE)
    return DONE


@subroutine
def copy_stretch(s, arena, out, row, stop):
    """Copy pages from `copy_at` on, within one superpage and one run of old pages."""
    page, held = s.copy_at, arena[row + state.HELD]
    end = min(stop, (page | (page_map.PIECE - 1)) + 1)
    end = stretch(arena, row, page * templates.BLOCK, end * templates.BLOCK) // templates.BLOCK
    block, piece = table.get(arena, row + state.BLOCKS, page), page // page_map.PIECE
    target = arena[arena[row + state.NEWER] + piece - held] + (page & (page_map.PIECE - 1))
    s.reg[templates.BYTES] = (end - page) * templates.BLOCK
    s.reg[templates.AT] = block * templates.BLOCK
    page_map.play_at(
        s, out, templates.MOVE_FROM, page_map.address_of(arena, row, page) - block * templates.BLOCK, page_map.NORMAL
    )
    s.reg[templates.AT] = target * templates.BLOCK
    window = page_map.COPY_WINDOW + (piece - held << page_map.SUPER) + (page & (page_map.PIECE - 1)) * templates.BLOCK
    page_map.play_at(s, out, templates.MOVE_TO, window - target * templates.BLOCK, page_map.SUPER)
    s.migrated_bytes += s.reg[templates.BYTES]
    s.copy_at = end


@subroutine
def migrate(s, arena, out):
    """Run the first half of a migration, the copy; return True once the copy is under way or if there is nothing to copy."""
    row = s.moving
    if s.copy_at < 0:
        begun = begin_move(s, arena, row)
        if begun == NO_ROOM:
            return False
        if begun == FULL:
            s.moving = 0
            return True
    while s.copy_at < s.wanted:
        if not reserve_events(s, out, 8):
            return False
        copy_stretch(s, arena, out, row, s.wanted)
    span = (s.wanted - arena[row + state.HELD] * page_map.PIECE) * templates.BLOCK
    s.moved_at = s.now + span * SECOND // s.copy_rate
    return True


@subroutine
def switch_to_superpages(s, arena, out):
    """Run the second half of a migration: point the page-directory entries to the superpages and free the old pages."""
    row = s.moving
    if not reserve_events(s, out, 64):
        return False
    held, count = arena[row + state.HELD], arena[row + state.FILLED]
    first, stop = held * page_map.PIECE, (held + count) * page_map.PIECE
    if arena[row + state.SPARE] > 0 and arena[row + state.SPARE_AT] < stop:
        page_map.drop_spare(s, arena, out, row)
    freed = page_map.free_pages(s, arena, out, row, first, min(stop, arena[row + state.PAGE_COUNT]))
    for piece in range(held, held + count):
        entries = table.get(arena, row + state.PTES, piece)
        if entries != 0:
            first_fit.release(s, arena, entries, 1)
            table.put(arena, row + state.PTES, piece, 0)
            s.table_blocks -= 1
        arena[arena[row + state.SUPERS] + piece] = arena[arena[row + state.NEWER] + piece - held]
        page_map.set_super(arena, row, piece)
    table.drop(s, arena, row + state.NEWER)
    arena[row + state.HELD], arena[row + state.FILLED] = held + count, 0
    arena[row + file_row.MAPPED] += count * page_map.PIECE - freed
    arena[row + state.PAGE_COUNT] = max(arena[row + state.PAGE_COUNT], stop)
    s.reg[templates.INODE], s.reg[templates.PAGES] = inode_at(s, row), freed
    s.reg[templates.DIRECTORY], s.reg[templates.DIRECTORY_BYTES] = page_map.directory_at(arena, row, held), count << 3
    emit_template(s, out, templates.SWITCHED)
    address = page_map.address_of(arena, row, first)
    page_map.table_event(s, out, page_map.UNMAPS, 0, address, stop - first, page_map.NORMAL)
    page_map.table_event(
        s, out, page_map.MAPS, table.get(arena, row + state.BLOCKS, first), address, stop - first, page_map.SUPER
    )
    s.migrations += 1
    s.moving = 0
    return True


@subroutine
def reclaim(s, arena, out):
    """Free all pages that are mapped and unused; return False if `out` or the arena must grow first."""
    while s.nulls != 0:
        if not reserve_events(s, out, 64) or not has_room(s, arena, ranges.NODE_WORDS):
            return False
        names.drop_null(s, arena, out)
    for k in range(s.file_count):
        if not reserve_events(s, out, 64):
            return False
        page_map.drop_spare(s, arena, out, s.files + k * state.FILE_WORDS)
    return True


@subroutine
def tidy(s, arena, out):
    """Run the collector: free null files, then spare pages of files that were not written since its last run."""
    while s.nulls != 0 and s.spare_blocks > s.tidy_above:
        if not reserve_events(s, out, 64) or not has_room(s, arena, ranges.NODE_WORDS):
            return False
        names.drop_null(s, arena, out)
    for k in range(s.file_count):
        row = s.files + k * state.FILE_WORDS
        if arena[row + state.SPARE] == 0 or arena[row + state.WRITTEN] > s.tidied or s.spare_blocks <= s.tidy_above:
            continue
        if not reserve_events(s, out, 64):
            return False
        page_map.drop_spare(s, arena, out, row)
    s.reg[templates.COUNT] = s.reclaimed_blocks - s.tidy_from
    emit_template(s, out, templates.COLLECTED)
    s.tidied = s.now
    return True


@kernel
def collect(record, arena, out):
    """Do the work that `need_collect` names; clear `need_collect` when done, else Python enlarges the buffers and calls again."""
    s = record[0]
    s.emitted, s.need_events, s.need_words = 0, 0, 0
    if s.need_collect == state.MIGRATE:
        done = migrate(s, arena, out)
    elif s.need_collect == state.SETTLE:
        done = switch_to_superpages(s, arena, out)
    else:
        done = tidy(s, arena, out)
    if done:
        s.need_collect = state.NOTHING
    page_map.place_metadata(s, out)
