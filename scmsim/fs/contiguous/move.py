"""What runs beside the operations: migration to superpages, and the collection of pages that are mapped but not used.

One thread migrates one file at a time: it fills superpages while reads still go to the old pages, then switches the file's
page-directory entries and frees the old ones.  A write that comes in between waits for it (counted with the time it waits).
Source: SCMFS superpage paper (2013), IV.B; how long a copy takes and when the threads run are parameters.
"""

from scmsim.alloc import first_fit, two_zone
from scmsim.core import records as r
from scmsim.fs.contiguous import map as m
from scmsim.fs.contiguous import names as names
from scmsim.fs.contiguous import recipes as q
from scmsim.fs.contiguous import state as n
from scmsim.fs.contiguous.data import inode_at, stretch
from scmsim.fs.engine import file_row, ranges, table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import has_events, play
from scmsim.jit import kernel, part

SECOND = 1_000_000_000


@part
def enqueue(s, arena, row):
    """A file that outgrew the threshold, or grew by a superpage's bytes on normal pages since, is due for migration."""
    normal = arena[row + file_row.MAPPED] - arena[row + n.HELD] * m.PIECE
    if (
        s.threshold == 0
        or arena[row + file_row.STATUS] & (n.QUEUED | file_row.IS_DIR)
        or arena[row + file_row.MAPPED] <= s.threshold
    ):
        return
    if arena[row + n.HELD] > 0 and normal < m.PIECE:
        return
    arena[row + file_row.STATUS] |= n.QUEUED
    arena[row + n.NEXT] = 0
    if s.queue == 0:
        s.queue = row
    else:
        arena[s.queue_end + n.NEXT] = row
    s.queue_end = row


@part
def dequeue(s, arena):
    """Take the first file that is due out of the queue."""
    row = s.queue
    s.queue = arena[row + n.NEXT]
    arena[row + file_row.STATUS] &= ~n.QUEUED
    return row


@part
def disturbs(s, arena, op):
    """Whether an operation has to wait for the migration of its file: any that changes its pages."""
    code, row = op.op, s.files + op.file * n.FILE_WORDS
    if code == r.RENAME:
        return op.file2 >= 0 and s.files + op.file2 * n.FILE_WORDS == s.moving
    if row != s.moving:
        return False
    return code == r.WRITE or code == r.TRUNCATE or code == r.FALLOCATE or code == r.UNLINK or code == r.CLOSE


@part
def next_due(s, arena, op):
    """What a background thread does before operation `op` begins (NOTHING, MIGRATE, SETTLE or TIDY)."""
    if s.moving != 0:
        if s.now >= s.moved_at:
            return n.SETTLE
        if disturbs(s, arena, op):
            if op.op == r.WRITE:
                s.waited_writes += 1
                s.waited_ns += s.moved_at - s.now
            return n.SETTLE
    elif s.queue != 0 and s.looked <= s.seen:
        s.looked = s.seen + 1
        row = dequeue(s, arena)
        if arena[row + file_row.STATUS] & file_row.EXISTS:
            if arena[row + file_row.OPENS] <= 0 or s.now - arena[row + n.WRITTEN] >= s.quiet:
                s.moving, s.copy_at = row, -1
                return n.MIGRATE
            enqueue(s, arena, row)
    if s.spare_blocks > s.tidy_above and s.now - s.tidied >= s.tidy_every:
        return n.TIDY
    return n.NOTHING


@part
def pages_to_move(s, arena, row):
    """Pages from the file's first one on without a hole, and not behind its end."""
    page = arena[row + n.HELD] * m.PIECE
    while page < arena[row + n.END] and table.get(arena, row + n.BLOCKS, page) != 0:
        page += 1
    return min(page, arena[row + n.SPARE_AT]) if arena[row + n.SPARE] > 0 else page


@part
def begin_move(s, arena, out, row):
    """Take the superpages of a migration; 1: the copy can begin, -1: nothing to migrate, or no superpages, 0: no room yet."""
    pages, held = pages_to_move(s, arena, row), arena[row + n.HELD]
    wanted = pages // m.PIECE
    if s.whole and pages % m.PIECE and pages * q.BLOCK >= arena[row + file_row.SIZE]:
        wanted += 1
    if wanted <= held:
        return -1
    if s.free_supers < wanted - held:
        s.refused_migrations += 1
        return -1
    words = table.words_to_hold(arena, row + n.NEWER, wanted - held) + m.words_for(arena, row, wanted * m.PIECE)
    if not has_room(s, arena, words):
        return 0
    m.reserve(s, arena, row, wanted * m.PIECE)
    table.reserve(s, arena, row + n.NEWER, wanted - held)
    arena[row + n.FILLED] = two_zone.nvmalloc_superpage(s, arena, arena[row + n.NEWER], wanted - held)
    s.data_blocks += (wanted - held) * m.PIECE
    s.copy_at, s.wanted = held * m.PIECE, pages
    return 1


