"""Names, lengths and the life of files that are contiguous in virtual memory.

A directory is a list of records in a file of its own; a new one goes to its end, and the list stays without gaps (a
simplification).
An unlinked file may become a null file: its range and first pages wait, mapped, for the next file that is created.
Source: SCMFS superpage paper (2013); lists of records and null files are assumptions, see docs/fs/scmfs.md.
"""

from scmsim.alloc import two_zone
from scmsim.core import records as r
from scmsim.fs.contiguous import area as area
from scmsim.fs.contiguous import data as data
from scmsim.fs.contiguous import map as m
from scmsim.fs.contiguous import recipes as q
from scmsim.fs.contiguous import state as n
from scmsim.fs.contiguous.data import clear_events, inode_at, open_write, stretch, touch
from scmsim.fs.engine import calls, file_row, ranges, table
from scmsim.fs.engine.arena import give, has_room, take
from scmsim.fs.engine.events import has_events, play
from scmsim.jit import part

KEEPS_PAGES = 0  # 1: a file keeps the pages behind its end when it is cut
NAME_EVENTS = 160  # of a namespace operation, without the scans of directories


@part
def record_bytes(arena, row):
    """Bytes of a file's record in its directory."""
    return (q.DIRENT_HEADER + arena[row + file_row.NAME] + 7) & ~7


@part
def scan(s, arena, out, directory, stop):
    """Look through a directory's records up to byte `stop`."""
    at, seen = 0, arena[directory + n.DIRENTS]
    if stop < arena[directory + file_row.SIZE]:
        seen = seen * stop // arena[directory + file_row.SIZE]
    while at < stop:
        end = stretch(arena, directory, at, stop)
        touch(s, arena, out, directory, q.SCAN, at, end)
        at = end
    s.scanned_bytes += stop
    s.reg[q.COUNT] = seen
    play(s, out, q.SCANNED)


@part
def visit(s, arena, out, row):
    """A directory or file is looked at once."""


@part
def enter(s, arena, out, directory):
    """What precedes the look through a directory that gets a name."""


@part
def leave(s, arena, out, directory):
    """A directory got a name."""


