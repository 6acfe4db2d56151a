"""Model NOVA's namespace operations, truncate and fallocate.

Source: NOVA (Linux 5.1 lineage, its port to 5.13) fs/nova/namei.c, dir.c, inode.c, journal.c.
"""

from scmsim.alloc import cpu_lists
from scmsim.core import records
from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.arena import give
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.nova import log, state, templates
from scmsim.fs.nova.data import assign_entry, extent_run, free_nodes, invalidate_entry, locate, reserve_pages
from scmsim.fs.nova.log import (
    add_dots,
    add_pages,
    append_entry,
    append_record,
    begin_transaction,
    entry_fits,
    request_collection,
    words_of,
)
from scmsim.jit import subroutine

ADOPT_PAGES = 256  # a file that existed before the trace is built as if by writes of 1 MiB


@subroutine
def add_dentry(s, arena, out, row, parent):
    """Append the dentry of the file at `row` to its parent's log; whole 4-byte units of the name bypass the cache."""
    name = arena[row + file_row.NAME]
    length = (s.dentry_header + name + 7) & ~7
    s.reg[templates.NAME] = name & ~3 if s.counters else 0
    fields = s.dentry_fields + name - s.reg[templates.NAME] if s.counters else length - 10
    arena[row + state.DENTRY] = append_record(s, (templates.NAMED, length, fields), arena, out, parent)
    arena[row + state.DIRECTORY] = parent
    arena[parent + file_row.STATUS] |= state.HOLDS_NAMES


