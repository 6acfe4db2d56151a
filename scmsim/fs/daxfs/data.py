"""Find, allocate and publish pages of files; read, write and truncate; with `gaps = filled` also fallocate and free.

Source: daxfs/file.c (daxfs_read_iter, daxfs_write_prealloc, daxfs_write_iter, daxfs_truncate_overlay, daxfs_setattr).
Simplified: a miss in the inode's map of pages costs the same as a hit; a truncation does not look up holes.
"""

from scmsim.fs.daxfs import overlay, state, templates
from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.linux import templates as q
from scmsim.jit import subroutine

_PAGE = templates.PAGE
PAGE_EVENTS = 24  # maximum number of events of one page's allocation, clearing and publication
BATCH = 256  # maximum number of pages that a write allocates at once


@subroutine
def word_of(arena, row, page):
    """Return the packed field of a file's page."""
    return table.get(arena, row + state.PAGES, page)


@subroutine
def place(s, arena, f, page):
    """Return the device offset of a file's page, or 0 for a hole."""
    at = word_of(arena, f, page) & state.PLACE
    return s.pool_at + (at - 1 << 12) if at else 0


@subroutine
def most_pages(s):
    """Return how many pages a file can have."""
    return state.LARGEST >> 12 if s.filled else state.LAST_PAGE + 1


@subroutine
def can_take(s, arena, row, first, last):
    """Return DONE if the holes of [first, last] can get pages, else FULL or NO_ROOM; reserve space in the model's tables."""
    pages, keys = 0, 0
    if last >= most_pages(s):
        return FULL
    if last - first > s.free_blocks + (arena[row + file_row.MAPPED]):
        return FULL
    for page in range(first, last + 1):
        word = word_of(arena, row, page)
        pages += word & state.PLACE == 0
        keys += word & state.KEYED == 0
    if pages > s.free_blocks or s.entries + keys >= s.bucket_count:
        return FULL
    # a batch may put the pages that it did not need on the free list
    ahead = s.freed + (last + 1 - first if last - first < BATCH else 0)
    words = table.words_to_hold(arena, row + state.PAGES, last + 1) + table.words_to_hold(arena, s.stack, ahead)
    if not has_room(s, arena, words):
        return NO_ROOM
    table.reserve(s, arena, row + state.PAGES, last + 1)
    table.reserve(s, arena, s.stack, ahead)
    return DONE


@subroutine
def look_up(s, arena, out, f, page):
    """Emit the search for a page in the inode's own map, else in the hash table (the map caches the result); at most 4 events."""
    word = word_of(arena, f, page)
    s.reg[q.COUNT] = 1
    emit_template(s, out, templates.FOUND)
    if word & state.CACHED:
        return
    home = overlay.home_of(s, arena[f + state.INO], page)
    if word & state.KEYED:
        overlay.probe(s, out, home, word >> state.DISTANCE)
    else:
        overlay.miss(s, arena, out, home)
    if word & state.PLACE:
        table.put(arena, f + state.PAGES, page, word | state.CACHED)


@subroutine
def clear(s, out, at, length):
    """Emit a memset of `length` bytes of the pool at `at`."""
    s.reg[q.TO], s.reg[q.BYTES] = at, length
    emit_template(s, out, templates.ZERO)


@subroutine
def publish(s, arena, out, row, page, taken):
    """Emit daxfs_overlay_publish_page for the pool page `taken`, freed if the table already has the page; at most 12 events."""
    word = word_of(arena, row, page)
    home = overlay.home_of(s, arena[row + state.INO], page)
    if word & state.PLACE:
        overlay.probe(s, out, home, word >> state.DISTANCE)
        overlay.push_page(s, arena, out, taken)
        overlay.probe(s, out, home, word >> state.DISTANCE)
        table.put(arena, row + state.PAGES, page, word | state.CACHED)
        return
    distance = word >> state.DISTANCE
    if word & state.KEYED:  # gaps = filled: the bucket of the freed page gets a new value
        overlay.probe(s, out, home, distance)
        s.reg[templates.AT] = templates.TABLE + (home + distance & s.bucket_count - 1) * templates.BUCKET
        emit_template(s, out, templates.INSERT)
    else:
        distance = min(overlay.insert(s, arena, out, home), state.MOST_DISTANCE)
    word = taken + 1 | state.KEYED | state.CACHED | distance << state.DISTANCE
    table.put(arena, row + state.PAGES, page, word)
    arena[row + file_row.MAPPED] += 1
    s.data_pages += 1


