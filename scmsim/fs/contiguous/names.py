"""Names, lengths and lifetime of files that are contiguous in virtual memory.

A directory is a list of records in a file of its own.  A new record is appended, and the list never has gaps (a
simplification).
An unlinked file may become a null file: its range and first pages stay mapped for the next file that is created.
Source: SCMFS superpage paper (2013); lists of records and null files are assumptions, see docs/models/scmfs.md.
"""

from scmsim.alloc import two_zone
from scmsim.core import records
from scmsim.fs.contiguous import area as area
from scmsim.fs.contiguous import data as data
from scmsim.fs.contiguous import map as page_map
from scmsim.fs.contiguous import state, templates
from scmsim.fs.contiguous.data import clear_events, inode_at, open_write, stretch, touch
from scmsim.fs.engine import calls, file_row, ranges, table
from scmsim.fs.engine.arena import give, has_room, take
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.jit import subroutine

KEEPS_PAGES = 0  # 1: a file that is truncated keeps the pages after its end
NAME_EVENTS = 160  # maximum number of events of a namespace operation without the scans of directories


@subroutine
def record_bytes(arena, row):
    """Return the size in bytes of a file's directory record."""
    return (templates.DIRENT_HEADER + arena[row + file_row.NAME] + 7) & ~7


@subroutine
def scan(s, arena, out, directory, stop):
    """Scan a directory's records up to byte `stop`."""
    at, seen = 0, arena[directory + state.DIRENTS]
    if stop < arena[directory + file_row.SIZE]:
        seen = seen * stop // arena[directory + file_row.SIZE]
    while at < stop:
        end = stretch(arena, directory, at, stop)
        touch(s, arena, out, directory, templates.SCAN, at, end)
        at = end
    s.scanned_bytes += stop
    s.reg[templates.COUNT] = seen
    emit_template(s, out, templates.SCANNED)


@subroutine
def visit(s, arena, out, row):
    """Do nothing; a hook, called when a directory or file is looked up."""


@subroutine
def enter(s, arena, out, directory):
    """Do nothing; a hook, called before a directory is scanned and a new name is added to it."""


@subroutine
def leave(s, arena, out, row):
    """Do nothing; a hook, called after a name was added to the directory `row`."""