@part
def copy_stretch(s, arena, out, row, stop):
    """Copy pages from `copy_at` on, within one superpage and one run of old pages."""
    page, held = s.copy_at, arena[row + n.HELD]
    end = min(stop, (page | (m.PIECE - 1)) + 1)
    end = stretch(arena, row, page * q.BLOCK, end * q.BLOCK) // q.BLOCK
    block, piece = table.get(arena, row + n.BLOCKS, page), page // m.PIECE
    target = arena[arena[row + n.NEWER] + piece - held] + (page & (m.PIECE - 1))
    s.reg[q.BYTES] = (end - page) * q.BLOCK
    s.reg[q.AT] = block * q.BLOCK
    m.play_at(s, out, q.MOVE_FROM, m.address_of(arena, row, page) - block * q.BLOCK, m.NORMAL)
    s.reg[q.AT] = target * q.BLOCK
    window = m.COPY_WINDOW + (piece - held << m.SUPER) + (page & (m.PIECE - 1)) * q.BLOCK
    m.play_at(s, out, q.MOVE_TO, window - target * q.BLOCK, m.SUPER)
    s.migrated_bytes += s.reg[q.BYTES]
    s.copy_at = end


@part
def migrate(s, arena, out):
    """The copying half of a migration; True when the copy is under way, or there is none."""
    row = s.moving
    if s.copy_at < 0:
        begun = begin_move(s, arena, out, row)
        if begun == 0:
            return False
        if begun < 0:
            s.moving = 0
            return True
    while s.copy_at < s.wanted:
        if not has_events(s, out, 8):
            return False
        copy_stretch(s, arena, out, row, s.wanted)
    span = (s.wanted - arena[row + n.HELD] * m.PIECE) * q.BLOCK
    s.moved_at = s.now + span * SECOND // s.copy_rate
    return True


@part
def settle(s, arena, out):
    """The switching half: the file's page-directory entries go to the superpages, its old pages are freed."""
    row = s.moving
    if not has_events(s, out, 64):
        return False
    held, count = arena[row + n.HELD], arena[row + n.FILLED]
    first, stop = held * m.PIECE, (held + count) * m.PIECE
    if arena[row + n.SPARE] > 0 and arena[row + n.SPARE_AT] < stop:
        m.drop_spare(s, arena, out, row)
    freed = m.free_pages(s, arena, out, row, first, min(stop, arena[row + n.END]))
    for piece in range(held, held + count):
        entries = table.get(arena, row + n.PTES, piece)
        if entries != 0:
            first_fit.release(s, arena, entries, 1)
            table.put(arena, row + n.PTES, piece, 0)
            s.table_blocks -= 1
        arena[arena[row + n.SUPERS] + piece] = arena[arena[row + n.NEWER] + piece - held]
        m.set_super(arena, row, piece)
    table.drop(s, arena, row + n.NEWER)
    arena[row + n.HELD], arena[row + n.FILLED] = held + count, 0
    arena[row + file_row.MAPPED] += count * m.PIECE - freed
    arena[row + n.END] = max(arena[row + n.END], stop)
    s.reg[q.INODE], s.reg[q.PAGES] = inode_at(s, row), freed
    s.reg[q.DIRECTORY], s.reg[q.DIRECTORY_BYTES] = m.directory_at(arena, row, held), count << 3
    play(s, out, q.SWITCHED)
    address = m.address_of(arena, row, first)
    m.table_event(s, out, m.UNMAPS, 0, address, stop - first, m.NORMAL)
    m.table_event(s, out, m.MAPS, table.get(arena, row + n.BLOCKS, first), address, stop - first, m.SUPER)
    s.migrations += 1
    s.moving = 0
    return True


@part
def reclaim(s, arena, out):
    """Free every page that is mapped and not used; False: no room to go on."""
    while s.nulls != 0:
        if not has_events(s, out, 64) or not has_room(s, arena, ranges.NODE_WORDS):
            return False
        names.drop_null(s, arena, out)
    for k in range(s.file_count):
        if not has_events(s, out, 64):
            return False
        m.drop_spare(s, arena, out, s.files + k * n.FILE_WORDS)
    return True


@part
def tidy(s, arena, out):
    """The collector: null files first, then the spare pages of files that were not written since it last worked."""
    before = s.reclaimed_blocks
    while s.nulls != 0 and s.spare_blocks > s.tidy_above:
        if not has_events(s, out, 64) or not has_room(s, arena, ranges.NODE_WORDS):
            return False
        names.drop_null(s, arena, out)
    for k in range(s.file_count):
        row = s.files + k * n.FILE_WORDS
        if arena[row + n.SPARE] == 0 or arena[row + n.WRITTEN] > s.tidied or s.spare_blocks <= s.tidy_above:
            continue
        if not has_events(s, out, 64):
            return False
        m.drop_spare(s, arena, out, row)
    s.reg[q.COUNT] = s.reclaimed_blocks - before
    play(s, out, q.COLLECTED)
    s.tidied = s.now
    return True


@kernel
def collect(state, arena, out):
    """Do what `need_collect` names; clears it when it is done, else Python makes room and calls again."""
    s = state[0]
    s.emitted, s.need_events, s.need_words = 0, 0, 0
    if s.need_collect == n.MIGRATE:
        done = migrate(s, arena, out)
    elif s.need_collect == n.SETTLE:
        done = settle(s, arena, out)
    else:
        done = tidy(s, arena, out)
    if done:
        s.need_collect = n.NOTHING
    m.place_metadata(s, out)
