"""Model PMFS's namespace operations, truncate and fallocate.

Source: PMFS fs/pmfs/namei.c (pmfs_create, pmfs_mkdir, pmfs_unlink, pmfs_rename, pmfs_link), inode.c (pmfs_truncate_add,
pmfs_evict_inode, pmfs_free_inode, pmfs_notify_change), file.c (pmfs_fallocate).
"""

from scmsim.core import records
from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.pmfs import dirs as dirs
from scmsim.fs.pmfs import state, templates
from scmsim.fs.pmfs.copy import device, inode_at
from scmsim.fs.pmfs.data import lengthen
from scmsim.fs.pmfs.journal import begin, commit, log
from scmsim.fs.pmfs.tree import FILL_EVENTS, fill, free_leaf, grow, lower, reserve, words_for
from scmsim.jit import subroutine

INODE_FIELDS = 80  # bytes of a new inode that create logs


@subroutine
def on_growth(s, arena, out, row, new_size):
    """Handle a file's growth to `new_size` without a write; PMFS does nothing, because it clears blocks on allocation."""


@subroutine
def adopted(s, arena, row):
    """Handle a file that existed before the trace, after its blocks were allocated; PMFS does nothing."""


@subroutine
def ready_directory(s, arena, out, directory):
    """Create the first block of a directory that existed before the trace, without events."""
    if arena[directory + state.DIRCOUNT] == 0:
        emitted, journal = s.emitted, s.reg[templates.JOURNAL]
        dirs.dots(s, arena, out, directory)
        s.emitted, s.reg[templates.JOURNAL] = emitted, journal


@subroutine
def can_free(s, arena):
    """Return whether the allocator can take back a leaf's blocks; WineFS's allocator needs tree nodes for them."""
    return True


@subroutine
def reserved(s, arena, row, op):
    """Note a fallocate that keeps the file's size; PMFS does nothing."""


@subroutine
def cuts(s, arena, row, new_size):
    """Return whether a truncate to `new_size` frees blocks."""
    return new_size < arena[row + file_row.SIZE]


@subroutine
def truncated(s, arena, row):
    """Note that a truncate is done; PMFS does nothing."""


@subroutine
def create(s, arena, out, op, row, parent):
    """Model create and mkdir."""
    ready_directory(s, arena, out, parent)
    is_dir = op.op == records.MKDIR
    holds_names = arena[row + state.DIRCOUNT] > 0  # a row with directory blocks is still a directory
    arena[row + file_row.STATUS] = file_row.EXISTS | file_row.IS_DIR * (is_dir or holds_names)
    arena[row + file_row.LINKS], arena[row + file_row.OPENS] = 1, not is_dir
    emit_template(s, out, templates.MKDIR if is_dir else templates.CREATE)
    dirs.miss(s, arena, out, parent)
    begin(s, out)
    log(s, out, s.reg[templates.INODE], INODE_FIELDS)
    emit_template(s, out, templates.NEW_INODE)
    if is_dir:
        dirs.dots(s, arena, out, row)
        emit_template(s, out, templates.DOTS)
    dirs.add_name(s, arena, out, row, parent)
    if is_dir:
        # ".." of the new directory is a link to the parent.
        emit_template(s, out, templates.DIR_LINKS)
    commit(s, out)


@subroutine
def lose_link(s, arena, out, row):
    """Decrement the link count; at 0 put the inode on the truncate list, so that a recovery frees the file."""
    arena[row + file_row.LINKS] -= 1
    emit_template(s, out, templates.LINKS)
    if arena[row + file_row.LINKS] <= 0:
        emit_template(s, out, templates.TRUNCATE_ADD)


@subroutine
def number(s, row):
    """Return the number of the file at `row`."""
    return (row - s.files) // state.FILE_WORDS


@subroutine
def leave_directory(s, arena, out, row):
    """Remove a file's newest name from its directory."""
    s.reg[templates.INODE] = inode_at(s, row)
    log(s, out, s.reg[templates.INODE], templates.LOG_DATA)
    dirs.remove_name(s, arena, out, arena[row + state.PARENT], arena[row + state.PLACE], number(s, row))
    arena[row + state.PLACE] = 0


@subroutine
def unlink(s, arena, out, op, row, parent):
    """Model unlink and rmdir."""
    emit_template(s, out, templates.RMDIR if op.op == records.RMDIR else templates.UNLINK)
    begin(s, out)
    leave_directory(s, arena, out, row)
    if op.op == records.RMDIR:
        emit_template(s, out, templates.DIR_LINKS)
    lose_link(s, arena, out, row)
    commit(s, out)