@subroutine
def add_name(s, arena, out, row, directory):
    """Append a file's name to a directory, after a scan of all its records."""
    enter(s, arena, out, directory)
    scan(s, arena, out, directory, arena[directory + file_row.SIZE])
    length, at = record_bytes(arena, row), arena[directory + file_row.SIZE]
    if at % templates.BLOCK + length > templates.BLOCK:  # a record does not cross a page
        at = (at // templates.BLOCK + 1) * templates.BLOCK
    page = at // templates.BLOCK
    # the directory is mapped in the middle of another file's operation: keep that operation's state
    resume, inode = s.resume_at, s.reg[templates.INODE]
    s.resume_at, s.reg[templates.INODE] = page, inode_at(s, directory)
    area.ensure_range(s, arena, out, directory, page + 1)
    page_map.fill(s, arena, out, directory, page)
    s.resume_at, s.reg[templates.INODE] = resume, inode
    s.reg[templates.FIELDS] = min(arena[row + file_row.NAME], 231) + 2
    touch(s, arena, out, directory, templates.ADD_DIRENT, at, at + length)
    arena[directory + file_row.SIZE] = at + length
    arena[directory + state.DIRENTS] += 1
    arena[row + state.PLACE], arena[row + state.PARENT] = at, directory
    leave(s, arena, out, directory)
    s.reg[templates.DIR] = inode_at(s, directory)
    emit_template(s, out, templates.DIR_GROWN)


@subroutine
def is_sparse(arena, row):
    """Return whether a file is longer than its mapped pages.

    A directory never is.  So if a file's parent is sparse, the trace has given the directory's id to another file.
    """
    return arena[row + file_row.SIZE] > arena[row + state.PAGE_COUNT] * templates.BLOCK


@subroutine
def directory_of(arena, row):
    """Return the row of the directory that has a file's newest name; 0 if unknown, or if the row belongs to a sparse file."""
    directory = arena[row + state.PARENT]
    return 0 if directory == 0 or is_sparse(arena, directory) else directory


@subroutine
def remove_name(s, arena, out, row):
    """Remove a file's newest name from its directory; the records after it are assumed to move up."""
    directory = directory_of(arena, row)
    if directory == 0:
        return
    visit(s, arena, out, directory)
    length = record_bytes(arena, row)
    at = max(min(arena[row + state.PLACE], arena[directory + file_row.SIZE] - length), 0)
    scan(s, arena, out, directory, min(at + length, arena[directory + file_row.SIZE]))
    touch(s, arena, out, directory, templates.DEL_DIRENT, at, at + 8)
    arena[directory + state.DIRENTS] = max(arena[directory + state.DIRENTS] - 1, 0)
    arena[directory + file_row.SIZE] = max(arena[directory + file_row.SIZE] - length, 0) * (
        arena[directory + state.DIRENTS] > 0
    )
    s.reg[templates.DIR] = inode_at(s, directory)
    emit_template(s, out, templates.DIR_LEFT)


@subroutine
def look_events(arena, row):
    """Return the maximum number of events that `look` emits."""
    return 0


@subroutine
def take_null(s, arena, row):
    """Give a new file the range and pages of a null file."""
    null = s.nulls
    if null == 0:
        return
    s.nulls = arena[null + state.NEXT]
    s.null_count -= 1
    s.null_reuses += 1
    for word in range(state.BLOCKS, state.SUPERS):
        arena[row + word] = arena[null + word]
    for word in (state.RANGE, state.RANGE_ORDER, state.PAGE_COUNT, state.SPARE):
        arena[row + word] = arena[null + word]
    arena[row + state.SPARE_AT] = 0
    give(s, arena, null, state.NULL_ORDER)


@subroutine
def keep_null(s, arena, out, row):
    """Turn a deleted file into a null file that keeps as many first pages as a new file gets; return False if not possible."""
    if s.null_count >= s.null_limit or arena[row + state.RANGE_ORDER] != ranges.SMALLEST or arena[row + state.HELD] > 0:
        return False
    if arena[row + file_row.STATUS] & file_row.IS_DIR:
        return False
    page_map.drop_spare(s, arena, out, row)
    count = 0
    while count < s.spare and table.get(arena, row + state.BLOCKS, count) != 0:
        count += 1
    if count == 0:
        return False
    if arena[row + state.PAGE_COUNT] > count:
        page_map.unmap(s, arena, out, row, count, arena[row + state.PAGE_COUNT])
    null = take(s, arena, state.NULL_ORDER)
    for word in range(state.BLOCKS, state.SUPERS):
        arena[null + word] = arena[row + word]
        arena[row + word] = 0
    arena[null + state.RANGE] = arena[row + state.RANGE]
    arena[null + state.RANGE_ORDER] = arena[row + state.RANGE_ORDER]
    arena[null + state.PAGE_COUNT], arena[null + state.SPARE], arena[null + state.NEXT] = count, count, s.nulls
    arena[row + state.RANGE_ORDER], arena[row + state.PAGE_COUNT] = 0, 0
    s.nulls = null
    s.null_count += 1
    s.spare_blocks += count
    return True


@subroutine
def drop_null(s, arena, out):
    """Free one null file."""
    null = s.nulls
    s.nulls = arena[null + state.NEXT]
    s.null_count -= 1
    page_map.drop_spare(s, arena, out, null)
    page_map.leave_tables(s, arena, null)
    give(s, arena, null, state.NULL_ORDER)


@subroutine
def create(s, arena, out, op, row, parent):
    """Run create or mkdir."""
    is_dir = op.op == records.MKDIR
    held = arena[row + file_row.MAPPED]  # blocks that the row still has; they are counted by kind, which may change
    page_map.count_blocks(s, arena, row, -held)
    arena[row + file_row.STATUS] = (
        arena[row + file_row.STATUS] & state.QUEUED | file_row.EXISTS | file_row.IS_DIR * is_dir
    )
    page_map.count_blocks(s, arena, row, held)
    arena[row + file_row.LINKS], arena[row + file_row.OPENS] = 1, not is_dir
    emit_template(s, out, templates.MKDIR if is_dir else templates.CREATE)
    if not is_dir:
        take_null(s, arena, row)
    emit_template(s, out, templates.NEW_INODE)
    add_name(s, arena, out, row, parent)
    if not is_dir:
        calls.on_first_open(s, arena, out, row)


@subroutine
def release_events(arena, row):
    """Return the maximum number of events to free one piece and, after the last piece, the inode."""
    return page_map.UNMAP_EVENTS


@subroutine
def released(s, arena, out, row):
    """Do nothing; a hook, called when a deleted file has lost its last page."""


@subroutine
def begin_eviction(s, arena, out, row):
    """Prepare the freeing of a file, or make it a null file; return False if a buffer must grow."""
    if not reserve_events(s, out, 64) or not has_room(s, arena, ranges.NODE_WORDS + (1 << state.NULL_ORDER)):
        return False
    visit(s, arena, out, row)
    if keep_null(s, arena, out, row):
        arena[row + file_row.MAPPED] = 0
    return True


@subroutine
def evict(s, arena, out, row):
    """Free a file without a name and without users; return False if `out` or the arena must grow first."""
    while True:
        if not reserve_events(s, out, release_events(arena, row)) or not has_room(s, arena, ranges.NODE_WORDS):
            return False
        if page_map.release_from(s, arena, out, row, 0):
            break
    released(s, arena, out, row)
    s.reg[templates.INODE] = inode_at(s, row)
    emit_template(s, out, templates.EVICTED)
    page_map.leave_tables(s, arena, row)
    for word in (
        file_row.SIZE,
        file_row.OPENS,
        state.PLACE,
        state.PARENT,
        state.DIRENTS,
        file_row.INITIAL_SIZE,
        file_row.LINKS,
    ):
        arena[row + word] = 0
    arena[row + file_row.STATUS] &= ~file_row.EXISTS
    return True


@subroutine
def link(s, arena, out, op, row, parent):
    """Run link: add another name."""
    emit_template(s, out, templates.LINK)
    add_name(s, arena, out, row, parent)
    arena[row + file_row.LINKS] += 1
    emit_template(s, out, templates.LINKS)


@subroutine
def rename(s, arena, out, row, parent, replaced):
    """Run rename within the file's directory."""
    emit_template(s, out, templates.RENAME)
    if replaced != 0:
        remove_name(s, arena, out, replaced)
        arena[replaced + state.PARENT] = 0
        lose_link(s, arena, out, replaced)
    directory = directory_of(arena, row)
    remove_name(s, arena, out, row)
    add_name(s, arena, out, row, directory if directory != 0 else parent)


@subroutine
def unlink(s, arena, out, op, row, parent):
    """Run unlink or rmdir."""
    emit_template(s, out, templates.RMDIR if op.op == records.RMDIR else templates.UNLINK)
    remove_name(s, arena, out, row)
    lose_link(s, arena, out, row)


@subroutine
def lose_link(s, arena, out, row):
    """Remove one link of a file."""
    arena[row + file_row.LINKS] -= 1
    s.reg[templates.INODE] = inode_at(s, row)
    emit_template(s, out, templates.LINKS)


@subroutine
def truncate(s, arena, out, row, new_size):
    """Run truncate; return False if `out` must grow first."""
    old_size = arena[row + file_row.SIZE]
    if s.stage == state.READY:
        if not reserve_events(s, out, clear_events(arena, row, old_size, new_size)):
            return False
        emit_template(s, out, templates.TRUNCATE)
        if new_size > old_size:
            page_map.drop_spare(s, arena, out, row)
            data.clear(s, arena, out, row, old_size, new_size)
        s.stage, s.resume_at = state.RELEASING, (new_size + templates.BLOCK - 1) // templates.BLOCK
    while new_size < old_size and not KEEPS_PAGES:
        if not reserve_events(s, out, release_events(arena, row)):
            return False
        if page_map.release_from(s, arena, out, row, (new_size + templates.BLOCK - 1) // templates.BLOCK):
            break
    if not reserve_events(s, out, 16):
        return False
    arena[row + file_row.SIZE] = new_size
    emit_template(s, out, templates.RESIZED)
    return True


@subroutine
def fallocate(s, arena, out, op, row):
    """Run fallocate: map and clear all missing pages, and the bytes after the old end of a file that grows.

    Returns False if `out` must grow first.
    """
    end = op.offset + op.length
    last = (end - 1) // templates.BLOCK
    grows = not op.flag & records.KEEP_SIZE and end > arena[row + file_row.SIZE]
    if s.stage == state.READY:
        spare, count = arena[row + state.SPARE_AT] * templates.BLOCK, arena[row + state.SPARE]
        low = arena[row + file_row.SIZE] if grows else end
        room = clear_events(arena, row, spare, spare + count * templates.BLOCK)
        if not reserve_events(s, out, 32 + room + clear_events(arena, row, low, end)):
            return False
        emit_template(s, out, templates.FALLOCATED)
        open_write(s, arena, out, op, row)
        used = count - arena[row + state.SPARE]
        data.clear(s, arena, out, row, spare, spare + used * templates.BLOCK)
        data.clear(s, arena, out, row, low, min(end, spare) if used > 0 else end)
    while s.resume_at <= last:
        if not reserve_events(s, out, page_map.MAP_EVENTS + 8):
            return False
        mapped = arena[row + file_row.MAPPED]
        page_map.fill(s, arena, out, row, last)
        mapped = arena[row + file_row.MAPPED] - mapped
        if mapped == page_map.PIECE and page_map.order_at(arena, row, s.resume_at) == page_map.SUPER:
            start = s.resume_at // page_map.PIECE * page_map.PIECE
            data.clear(s, arena, out, row, start * templates.BLOCK, (start + page_map.PIECE) * templates.BLOCK)
        elif mapped > 0:
            data.clear(s, arena, out, row, (s.resume_at - mapped) * templates.BLOCK, s.resume_at * templates.BLOCK)
    if not reserve_events(s, out, 16):
        return False
    if grows:
        arena[row + file_row.SIZE] = end
        emit_template(s, out, templates.RESIZED)
    return True


@subroutine
def adopt_supers(s, arena, row, pages):
    """Give superpages to a file from before the trace that is above the threshold, as if it had been migrated long ago."""
    if s.threshold == 0 or pages <= s.threshold:
        return
    count = min(pages // page_map.PIECE, s.free_supers)
    rest = pages - count * page_map.PIECE
    if s.whole and 0 < rest < page_map.PIECE and s.free_supers > count:
        if two_zone.free_everywhere(s) - s.owed >= page_map.PIECE:
            count += 1
    arena[row + state.HELD] = two_zone.nvmalloc_superpage(s, arena, arena[row + state.SUPERS], count)
    for piece in range(count):
        page_map.set_super(arena, row, piece)
    arena[row + file_row.MAPPED] = count * page_map.PIECE
    arena[row + state.PAGE_COUNT] = count * page_map.PIECE
    s.data_blocks += count * page_map.PIECE
    s.owed -= min(pages, count * page_map.PIECE)


@subroutine
def adopt(s, arena, out, row, parent):
    """Create a file that existed before the trace, without events; return True."""
    length = 0 if arena[row + file_row.STATUS] & file_row.IS_DIR else max(arena[row + file_row.INITIAL_SIZE] - 1, 0)
    pages, emitted = (length + templates.BLOCK - 1) // templates.BLOCK, s.emitted
    if s.stage == state.NEW:
        arena[row + file_row.STATUS] |= file_row.EXISTS
        arena[row + file_row.LINKS] = 1
        if row != parent:
            add_name(s, arena, out, row, parent)
        if pages > 0:
            area.ensure_range(s, arena, out, row, pages)
            page_map.reserve(s, arena, row, pages)
            adopt_supers(s, arena, row, pages)
        s.stage, s.resume_at = state.ADOPTING, 0
        s.emitted = emitted  # drop the events: the trace did not do this
    while s.resume_at < pages:
        page_map.fill(s, arena, out, row, pages - 1)
        s.emitted = emitted
    arena[row + file_row.SIZE] = length
    return True
