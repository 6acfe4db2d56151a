"""NOVA's namespace operations, truncate and fallocate.

Source: NOVA (Linux 5.1 lineage) fs/nova/namei.c, dir.c, inode.c, journal.c.
"""

from scmsim import records as r
from scmsim._jit import part
from scmsim.alloc import first_fit
from scmsim.fs.parts import nova_recipes as q
from scmsim.fs.parts import nova_state as n
from scmsim.fs.parts import table
from scmsim.fs.parts.arena import give, has_room
from scmsim.fs.parts.emit import has_events, play
from scmsim.fs.parts.nova_data import assign_entry, free_old
from scmsim.fs.parts.nova_log import append_entry, append_record, entry_fits, words_of

ADOPT_PAGES = 256  # a file that existed before the trace is taken to have been written in 1 MiB writes


@part
def add_dentry(s, arena, out, row, parent):
    """Append the dentry of the file at `row` to its parent's log; registers INODE and PARENT are set for what follows."""
    length = (s.dentry_header + arena[row + n.NAME] + 7) & ~7
    arena[row + n.DENTRY_PAGE] = append_record(s, arena, out, parent, length)
    s.reg[q.PARENT] = s.reg[q.INODE]
    s.reg[q.INODE] = s.inode_table + (row - s.files) // n.FILE_WORDS * n.INODE_BYTES


@part
def drop_name(s, arena, out, row, parent):
    """Invalidate the dentry of the file at `row` in place, then record the link change in the inode's own log."""
    page = arena[row + n.DENTRY_PAGE]
    s.reg[q.OLD] = q.JOURNAL_PAGE
    if page != 0:
        s.reg[q.OLD] = arena[page + n.PAGE_BLOCK] * n.BLOCK
        arena[page + n.PAGE_COUNTS] += n.INVALID_ONE
        arena[row + n.DENTRY_PAGE] = 0
    play(s, out, q.DROP_NAME)
    s.reg[q.PARENT] = s.inode_table + (parent - s.files) // n.FILE_WORDS * n.INODE_BYTES
    s.reg[q.INODE] = s.inode_table + (row - s.files) // n.FILE_WORDS * n.INODE_BYTES


@part
def change_links(s, arena, out, row, by):
    """Record a new link count: a log entry the first time, later updates are made in place under the journal."""
    if arena[row + n.LINK_ENTRY]:
        play(s, out, q.LINK_CHANGE)
    else:
        append_record(s, arena, out, row, s.link_bytes)
        arena[row + n.LINK_ENTRY] = 1
    arena[row + n.LINKS] += by


@part
def free_pages(s, arena, out, row, first, invalidate):
    """Unmap and free the file's pages from `resume_at` on, which began at `first`; False: no room to go on.

    With `invalidate` their entries are marked in the log; without, there are no events to find room for.
    """
    while s.resume_at < arena[row + n.TOP_PAGE]:
        if invalidate and not has_events(s, out, 16):
            return False
        page = s.resume_at
        ref = table.get(arena, row + n.PAGES, page)
        stop = page
        while stop < arena[row + n.TOP_PAGE] and arena[arena[row + n.PAGES] + stop] == ref:
            arena[arena[row + n.PAGES] + stop] = 0
            stop += 1
        if ref != 0:
            s.freed += stop - page
            if invalidate:
                free_old(s, arena, out, ref, page, stop - page)
            else:
                at = words_of(s, ref)
                first_fit.release(s, arena, (arena[at + 1] >> 24) + page - (arena[at] >> 24), stop - page)
                s.data_blocks -= stop - page
        s.resume_at = stop
    arena[row + n.TOP_PAGE] = min(first, arena[row + n.TOP_PAGE])
    arena[row + n.MAPPED] -= s.freed
    s.reg[q.COUNT] = s.freed
    play(s, out, q.FREED)
    return True


@part
def evict(s, arena, out, row):
    """Free a file without links: data blocks, then the log page by page; a directory's log stays in the arena.

    (Dentries of lost children may still point into a directory's log pages, so those words are not used again.)
    """
    s.reg[q.INODE] = s.inode_table + (row - s.files) // n.FILE_WORDS * n.INODE_BYTES
    play(s, out, q.EVICT)
    s.resume_at, s.freed = 0, 0
    free_pages(s, arena, out, row, q.ZERO, q.ZERO)
    for i in range(arena[row + n.LOG_COUNT]):
        page = arena[arena[row + n.LOG] + i]
        first_fit.release(s, arena, arena[page + n.PAGE_BLOCK], q.ONE)
        if not arena[row + n.STATUS] & n.IS_DIR:
            give(s, arena, page, s.page_order)
    s.log_pages -= arena[row + n.LOG_COUNT]
    table.drop(s, arena, row + n.PAGES)
    table.drop(s, arena, row + n.LOG)
    for word in (n.LOG_COUNT, n.LOG_SIZE, n.TAIL_PAGE, n.TAIL_BYTES, n.SIZE, n.LINK_ENTRY, n.OPENS):
        arena[row + word] = 0
    arena[row + n.STATUS] &= ~n.EXISTS
    if s.gc_row == row:
        s.gc_row = 0