@subroutine
def inode_of(s, row):
    """Return the device address of the inode of the file at `row`."""
    return log.inode_of(s, (row - s.files) // state.FILE_WORDS)


@subroutine
def drop_name(s, arena, out, row, ref):
    """Invalidate dentry `ref` of the file at `row` in place; if `ref` is 0 (unknown), use the journal page's address."""
    s.reg[templates.OLD], s.reg[templates.OLD_PAGE] = s.reg[templates.JOURNAL_PAGE], s.reg[templates.JOURNAL_PAGE]
    if ref != 0:
        s.reg[templates.OLD_PAGE] = arena[(ref >> 9) + state.PAGE_BLOCK] * state.BLOCK
        s.reg[templates.OLD] = s.reg[templates.OLD_PAGE] + ((ref & 511) << 3)
        arena[(ref >> 9) + state.PAGE_COUNTS] += state.INVALID_ONE
        if arena[row + state.DENTRY] == ref:
            arena[row + state.DENTRY] = 0
    begin_transaction(s, out, s.reg[templates.OLD], templates.DENTRY_RECORDS)
    emit_template(s, out, templates.DROP_NAME)
    emit_template(s, out, templates.RELEASE)


@subroutine
def change_links(s, arena, out, row, by):
    """Record a new link count: by a log entry the first time, later in place under the journal."""
    s.reg[templates.INODE] = inode_of(s, row)
    if arena[row + state.LINK_ENTRY]:
        emit_template(s, out, templates.CHECK)
        begin_transaction(s, out, s.reg[templates.INODE], s.link_bytes >> 3)
        emit_template(s, out, templates.LINK_CHANGE)
        emit_template(s, out, templates.RELEASE)
    else:
        append_record(s, (templates.RECORD, s.link_bytes, s.link_fields), arena, out, row)
        arena[row + state.LINK_ENTRY] = 1
    arena[row + file_row.LINKS] += by


@subroutine
def free_pages(s, arena, out, row, first, invalidate):
    """Unmap and free the file's pages from `resume_at` (initially `first`) on; return False if the buffer is full.

    If `invalidate` is set, also invalidate the pages' log entries, which emits events.
    """
    while s.resume_at < arena[row + state.PAGE_COUNT]:
        if invalidate and not reserve_events(s, out, 16):
            return False
        page = s.resume_at
        ref = table.get(arena, row + state.PAGES, page)
        stop = page
        while stop < arena[row + state.PAGE_COUNT] and arena[arena[row + state.PAGES] + stop] == ref:
            arena[arena[row + state.PAGES] + stop] = 0
            stop += 1
        if ref != 0:
            s.freed += stop - page
            if invalidate:
                invalidate_entry(s, arena, out, ref, page, stop - page)
            else:
                at = words_of(s, ref)
                cpu_lists.release(s, arena, (arena[at + 1] >> 24) + page - (arena[at] >> 24), stop - page)
                s.data_blocks -= stop - page
        s.resume_at = stop
    free_nodes(s, arena, row, first)
    arena[row + state.PAGE_COUNT] = min(first, arena[row + state.PAGE_COUNT])
    arena[row + file_row.MAPPED] -= s.freed
    s.reg[templates.COUNT] = s.freed
    emit_template(s, out, templates.FREED)
    return True


@subroutine
def evict(s, arena, out, row):
    """Free a file without names: its data blocks, then its log page by page; keep a directory's log pages in the arena.

    Dentries of lost children may still refer to a directory's log pages, so those fields are not reused.
    """
    s.reg[templates.INODE] = inode_of(s, row)
    emit_template(s, out, templates.EVICT)
    s.resume_at, s.freed = 0, 0
    free_pages(s, arena, out, row, 0, 0)
    if arena[row + state.LOG_BLOCK] != 0:
        cpu_lists.release(s, arena, arena[row + state.LOG_BLOCK], 1)
        arena[row + state.LOG_BLOCK] = 0
        s.log_pages -= 1
    for i in range(arena[row + state.LOG_COUNT]):
        page = arena[arena[row + state.LOG] + i]
        cpu_lists.release(s, arena, arena[page + state.PAGE_BLOCK], 1)
        if not arena[row + file_row.STATUS] & (file_row.IS_DIR | state.HOLDS_NAMES):
            give(s, arena, page, s.page_order)
    s.log_pages -= arena[row + state.LOG_COUNT]
    table.drop(s, arena, row + state.PAGES)
    table.drop(s, arena, row + state.NODES)
    table.drop(s, arena, row + state.LOG)
    for word in (
        state.LOG_COUNT,
        state.LOG_SIZE,
        state.TAIL_PAGE,
        state.TAIL_BYTES,
        file_row.SIZE,
        state.LINK_ENTRY,
        file_row.OPENS,
    ):
        arena[row + word] = 0
    arena[row + file_row.STATUS] &= ~file_row.EXISTS
    if s.gc_row == row:
        s.gc_row = 0
    return True


@subroutine
def fill_holes(s, arena, out, row, stop, zero, grows):
    """Map every hole of the pages from `resume_at` to `stop` to fresh blocks; return False if buffer or arena is full.

    With `zero` the blocks are zeroed and the entries committed (fallocate); without it the events are discarded. With
    `grows` the entries of pages that have blocks get the file's new size in place. The caller has reserved room in the file's
    table of pages.
    """
    emitted = s.emitted
    s.reg[templates.INODE] = inode_of(s, row)
    while s.resume_at < stop:
        page, count = s.resume_at, 0
        # fallocate requests a whole hole at once (nova_fallocate)
        last = stop if zero else min(stop, page + ADOPT_PAGES)
        while page + count < last and table.get(arena, row + state.PAGES, page + count) == 0:
            count += 1
        if not entry_fits(s, arena, out, row):
            return False
        if count == 0:
            if grows:
                locate(s, arena, table.get(arena, row + state.PAGES, page), page)
                emit_template(s, out, templates.RESIZE)
            s.resume_at += extent_run(s, arena, row, page, stop - page)
            continue
        block = cpu_lists.allocate(s, arena, count)
        count = s.got
        s.data_blocks += count
        if zero:
            s.reg[templates.TO], s.reg[templates.BYTES] = block * state.BLOCK, count * state.BLOCK
            emit_template(s, out, templates.ZEROED)
        s.uncommitted = s.uncommitted if zero else 0
        ref = append_entry(s, arena, out, row, s.entry_bytes)
        at = words_of(s, ref)
        arena[at], arena[at + 1] = page << 24 | count, block << 24
        emit_template(s, out, templates.APPEND)
        if zero:
            emit_template(s, out, templates.COMMIT)
        assign_entry(s, arena, out, row, ref)
        s.resume_at += count
        if not zero:
            s.emitted = emitted
        elif request_collection(s):
            return False
    return True


@subroutine
def adopt(s, arena, out, row):
    """Create a file that existed before the trace, without events; return False if the buffer or the arena is full."""
    length = 0 if arena[row + file_row.STATUS] & file_row.IS_DIR else max(arena[row + file_row.INITIAL_SIZE] - 1, 0)
    pages = (length + state.BLOCK - 1) >> 12
    if s.stage == state.NEW:
        if pages > 0 and not reserve_pages(s, arena, row, 0, pages):
            return False
        arena[row + file_row.STATUS] |= file_row.EXISTS
        arena[row + file_row.LINKS] = 1
        s.stage, s.resume_at = state.ADOPTING, 0
    if not fill_holes(s, arena, out, row, pages, 0, 0):
        return False
    arena[row + file_row.INITIAL_SIZE], arena[row + file_row.SIZE] = 0, length
    return True


@subroutine
def truncate(s, arena, out, row, new_size):
    """Model truncate: commit a setattr entry, zero the cut tail of the last block, and free the pages after it.

    Return False if the event buffer is full.
    """
    first = (new_size + state.BLOCK - 1) >> 12
    if s.stage == state.READY:
        emit_template(s, out, templates.TRUNCATE)
        append_record(s, (templates.RECORD, s.setattr_bytes, s.setattr_fields), arena, out, row)
        emit_template(s, out, templates.COMMIT)
        s.stage, s.resume_at, s.freed = state.AT_WORK, first, 0
        ref = table.get(arena, row + state.PAGES, new_size >> 12)
        if new_size < arena[row + file_row.SIZE] and new_size & 4095 and ref != 0:
            at = words_of(s, ref)
            block = (arena[at + 1] >> 24) + (new_size >> 12) - (arena[at] >> 24)
            s.reg[templates.TO] = block * state.BLOCK + (new_size & 4095)
            s.reg[templates.BYTES] = state.BLOCK - (new_size & 4095)
            emit_template(s, out, templates.TRUNCATE_TAIL)
        if request_collection(s):
            return False
    # Pages past the file's end are freed only together with a page before it (nova_truncate_file_blocks).
    if first < (arena[row + file_row.SIZE] + state.BLOCK - 1) >> 12 and not free_pages(s, arena, out, row, first, 1):
        return False
    arena[row + file_row.SIZE] = new_size
    return True


@subroutine
def commit_names(s, out, row, parent, replaced, removed, source):
    """Commit the log tails of a file and its directory in one transaction, and that of a file that a rename replaced.

    `replaced`: row of the replaced file, or 0. `source`: row of the other directory that a rename takes the name from,
    or 0.

    `removed`: 1 if a file (the replaced one if there is one) loses its last name. Mirrors
    nova_lite_transaction_for_time_and_link and the end of nova_rename, which marks the replaced file last.
    """
    s.reg[templates.INODE] = inode_of(s, row)
    begin_transaction(
        s, out, s.reg[templates.INODE], templates.TAILS + (replaced != 0) + (source != 0) + templates.REMOVAL * removed
    )
    if removed and replaced == 0:
        emit_template(s, out, templates.REMOVE)
    emit_template(s, out, templates.COMMIT)
    if source != 0:
        s.reg[templates.INODE] = inode_of(s, source)
        emit_template(s, out, templates.COMMIT)
    s.reg[templates.INODE] = inode_of(s, parent)
    emit_template(s, out, templates.COMMIT)
    if replaced != 0:
        s.reg[templates.INODE] = inode_of(s, replaced)
        if removed:
            emit_template(s, out, templates.REMOVE)
        emit_template(s, out, templates.COMMIT)
    emit_template(s, out, templates.BARRIER)
    emit_template(s, out, templates.RELEASE)


@subroutine
def rename(s, arena, out, row, parent, replaced):
    """Model rename: record the link change, drop the name of `replaced` (row, or 0), add the new name, drop the old."""
    emit_template(s, out, templates.RENAME)
    old, removed = arena[row + state.DENTRY], 0
    source = arena[row + state.DIRECTORY] if arena[row + state.DIRECTORY] != parent else 0
    change_links(s, arena, out, row, 0)
    if replaced != 0:
        drop_name(s, arena, out, replaced, arena[replaced + state.DENTRY])
    add_dentry(s, arena, out, row, parent)
    drop_name(s, arena, out, row, old)
    if replaced != 0:
        change_links(s, arena, out, replaced, -1)
        removed = 0 + (arena[replaced + file_row.LINKS] <= 0)
    commit_names(s, out, row, parent, replaced, removed, source)


@subroutine
def create(s, arena, out, op, row, parent):
    """Model create and mkdir: write the name, the inode and a directory's "." and ".."; commit.

    The commit sets the tail of the parent's log and the valid bit of the new inode. A directory to which the trace
    added names before creating it already has a log.
    """
    arena[row + file_row.STATUS] |= file_row.EXISTS
    arena[row + file_row.LINKS] = 1
    arena[row + file_row.OPENS] = op.op == records.CREATE
    emit_template(s, out, templates.CREATE if op.op == records.CREATE else templates.MKDIR)
    add_dentry(s, arena, out, row, parent)
    s.reg[templates.INODE] = inode_of(s, row)
    emit_template(s, out, templates.NEW_INODE)
    if op.op == records.MKDIR and arena[row + state.LOG_COUNT] == 0:
        add_pages(s, arena, out, row, 1)
        emit_template(s, out, templates.DOTS)
        add_dots(s, arena, row)
    s.reg[templates.INODE] = inode_of(s, parent)
    begin_transaction(s, out, s.reg[templates.INODE], templates.TAILS)
    emit_template(s, out, templates.COMMIT)
    s.reg[templates.INODE] = inode_of(s, row)
    emit_template(s, out, templates.VALID)
    emit_template(s, out, templates.RELEASE)


@subroutine
def unlink(s, arena, out, op, row, parent):
    """Model unlink and rmdir: drop the name; remove the file with its last name."""
    drop_name(s, arena, out, row, arena[row + state.DENTRY])
    change_links(s, arena, out, row, -1)
    removed = 0 + (arena[row + file_row.LINKS] <= 0 or op.op == records.RMDIR)
    if op.op == records.RMDIR:
        emit_template(s, out, templates.RMDIR)
    else:
        emit_template(s, out, templates.UNLINK if removed else templates.UNLINK_NAME)
    commit_names(s, out, row, parent, 0, removed, 0)


@subroutine
def link(s, arena, out, op, row, parent):
    """Model link: add the name, then record the link change."""
    emit_template(s, out, templates.LINK)
    add_dentry(s, arena, out, row, parent)
    change_links(s, arena, out, row, 1)
    commit_names(s, out, row, parent, 0, 0, 0)