@subroutine
def take_over(s, arena, out, row, replaced, directory):
    """Put the inode number of the file at `row` into the directory record of the file that it replaces.

    Return False if that record is in another directory or unknown.
    """
    if arena[replaced + state.PARENT] != directory:
        return False
    j, k = dirs.find_place(arena, directory, arena[replaced + state.PLACE], number(s, replaced))
    if j < 0:
        return False
    dirs.scan(s, arena, out, directory, j, k + 1, 1)
    place = table.get(arena, directory + state.DIRBLOCKS, j)
    at = place + state.DIR_FIRST + k
    s.reg[templates.DIRENT] = arena[place + state.DIR_BLOCK] * templates.BLOCK + dirs.offset_of(arena, place, k)
    log(s, out, s.reg[templates.DIRENT], 8)
    emit_template(s, out, templates.KILL_DIRENT)
    # The directory's inode is logged before its times change.
    s.reg[templates.DIR] = inode_at(s, directory)
    log(s, out, s.reg[templates.DIR], templates.LOG_DATA)
    emit_template(s, out, templates.DIR_TIMES)
    arena[at] = (arena[at] & ((1 << dirs.OWNER) - 1)) | (number(s, row) + 1) << dirs.OWNER
    arena[replaced + state.PLACE], arena[row + state.PLACE] = 0, place
    s.reg[templates.INODE] = inode_at(s, replaced)
    log(s, out, s.reg[templates.INODE], templates.LOG_DATA)
    return True


@subroutine
def rename(s, arena, out, row, parent, replaced):
    """Model rename within the file's directory; `replaced`: row of the file that loses its name, or 0."""
    directory = arena[row + state.PARENT]
    emit_template(s, out, templates.RENAME)
    dirs.miss(s, arena, out, directory)
    dirs.miss(s, arena, out, directory)
    j, k = dirs.find_place(arena, directory, arena[row + state.PLACE], number(s, row))
    if j >= 0:
        dirs.scan(s, arena, out, directory, j, k + 1, 1)
        at = table.get(arena, directory + state.DIRBLOCKS, j) + state.DIR_FIRST + k
        # Mark the old record, so that `remove_name` below finds it and not the new one.
        arena[at] = (arena[at] & ((1 << dirs.OWNER) - 1)) | state.MOVING << dirs.OWNER
    begin(s, out)
    if replaced == 0:
        dirs.add_name(s, arena, out, row, directory)
    elif not take_over(s, arena, out, row, replaced, directory):
        leave_directory(s, arena, out, replaced)
        dirs.add_name(s, arena, out, row, directory)
    if replaced != 0:
        s.reg[templates.INODE] = inode_at(s, replaced)
        lose_link(s, arena, out, replaced)
        s.reg[templates.INODE] = inode_at(s, row)
    log(s, out, s.reg[templates.INODE], templates.LOG_DATA)
    dirs.remove_name(s, arena, out, directory, 0, state.MOVING - 1)
    commit(s, out)


@subroutine
def link(s, arena, out, op, row, parent):
    """Model link: add a name."""
    ready_directory(s, arena, out, parent)
    emit_template(s, out, templates.LINK)
    dirs.miss(s, arena, out, parent)
    begin(s, out)
    log(s, out, s.reg[templates.INODE], templates.LOG_DATA)
    dirs.add_name(s, arena, out, row, parent)
    emit_template(s, out, templates.LINKS)
    arena[row + file_row.LINKS] += 1
    commit(s, out)


@subroutine
def free_from(s, arena, out, row, first):
    """Free data blocks from `resume_at` (initially `first`) on, then their nodes; return False if the buffer is full."""
    while s.resume_at < arena[row + state.BLOCK_COUNT]:
        if not can_free(s, arena) or not reserve_events(s, out, 8):
            return False
        free_leaf(s, arena, out, row)
    lower(s, arena, row, first)
    return True


@subroutine
def evict(s, arena, out, row):
    """Free a file without links (pmfs_evict_inode); return False if the event buffer is full."""
    if not free_from(s, arena, out, row, 0) or not reserve_events(s, out, FILL_EVENTS):
        return False
    s.reg[templates.INODE] = inode_at(s, row)
    emit_template(s, out, templates.EVICT)
    begin(s, out)
    log(s, out, s.reg[templates.INODE], templates.LOG_DATA)
    emit_template(s, out, templates.EVICTED)
    commit(s, out)
    emit_template(s, out, templates.TRUNCATE_DEL)
    dirs.drop_blocks(s, arena, row)
    for word in (state.BLOCKS, state.LEAVES, state.MIDS, state.OLD):
        table.drop(s, arena, row + word)
    for word in (file_row.SIZE, file_row.OPENS, state.PLACE, state.PARENT, file_row.MAPPED, state.ALIGNED):
        arena[row + word] = 0
    arena[row + file_row.STATUS] &= ~file_row.EXISTS
    return True