@part
def add_name(s, arena, out, row, directory):
    """Put a file's name at the end of a directory, after a look through all its records."""
    enter(s, arena, out, directory)
    scan(s, arena, out, directory, arena[directory + file_row.SIZE])
    length, at = record_bytes(arena, row), arena[directory + file_row.SIZE]
    if at % q.BLOCK + length > q.BLOCK:
        at = (at // q.BLOCK + 1) * q.BLOCK
    page = at // q.BLOCK
    resume, inode = s.resume_at, s.reg[q.INODE]
    s.resume_at, s.reg[q.INODE] = page, inode_at(s, directory)
    area.ensure_range(s, arena, out, directory, page + 1)
    m.fill(s, arena, out, directory, page)
    s.resume_at, s.reg[q.INODE] = resume, inode
    s.reg[q.FIELDS] = min(arena[row + file_row.NAME], 231) + 2
    touch(s, arena, out, directory, q.ADD_DIRENT, at, at + length)
    arena[directory + file_row.SIZE] = at + length
    arena[directory + n.DIRENTS] += 1
    arena[row + n.PLACE], arena[row + n.PARENT] = at, directory
    leave(s, arena, out, directory)
    s.reg[q.DIR] = inode_at(s, directory)
    play(s, out, q.DIR_GROWN)


@part
def remove_name(s, arena, out, row):
    """Take a file's newest name out of its directory; the records behind it are taken to move up."""
    directory = arena[row + n.PARENT]
    if directory == 0:
        return
    visit(s, arena, out, directory)
    length = record_bytes(arena, row)
    at = max(min(arena[row + n.PLACE], arena[directory + file_row.SIZE] - length), 0)
    scan(s, arena, out, directory, min(at + length, arena[directory + file_row.SIZE]))
    touch(s, arena, out, directory, q.DEL_DIRENT, at, at + 8)
    arena[directory + n.DIRENTS] = max(arena[directory + n.DIRENTS] - 1, 0)
    arena[directory + file_row.SIZE] = max(arena[directory + file_row.SIZE] - length, 0) * (
        arena[directory + n.DIRENTS] > 0
    )
    s.reg[q.DIR] = inode_at(s, directory)
    play(s, out, q.DIR_LEFT)


@part
def look_events(arena, row):
    """Events that `look` takes, at most."""
    return 0


@part
def take_null(s, arena, row):
    """A new file takes over the range and pages of a null file."""
    null = s.nulls
    if null == 0:
        return
    s.nulls = arena[null + n.NEXT]
    s.null_count -= 1
    s.null_reuses += 1
    for word in range(n.BLOCKS, n.SUPERS):
        arena[row + word] = arena[null + word]
    for word in (n.RANGE, n.RANGE_ORDER, n.END, n.SPARE):
        arena[row + word] = arena[null + word]
    arena[row + n.SPARE_AT] = 0
    give(s, arena, null, n.NULL_ORDER)


@part
def keep_null(s, arena, out, row):
    """A file that is gone becomes a null file, with as many first pages as a new file gets; False: it does not."""
    if s.null_count >= s.null_limit or arena[row + n.RANGE_ORDER] != ranges.SMALLEST or arena[row + n.HELD] > 0:
        return False
    if arena[row + file_row.STATUS] & file_row.IS_DIR:
        return False
    m.drop_spare(s, arena, out, row)
    count = 0
    while count < s.spare and table.get(arena, row + n.BLOCKS, count) != 0:
        count += 1
    if count == 0:
        return False
    if arena[row + n.END] > count:
        m.unmap(s, arena, out, row, count, arena[row + n.END])
    null = take(s, arena, n.NULL_ORDER)
    for word in range(n.BLOCKS, n.SUPERS):
        arena[null + word] = arena[row + word]
        arena[row + word] = 0
    arena[null + n.RANGE], arena[null + n.RANGE_ORDER] = arena[row + n.RANGE], arena[row + n.RANGE_ORDER]
    arena[null + n.END], arena[null + n.SPARE], arena[null + n.NEXT] = count, count, s.nulls
    arena[row + n.RANGE_ORDER], arena[row + n.END] = 0, 0
    s.nulls = null
    s.null_count += 1
    s.spare_blocks += count
    return True


@part
def drop_null(s, arena, out):
    """Free one null file."""
    null = s.nulls
    s.nulls = arena[null + n.NEXT]
    s.null_count -= 1
    m.drop_spare(s, arena, out, null)
    m.leave_tables(s, arena, null)
    give(s, arena, null, n.NULL_ORDER)


@part
def create(s, arena, out, op, row, parent):
    """create, mkdir."""
    is_dir = op.op == r.MKDIR
    arena[row + file_row.STATUS] = arena[row + file_row.STATUS] & n.QUEUED | file_row.EXISTS | file_row.IS_DIR * is_dir
    arena[row + file_row.LINKS], arena[row + file_row.OPENS] = 1, not is_dir
    play(s, out, q.MKDIR if is_dir else q.CREATE)
    if not is_dir:
        take_null(s, arena, row)
    play(s, out, q.NEW_INODE)
    add_name(s, arena, out, row, parent)
    if not is_dir:
        calls.opened(s, arena, out, row)


@part
def release_events(arena, row):
    """Events of one piece that is freed, and of the file's end, at most."""
    return m.UNMAP_EVENTS


@part
def released(s, arena, out, row):
    """A file that goes has no pages any more."""


@part
def begin_eviction(s, arena, out, row):
    """A file that goes is looked at, and may become a null file; False: no room for it."""
    if not has_events(s, out, 64) or not has_room(s, arena, ranges.NODE_WORDS + (1 << n.NULL_ORDER)):
        return False
    visit(s, arena, out, row)
    if keep_null(s, arena, out, row):
        arena[row + file_row.MAPPED] = 0
    return True


@part
def evict(s, arena, out, row):
    """Free a file that nothing names or uses; False: no room to go on."""
    while True:
        if not has_events(s, out, release_events(arena, row)) or not has_room(s, arena, ranges.NODE_WORDS):
            return False
        if m.release_from(s, arena, out, row, 0):
            break
    released(s, arena, out, row)
    s.reg[q.INODE] = inode_at(s, row)
    play(s, out, q.EVICTED)
    m.leave_tables(s, arena, row)
    for word in (file_row.SIZE, file_row.OPENS, n.PLACE, n.PARENT, n.DIRENTS, file_row.FIRST, file_row.LINKS):
        arena[row + word] = 0
    arena[row + file_row.STATUS] &= ~file_row.EXISTS
    return True


@part
def link(s, arena, out, op, row, parent):
    """link: one more name."""
    play(s, out, q.LINK)
    add_name(s, arena, out, row, parent)
    arena[row + file_row.LINKS] += 1
    play(s, out, q.LINKS)


@part
def rename(s, arena, out, row, parent, replaced):
    """rename within the file's directory."""
    play(s, out, q.RENAME)
    if replaced != 0:
        remove_name(s, arena, out, replaced)
        arena[replaced + n.PARENT] = 0
        lose_link(s, arena, out, replaced)
    directory = arena[row + n.PARENT] if arena[row + n.PARENT] != 0 else parent
    remove_name(s, arena, out, row)
    add_name(s, arena, out, row, directory)


@part
def unlink(s, arena, out, op, row, parent):
    """unlink, rmdir."""
    play(s, out, q.RMDIR if op.op == r.RMDIR else q.UNLINK)
    remove_name(s, arena, out, row)
    lose_link(s, arena, out, row)


@part
def lose_link(s, arena, out, row):
    """One name less."""
    arena[row + file_row.LINKS] -= 1
    s.reg[q.INODE] = inode_at(s, row)
    play(s, out, q.LINKS)


@part
def truncate(s, arena, out, row, new_size):
    """truncate; False: no room to go on."""
    old_size = arena[row + file_row.SIZE]
    if s.stage == n.READY:
        if not has_events(s, out, clear_events(arena, row, old_size, new_size)):
            return False
        play(s, out, q.TRUNCATE)
        if new_size > old_size:
            m.drop_spare(s, arena, out, row)
            data.clear(s, arena, out, row, old_size, new_size)
        s.stage, s.resume_at = n.RELEASING, (new_size + q.BLOCK - 1) // q.BLOCK
    while new_size < old_size and not KEEPS_PAGES:
        if not has_events(s, out, release_events(arena, row)):
            return False
        if m.release_from(s, arena, out, row, (new_size + q.BLOCK - 1) // q.BLOCK):
            break
    if not has_events(s, out, 16):
        return False
    arena[row + file_row.SIZE] = new_size
    play(s, out, q.RESIZED)
    return True


@part
def fallocate(s, arena, out, op, row):
    """fallocate: every page that is missing is mapped and cleared; False: no room to go on."""
    end = op.offset + op.length
    last = (end - 1) // q.BLOCK
    if s.stage == n.READY:
        used, count = arena[row + n.SPARE_AT], arena[row + n.SPARE]
        if not has_events(s, out, 32 + clear_events(arena, row, used * q.BLOCK, (used + count) * q.BLOCK)):
            return False
        play(s, out, q.FALLOCATED)
        open_write(s, arena, out, op, row)
        data.clear(s, arena, out, row, used * q.BLOCK, (used + count - arena[row + n.SPARE]) * q.BLOCK)
    while s.resume_at <= last:
        if not has_events(s, out, m.MAP_EVENTS + 8):
            return False
        mapped = arena[row + file_row.MAPPED]
        m.fill(s, arena, out, row, last)
        mapped = arena[row + file_row.MAPPED] - mapped
        if mapped == m.PIECE and m.order_at(arena, row, s.resume_at) == m.SUPER:
            start = s.resume_at // m.PIECE * m.PIECE
            data.clear(s, arena, out, row, start * q.BLOCK, (start + m.PIECE) * q.BLOCK)
        elif mapped > 0:
            data.clear(s, arena, out, row, (s.resume_at - mapped) * q.BLOCK, s.resume_at * q.BLOCK)
    if not has_events(s, out, 16):
        return False
    if not op.flag & r.KEEP_SIZE and end > arena[row + file_row.SIZE]:
        arena[row + file_row.SIZE] = end
        play(s, out, q.RESIZED)
    return True


@part
def adopt_supers(s, arena, row, pages):
    """Superpages of a file from before the trace that had outgrown the threshold: it was migrated long ago."""
    if s.threshold == 0 or pages <= s.threshold:
        return
    count = min(pages // m.PIECE, s.free_supers)
    rest = pages - count * m.PIECE
    if s.whole and 0 < rest < m.PIECE and s.free_supers > count:
        if two_zone.free_everywhere(s) - s.owed >= m.PIECE:
            count += 1
    arena[row + n.HELD] = two_zone.nvmalloc_superpage(s, arena, arena[row + n.SUPERS], count)
    for piece in range(count):
        m.set_super(arena, row, piece)
    arena[row + file_row.MAPPED] = count * m.PIECE
    arena[row + n.END] = count * m.PIECE
    s.data_blocks += count * m.PIECE
    s.owed -= min(pages, count * m.PIECE)


@part
def adopt(s, arena, out, row, parent):
    """Bring a file that existed before the trace into being, silently; False: no room to go on."""
    length = 0 if arena[row + file_row.STATUS] & file_row.IS_DIR else max(arena[row + file_row.FIRST] - 1, 0)
    pages, emitted = (length + q.BLOCK - 1) // q.BLOCK, s.emitted
    if s.stage == n.NEW:
        arena[row + file_row.STATUS] |= file_row.EXISTS
        arena[row + file_row.LINKS] = 1
        if row != parent:
            add_name(s, arena, out, row, parent)
        if pages > 0:
            area.ensure_range(s, arena, out, row, pages)
            m.reserve(s, arena, row, pages)
            adopt_supers(s, arena, row, pages)
        s.stage, s.resume_at = n.ADOPTING, 0
        s.emitted = emitted
    while s.resume_at < pages:
        m.fill(s, arena, out, row, pages - 1)
        s.emitted = emitted
    arena[row + file_row.SIZE] = length
    return True
