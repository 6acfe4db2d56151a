"""NOVA's namespace operations, truncate and fallocate.

Source: NOVA (Linux 5.1 lineage) fs/nova/namei.c, dir.c, inode.c, journal.c.
"""

from scmsim import records as r
from scmsim._jit import part
from scmsim.alloc import first_fit
from scmsim.fs.parts import nova_recipes as q
from scmsim.fs.parts import nova_state as n
from scmsim.fs.parts import table
from scmsim.fs.parts.arena import give
from scmsim.fs.parts.emit import play
from scmsim.fs.parts.nova_data import assign_entry, free_old
from scmsim.fs.parts.nova_log import append_entry, append_record

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
        append_record(s, arena, out, row, q.LINK_BYTES)
        arena[row + n.LINK_ENTRY] = 1
    arena[row + n.LINKS] += by


@part
def free_pages(s, arena, out, row, first, invalidate):
    """Unmap and free the file's pages from `first` on; with `invalidate` their entries are marked in the log."""
    freed, page = 0, first
    while page < arena[row + n.TOP_PAGE]:
        ref = table.get(arena, row + n.PAGES, page)
        stop = page
        while stop < arena[row + n.TOP_PAGE] and arena[arena[row + n.PAGES] + stop] == ref:
            arena[arena[row + n.PAGES] + stop] = 0
            stop += 1
        if ref != 0:
            freed += stop - page
            if invalidate:
                free_old(s, arena, out, ref, page, stop - page)
            else:
                at = (ref >> 8) + n.PAGE_ENTRIES + 2 * (ref & 255)
                first_fit.release(s, arena, (arena[at + 1] >> 24) + page - (arena[at] >> 24), stop - page)
                s.data_blocks -= stop - page
        page = stop
    arena[row + n.TOP_PAGE] = min(first, arena[row + n.TOP_PAGE])
    s.reg[q.COUNT] = freed
    play(s, out, q.FREED)


@part
def evict(s, arena, out, row):
    """Free a file without links: data blocks, then the log page by page; a directory's log stays in the arena.

    (Dentries of lost children may still point into a directory's log pages, so those words are not used again.)
    """
    s.reg[q.INODE] = s.inode_table + (row - s.files) // n.FILE_WORDS * n.INODE_BYTES
    play(s, out, q.EVICT)
    free_pages(s, arena, out, row, q.ZERO, q.ZERO)
    for i in range(arena[row + n.LOG_COUNT]):
        page = arena[arena[row + n.LOG] + i]
        first_fit.release(s, arena, arena[page + n.PAGE_BLOCK], q.ONE)
        if not arena[row + n.STATUS] & n.IS_DIR:
            give(s, arena, page, s.page_order)
    s.log_pages -= arena[row + n.LOG_COUNT]
    table.drop(s, arena, row + n.PAGES)
    table.drop(s, arena, row + n.LOG)
    for word in (n.LOG_COUNT, n.LOG_SIZE, n.TAIL_PAGE, n.TAIL_BYTES, n.SIZE, n.LINK_ENTRY):
        arena[row + word] = 0
    arena[row + n.STATUS] &= ~n.EXISTS


@part
def fill_holes(s, arena, out, row, span, zero):
    """Map every hole of the pages [span[0], span[1]) to fresh blocks.

    `zero`: zeroed and committed (fallocate); else silently, the events are taken back.
    """
    page, stop = span
    emitted = s.emitted
    s.reg[q.INODE] = s.inode_table + (row - s.files) // n.FILE_WORDS * n.INODE_BYTES
    table.reserve(s, arena, row + n.PAGES, stop)
    while page < stop:
        count = 0
        while page + count < stop and count < ADOPT_PAGES and table.get(arena, row + n.PAGES, page + count) == 0:
            count += 1
        if count == 0:
            page += 1
            continue
        block = first_fit.allocate(s, arena, count)
        count = s.got
        s.data_blocks += count
        if zero:
            s.reg[q.TO], s.reg[q.BYTES] = block * n.BLOCK, count * n.BLOCK
            play(s, out, q.ZEROED)
        ref = append_entry(s, arena, out, row, s.entry_bytes)
        at = (ref >> 8) + n.PAGE_ENTRIES + 2 * (ref & 255)
        arena[at], arena[at + 1] = page << 24 | count, block << 24
        play(s, out, q.APPEND)
        if zero:
            play(s, out, q.COMMIT)
        assign_entry(s, arena, out, row, ref)
        page += count
        if not zero:
            s.emitted = emitted


@part
def adopt(s, arena, out, row):
    """Bring a file that existed before the trace into being, silently."""
    length = max(arena[row + n.FIRST] - 1, 0)
    arena[row + n.STATUS] |= n.EXISTS
    arena[row + n.LINKS] = 1
    arena[row + n.FIRST] = 0
    if length > 0 and not arena[row + n.STATUS] & n.IS_DIR:
        fill_holes(s, arena, out, row, (q.ZERO, (length + n.BLOCK - 1) >> 12), q.ZERO)
        arena[row + n.SIZE] = length


@part
def truncate(s, arena, out, row, new_size):
    """truncate: setattr entry and commit; the cut tail of the last block is zeroed, pages beyond it are freed."""
    play(s, out, q.TRUNCATE)
    append_record(s, arena, out, row, q.SETATTR_BYTES)
    play(s, out, q.COMMIT)
    if new_size < arena[row + n.SIZE]:
        ref = table.get(arena, row + n.PAGES, new_size >> 12)
        if new_size & 4095 and ref != 0:
            at = (ref >> 8) + n.PAGE_ENTRIES + 2 * (ref & 255)
            block = (arena[at + 1] >> 24) + (new_size >> 12) - (arena[at] >> 24)
            s.reg[q.TO] = block * n.BLOCK + (new_size & 4095)
            s.reg[q.BYTES] = n.BLOCK - (new_size & 4095)
            play(s, out, q.TRUNCATE_TAIL)
        free_pages(s, arena, out, row, (new_size + n.BLOCK - 1) >> 12, q.ONE)
    arena[row + n.SIZE] = new_size


@part
def change_names(s, arena, out, op, row, parent):
    """create, mkdir, unlink, rmdir, rename, link."""
    if op.op == r.CREATE or op.op == r.MKDIR:
        arena[row + n.STATUS] |= n.EXISTS
        arena[row + n.LINKS] = 1
        if op.op == r.MKDIR:  # the new directory's "." and ".."
            append_record(s, arena, out, row, q.DOT_BYTES)
            append_record(s, arena, out, row, q.DOT_BYTES)
        add_dentry(s, arena, out, row, parent)
        play(s, out, q.MKDIR if op.op == r.MKDIR else q.CREATE)
        return
    if op.op != r.LINK:
        drop_name(s, arena, out, row, parent)
    if op.op == r.LINK or op.op == r.RENAME:
        add_dentry(s, arena, out, row, parent)
        change_links(s, arena, out, row, q.ONE if op.op == r.LINK else q.ZERO)
        play(s, out, q.LINK if op.op == r.LINK else q.RENAME)
        gone = s.files + op.file2 * n.FILE_WORDS if op.op == r.RENAME and op.file2 >= 0 and op.file2 != op.file else 0
        if gone != 0:
            arena[gone + n.LINKS] -= 1
    else:
        change_links(s, arena, out, row, -q.ONE)
        play(s, out, q.RMDIR if op.op == r.RMDIR else q.UNLINK)
        gone = row
    if gone != 0 and arena[gone + n.STATUS] & n.EXISTS and arena[gone + n.LINKS] <= 0:
        evict(s, arena, out, gone)