@subroutine
def add_page(s, arena, out, row, page, whole):
    """Allocate and publish a pool page for a hole, cleared unless the call stores all of it (`whole`); at most 20 events."""
    taken = overlay.take_page(s, arena, out)
    if not whole:
        clear(s, out, s.pool_at + (taken << 12), _PAGE)
    publish(s, arena, out, row, page, taken)


@subroutine
def adopt_pages(s, arena, row, pages):
    """Allocate the pages of a file from before the trace, without events; the kernel's map of the inode stays empty."""
    first = overlay.take_pages(s, pages) if pages else 0
    for page in range(pages):
        distance = overlay.claim(s, arena, overlay.home_of(s, arena[row + state.INO], page))
        word = first + page + 1 | state.KEYED | min(distance, state.MOST_DISTANCE) << state.DISTANCE
        table.put(arena, row + state.PAGES, page, word)
    arena[row + file_row.MAPPED] = pages
    s.data_pages += pages


@subroutine
def preallocate(s, arena, out, row, first, last):
    """Run daxfs_write_prealloc: allocate and clear all pages of a write at once.

    It applies to a write of 2 to 256 pages of which none is in the inode's map.  Returns False if the events do not fit.
    """
    count = last + 1 - first
    if count < 2 or count > BATCH or overlay.pages_ahead(s) < count:
        return True
    if not reserve_events(s, out, PAGE_EVENTS * count + 16):
        return False
    s.reg[q.COUNT] = count
    emit_template(s, out, templates.FOUND)
    for page in range(first, last + 1):
        if word_of(arena, row, page) & state.CACHED:
            return True
    emit_template(s, out, templates.BUMP)
    taken = overlay.take_pages(s, count)
    for k in range(count):
        clear(s, out, s.pool_at + (taken + k << 12), _PAGE)
        publish(s, arena, out, row, first + k, taken + k)
    return True


@subroutine
def set_size(s, arena, out, row, size):
    """Store a file's length in its inode entry, which is looked up (daxfs_overlay_get_inode); emits at most 5 events."""
    arena[row + file_row.SIZE] = size
    find_entry(s, arena, out, row)
    s.reg[templates.AT] = arena[row + state.ENTRY] - 1
    emit_template(s, out, templates.SET_SIZE)


@subroutine
def find_entry(s, arena, out, row):
    """Emit the lookup of an inode's entry; emits at most 3 events."""
    home = overlay.home_of(s, arena[row + state.INO], overlay.INODE_KEY)
    overlay.probe(s, out, home, arena[row + state.ENTRY_DISTANCE])


@subroutine
def write(s, arena, out, op, row):
    """Run or resume daxfs_write_iter, whose pages are known to fit on the device; return whether it is done."""
    end = op.offset + op.length
    if s.stage == state.READY:
        if not preallocate(s, arena, out, row, op.offset >> 12, end - 1 >> 12) or not reserve_events(s, out, 4):
            return False
        emit_template(s, out, q.WRITE)
        s.stage, s.resume_at = state.COPYING, op.offset
    while s.resume_at < end:
        if not reserve_events(s, out, PAGE_EVENTS + 8):
            return False
        at, page = s.resume_at, s.resume_at >> 12
        stop = min(page + 1 << 12, end)
        look_up(s, arena, out, row, page)
        if word_of(arena, row, page) & state.PLACE == 0:
            add_page(s, arena, out, row, page, stop - at == _PAGE)
        s.reg[q.TO], s.reg[q.BYTES] = place(s, arena, row, page) + (at & _PAGE - 1), stop - at
        s.reg[q.USER_AT] = (op.thread << 36) + op.buffer + at - op.offset
        emit_template(s, out, q.COPY)
        s.resume_at = stop
    if not reserve_events(s, out, 8):
        return False
    if end > arena[row + file_row.SIZE]:
        set_size(s, arena, out, row, end)
    return True


@subroutine
def run_end(s, arena, out, row, page, stop):
    """Return the end of the run of pages from `page` on that are adjacent in the pool; -1 if `out` must grow first."""
    at, first = word_of(arena, row, page) & state.PLACE, page
    page += 1
    while page < stop:
        word = word_of(arena, row, page)
        if word & state.PLACE == 0 or not word & state.CACHED:
            if not reserve_events(s, out, 8):
                return -1
            look_up(s, arena, out, row, page)
        if word & state.PLACE != at + page - first:
            break
        page += 1
    return page