@subroutine
def truncate(s, arena, out, row, new_size):
    """Model truncate; the inode is on the truncate list meanwhile. Return False if the event buffer is full."""
    old_size, mask = arena[row + file_row.SIZE], (1 << s.shift) - 1
    first = (new_size + mask) >> s.shift
    if s.stage == state.READY:
        emit_template(s, out, templates.TRUNCATE)
        if new_size == old_size and not cuts(s, arena, row, new_size):
            return True
        # After a crash the recovery finishes the truncates on this list.
        emit_template(s, out, templates.TRUNCATE_ADD)
        at = device(s, arena, row, new_size)
        if new_size < old_size and new_size & 4095 and at >= 0:
            s.reg[templates.TO], s.reg[templates.BYTES] = at, templates.BLOCK - (new_size & 4095)
            s.reg[templates.LINES] = (s.reg[templates.BYTES] + 63) >> 6
            s.zeroed_bytes += s.reg[templates.BYTES]
            emit_template(s, out, templates.CUT)
        on_growth(s, arena, out, row, new_size)
        s.stage, s.resume_at = state.COPYING, first
    if cuts(s, arena, row, new_size) and not free_from(s, arena, out, row, first):
        return False
    if not reserve_events(s, out, 16):
        return False
    arena[row + file_row.SIZE] = new_size
    truncated(s, arena, row)
    emit_template(s, out, templates.SHRUNK)
    emit_template(s, out, templates.TRUNCATE_DEL)
    return True


@subroutine
def fallocate(s, arena, out, op, row):
    """Model fallocate: fill holes with zeroed blocks in one transaction; return False if the event buffer is full."""
    last = (op.offset + op.length - 1) >> s.shift
    if s.stage == state.READY:
        emit_template(s, out, templates.OTHER)
        begin(s, out)
        log(s, out, s.reg[templates.INODE], templates.LOG_DATA)
        emit_template(s, out, templates.TIMES)
        if not op.flag & records.KEEP_SIZE:
            on_growth(s, arena, out, row, op.offset + op.length)
        grow(s, arena, out, row, last)
        s.stage, s.resume_at = state.ALLOCATING, op.offset >> s.shift
    while s.resume_at <= last:
        if not reserve_events(s, out, FILL_EVENTS + 3 * 512):
            return False
        fill(s, arena, out, row, last, 1)
    if not reserve_events(s, out, FILL_EVENTS):
        return False
    reserved(s, arena, row, op)
    if not op.flag & records.KEEP_SIZE:
        lengthen(s, arena, out, row, op.offset + op.length)
    commit(s, out)
    return True


@subroutine
def adopt(s, arena, out, row, parent):
    """Create a file that existed before the trace, without events; return False if the buffer or the arena is full."""
    length = 0 if arena[row + file_row.STATUS] & file_row.IS_DIR else max(arena[row + file_row.INITIAL_SIZE] - 1, 0)
    blocks = (length + (1 << s.shift) - 1) >> s.shift
    emitted, journal = s.emitted, s.reg[templates.JOURNAL]
    if s.stage == state.NEW:
        s.replacing = 0
        words = dirs.words_for_name(arena, parent) + (words_for(arena, row, blocks) if blocks > 0 else 0)
        words += 2 * dirs.words_for_name(arena, row)
        if not has_room(s, arena, words) or not reserve_events(
            s, out, 2 * FILL_EVENTS + 4 * arena[parent + state.DIRCOUNT]
        ):
            return False
        arena[row + file_row.STATUS] |= file_row.EXISTS
        arena[row + file_row.LINKS] = 1
        ready_directory(s, arena, out, parent)
        if arena[row + file_row.STATUS] & file_row.IS_DIR:
            ready_directory(s, arena, out, row)
        dirs.add_name(s, arena, out, row, parent)
        if blocks > 0:
            reserve(s, arena, row, blocks)
            grow(s, arena, out, row, blocks - 1)
        s.emitted, s.reg[templates.JOURNAL] = emitted, journal
        s.stage, s.resume_at = state.ADOPTING, 0
    while s.resume_at < blocks:
        if not reserve_events(s, out, FILL_EVENTS):
            return False
        s.fresh_root = 1
        fill(s, arena, out, row, blocks - 1, 0)
        s.emitted, s.reg[templates.JOURNAL] = emitted, journal
    arena[row + file_row.INITIAL_SIZE], arena[row + file_row.SIZE] = 0, max(length, arena[row + file_row.SIZE])
    adopted(s, arena, row)
    return True