@part
def fill_holes(s, arena, out, row, stop, zero):
    """Map every hole of the pages from `resume_at` to `stop` to fresh blocks; False: no room to go on.

    `zero`: zeroed and committed (fallocate); else silently, the events are taken back.  The table of pages has room.
    """
    emitted = s.emitted
    s.reg[q.INODE] = s.inode_table + (row - s.files) // n.FILE_WORDS * n.INODE_BYTES
    while s.resume_at < stop:
        page, count = s.resume_at, 0
        while page + count < stop and count < ADOPT_PAGES and table.get(arena, row + n.PAGES, page + count) == 0:
            count += 1
        if count == 0:
            s.resume_at += 1
            continue
        if not entry_fits(s, arena, out, row):
            return False
        block = first_fit.allocate(s, arena, count)
        count = s.got
        s.data_blocks += count
        if zero:
            s.reg[q.TO], s.reg[q.BYTES] = block * n.BLOCK, count * n.BLOCK
            play(s, out, q.ZEROED)
        ref = append_entry(s, arena, out, row, s.entry_bytes)
        at = words_of(s, ref)
        arena[at], arena[at + 1] = page << 24 | count, block << 24
        play(s, out, q.APPEND)
        if zero:
            play(s, out, q.COMMIT)
        assign_entry(s, arena, out, row, ref)
        s.resume_at += count
        if not zero:
            s.emitted = emitted
    return True


@part
def adopt(s, arena, out, row):
    """Bring a file that existed before the trace into being, silently; False: no room to go on."""
    length = 0 if arena[row + n.STATUS] & n.IS_DIR else max(arena[row + n.FIRST] - 1, 0)
    pages = (length + n.BLOCK - 1) >> 12
    if s.stage == n.NEW:
        words = table.words_to_hold(arena, row + n.PAGES, pages) if pages > 0 else 0
        if not has_room(s, arena, words):
            return False
        if pages > 0:
            table.reserve(s, arena, row + n.PAGES, pages)
        arena[row + n.STATUS] |= n.EXISTS
        arena[row + n.LINKS] = 1
        s.stage, s.resume_at = n.ADOPTING, 0
    if not fill_holes(s, arena, out, row, pages, q.ZERO):
        return False
    arena[row + n.FIRST], arena[row + n.SIZE] = 0, length
    return True


@part
def truncate(s, arena, out, row, new_size):
    """truncate: setattr entry and commit; the cut tail of the last block is zeroed, pages beyond it are freed.

    False: no room to go on.
    """
    first = (new_size + n.BLOCK - 1) >> 12
    if s.stage == n.READY:
        play(s, out, q.TRUNCATE)
        append_record(s, arena, out, row, s.setattr_bytes)
        play(s, out, q.COMMIT)
        s.stage, s.resume_at, s.freed = n.AT_WORK, first, 0
        ref = table.get(arena, row + n.PAGES, new_size >> 12)
        if new_size < arena[row + n.SIZE] and new_size & 4095 and ref != 0:
            at = words_of(s, ref)
            block = (arena[at + 1] >> 24) + (new_size >> 12) - (arena[at] >> 24)
            s.reg[q.TO] = block * n.BLOCK + (new_size & 4095)
            s.reg[q.BYTES] = n.BLOCK - (new_size & 4095)
            play(s, out, q.TRUNCATE_TAIL)
    if new_size < arena[row + n.SIZE] and not free_pages(s, arena, out, row, first, q.ONE):
        return False
    arena[row + n.SIZE] = new_size
    return True


@part
def leave(s, arena, out, row):
    """Free a file that has neither a name nor, as far as the trace shows closes at all, an open descriptor."""
    if arena[row + n.STATUS] & n.EXISTS and arena[row + n.LINKS] <= 0 and (s.closes == 0 or arena[row + n.OPENS] <= 0):
        evict(s, arena, out, row)


@part
def close(s, arena, out, row):
    """close: a fence; the last one of a file without a name frees it."""
    play(s, out, q.CLOSE)
    s.closes += 1
    arena[row + n.OPENS] = max(arena[row + n.OPENS] - 1, 0)
    leave(s, arena, out, row)


@part
def rename(s, arena, out, row, parent, replaced):
    """rename: the old name goes, the file it replaces (row, or 0) loses its own, the new name comes."""
    drop_name(s, arena, out, row, parent)
    if replaced != 0:
        drop_name(s, arena, out, replaced, parent)
        change_links(s, arena, out, replaced, -q.ONE)
        s.reg[q.INODE] = s.inode_table + (replaced - s.files) // n.FILE_WORDS * n.INODE_BYTES
        play(s, out, q.COMMIT)
    add_dentry(s, arena, out, row, parent)
    change_links(s, arena, out, row, q.ZERO)
    play(s, out, q.RENAME if replaced == 0 else q.RENAME_OVER)
    if replaced != 0:
        leave(s, arena, out, replaced)


@part
def change_names(s, arena, out, op, row, parent):
    """create, mkdir, unlink, rmdir, rename, link."""
    if op.op == r.CREATE or op.op == r.MKDIR:
        arena[row + n.STATUS] |= n.EXISTS
        arena[row + n.LINKS] = 1
        arena[row + n.OPENS] = op.op == r.CREATE
        if op.op == r.MKDIR:  # the new directory's "." and ".."
            append_record(s, arena, out, row, s.dot_bytes)
            append_record(s, arena, out, row, s.dot_bytes)
        add_dentry(s, arena, out, row, parent)
        play(s, out, q.MKDIR if op.op == r.MKDIR else q.CREATE)
    elif op.op == r.RENAME:
        replaced = s.files + op.file2 * n.FILE_WORDS if op.file2 >= 0 and op.file2 != op.file else 0
        if replaced != 0 and not arena[replaced + n.STATUS] & n.EXISTS:
            replaced = 0
        rename(s, arena, out, row, parent, replaced)
    elif op.op == r.LINK:
        add_dentry(s, arena, out, row, parent)
        change_links(s, arena, out, row, q.ONE)
        play(s, out, q.LINK)
    else:
        drop_name(s, arena, out, row, parent)
        change_links(s, arena, out, row, -q.ONE)
        play(s, out, q.RMDIR if op.op == r.RMDIR else q.UNLINK)
        leave(s, arena, out, row)