@subroutine
def read(s, arena, out, op, row):
    """Run or resume daxfs_read_iter, which copies runs of adjacent pages; return whether it is done.

    A page that the inode's map lacks is copied alone.  A read ends at the first hole; with gaps = filled it returns zeros for it.
    """
    end = min(op.offset + op.length, arena[row + file_row.SIZE])
    if s.stage == state.READY:
        emit_template(s, out, q.READ)
        s.stage, s.resume_at = state.COPYING, op.offset
    while s.resume_at < end:
        if not reserve_events(s, out, 16):
            return False
        at, page = s.resume_at, s.resume_at >> 12
        word, stop = word_of(arena, row, page), page + 1
        hole = word & state.PLACE == 0
        if hole and not s.filled:
            look_up(s, arena, out, row, page)
            s.cut_reads += 1
            return True
        if hole:
            while stop << 12 < end and word_of(arena, row, stop) & state.PLACE == 0:
                stop += 1
        elif word & state.CACHED:
            stop = run_end(s, arena, out, row, page, end + _PAGE - 1 >> 12)
            if stop < 0 or not reserve_events(s, out, 8):
                return False
            s.reg[q.COUNT] = stop - page
            emit_template(s, out, templates.FOUND)
        else:
            look_up(s, arena, out, row, page)
        stop = min(stop << 12, end)
        s.reg[q.FROM], s.reg[q.BYTES] = place(s, arena, row, page) + (at & _PAGE - 1), stop - at
        s.reg[q.USER_AT] = (op.thread << 36) + op.buffer + at - op.offset
        emit_template(s, out, templates.COPY_HOLE if hole else q.COPY_OUT)
        s.resume_at = stop
    return True


@subroutine
def reserve_list(s, arena, row):
    """Make the free list's table large enough for all pages of a file; return False if the arena must grow first."""
    count = s.freed + arena[row + file_row.MAPPED]
    if not has_room(s, arena, table.words_to_hold(arena, s.stack, count)):
        return False
    table.reserve(s, arena, s.stack, count)
    return True


@subroutine
def free_page(s, arena, out, row, page):
    """Put a file's page on the free list (gaps = filled); the bucket of its key stays; emits at most 4 events."""
    word = word_of(arena, row, page)
    overlay.push_page(s, arena, out, (word & state.PLACE) - 1)
    table.put(arena, row + state.PAGES, page, word & ~(state.PLACE | state.CACHED))
    arena[row + file_row.MAPPED] -= 1
    s.data_pages -= 1


@subroutine
def cut(s, arena, out, row, size, old_size):
    """Clear the bytes that a truncation cuts off, or free whole pages (gaps = filled); return whether the work is done."""
    if s.stage == state.READY:
        if s.filled and not reserve_list(s, arena, row):
            return False
        s.stage, s.resume_at = state.COPYING, size
    stop = min(old_size, 1 << arena[row + state.PAGES + table.ORDER] + 12) if arena[row + state.PAGES] else 0
    while s.resume_at < stop:
        at, page = s.resume_at, s.resume_at >> 12
        if word_of(arena, row, page) & state.PLACE:
            if not reserve_events(s, out, 8):
                return False
            if s.filled and at & _PAGE - 1 == 0:
                free_page(s, arena, out, row, page)
            else:
                look_up(s, arena, out, row, page)
                clear(s, out, place(s, arena, row, page) + (at & _PAGE - 1), _PAGE - (at & _PAGE - 1))
        s.resume_at = page + 1 << 12
    return True


@subroutine
def truncate(s, arena, out, row, new_size):
    """Run or resume daxfs_setattr of a length; return whether it is done."""
    old_size = arena[row + file_row.SIZE]
    if s.filled:  # also free the pages that fallocate left after the file's end
        old_size = max(old_size, state.LARGEST)
    if new_size < old_size and not cut(s, arena, out, row, new_size, old_size):
        return False
    if not reserve_events(s, out, 12):
        return False
    emit_template(s, out, templates.OTHER)
    set_size(s, arena, out, row, new_size)
    return True


@subroutine
def fallocate(s, arena, out, first, last, row):
    """Run or resume an fallocate (gaps = filled): fill the holes of [first, last] with cleared pages; return whether it is done."""
    if s.stage == state.READY:
        emit_template(s, out, templates.OTHER)
        s.stage, s.resume_at = state.COPYING, first
    while s.resume_at <= last:
        if not reserve_events(s, out, PAGE_EVENTS):
            return False
        if word_of(arena, row, s.resume_at) & state.PLACE == 0:
            add_page(s, arena, out, row, s.resume_at, False)
        s.resume_at += 1
    return True
