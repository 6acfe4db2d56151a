"""SplitFS's operations: what the library does itself, and what it passes on to the kernel's ext4-DAX.

Reads and overwrites go to the mapped file.  An append goes to a staging file (here: the window of blocks that the file
preallocates), with an entry in the append log; fsync and close relink whole blocks into the file, which joins jbd2's
running transaction but commits nothing.  Strict mode stages overwrites too.  Source: utsaslab/SplitFS
splitfs/fileops_nvp.c.  Simplified: bytes of a page that is not whole are copied by the relink from the scratch area;
which block of an exchanged pair a file has afterwards is not followed; logs wrap without a clean-up.
"""

from scmsim.core import records as r
from scmsim.fs.engine.events import emit_recipe, has_events
from scmsim.fs.engine.operations import DONE, NO_ROOM
from scmsim.fs.ext4.extents import change_leaf, fits
from scmsim.fs.ext4.jbd2 import join
from scmsim.fs.linux import recipes as q
from scmsim.fs.linux import state as e
from scmsim.fs.linux.blocks import add_blocks, change_groups, page_run
from scmsim.fs.linux.calls import data_call
from scmsim.fs.linux.files import dirty_inode
from scmsim.fs.linux.operations import settle
from scmsim.fs.linux.transfer import add_zeroed, copy_in
from scmsim.fs.splitfs import recipes as x
from scmsim.fs.splitfs import state as n
from scmsim.jit import subroutine


@subroutine
def log_entry(s, out):
    """An entry of 64 bytes in the append log or the operation log, with the fence that covers the data too."""
    s.reg[q.LOG] = s.entries_at + s.entry % s.entries_bytes
    s.entry += x.ENTRY
    emit_recipe(s, out, x.LOG_ENTRY)


@subroutine
def stage(s, arena, f, page, count):
    """The pages [page, page + count) wait for a relink."""
    if arena[f + n.STAGED_END] == 0:
        arena[f + n.STAGED] = page
    arena[f + n.STAGED] = min(arena[f + n.STAGED], page)
    arena[f + n.STAGED_END] = max(arena[f + n.STAGED_END], page + count)


@subroutine
def take_staging(s, arena, f, out, page, want):
    """Up to `want` staging blocks for the pages from `page` on; those beyond the first staging file were filled before."""
    count = add_blocks(s, arena, f, page, want, 0)
    arena[f + e.MAPPED] += count
    stage(s, arena, f, page, count)
    used = min(s.filled, count * e.BLOCK)
    s.filled -= used
    s.reg[q.FROM] = (arena[arena[f + e.PAGES] + page] >> e.BLOCK_SHIFT) * e.BLOCK + used
    s.reg[q.BYTES] = count * e.BLOCK - used
    emit_recipe(s, out, x.PREFILL)
    return count


@subroutine
def to_scratch(s, arena, f, page, at, length):
    """Where data that must not go in place is written: the scratch area; what is not whole pages is copied later."""
    if s.scratch + length + e.BLOCK > s.scratch_bytes:
        s.scratch = 0
    target = s.scratch_at + s.scratch + (at & 4095)
    s.scratch += (length + 2 * e.BLOCK - 1) & -e.BLOCK
    whole = max(((at + length) >> 12) - ((at + 4095) >> 12), 0)
    stage(s, arena, f, page, ((at + length - 1) >> 12) - page + 1)
    arena[f + n.TO_COPY] += length - whole * e.BLOCK
    return target


@subroutine
def write_part(s, arena, row, f, op, out):
    """Part of a write, from `s.progress` on: each run of pages is copied by the program."""
    at = op.offset + s.progress
    end = min(op.offset + op.length, (at & ~4095) + e.SLICE_PAGES * e.BLOCK)
    size, most = arena[f + e.SIZE], s.scratch_bytes - 2 * e.BLOCK
    if s.progress == 0:
        emit_recipe(s, out, q.WRITE)
    while at < end:
        page = at >> 12
        count = page_run(s, arena, f, page, (end - 1) >> 12)
        word = arena[arena[f + e.PAGES] + page]
        is_new = word == 0 or word & e.IS_UNWRITTEN != 0
        if word == 0:
            count = take_staging(s, arena, f, out, page, count)
        elif is_new:  # the page fault zeroes blocks that were not written
            count = add_zeroed(s, arena, f, out, page, count)
        stop = min(end, (page + count) << 12)
        target = ((arena[arena[f + e.PAGES] + page] >> e.BLOCK_SHIFT) << 12) + (at & 4095)
        aside = not is_new and (at >= size or s.mode == n.STRICT)
        aside = aside and not (arena[f + n.STAGED] <= page and page + count <= arena[f + n.STAGED_END])
        if aside:
            stop = min(stop, at + most)
            target = to_scratch(s, arena, f, page, at, stop - at)
        copy_in(s, out, target, (op.thread << 36) + op.buffer + at - op.offset, stop - at)
        at = stop
    s.progress = at - op.offset
    if s.progress == op.length:
        if op.offset < size:
            emit_recipe(s, out, x.DRAIN)
        if at > size or s.mode == n.STRICT:
            log_entry(s, out)
        arena[f + e.SIZE] = max(size, at)


@subroutine
def relink(s, arena, f, out):
    """Staged blocks become the file's (ext4_dynamic_remap): one handle, its metadata joins the running transaction."""
    page, end = arena[f + n.STAGED], min(arena[f + n.STAGED_END], arena[f + e.END])
    s.reg[q.COUNT] = 0
    while page < end:
        count = page_run(s, arena, f, page, end - 1)
        if arena[arena[f + e.PAGES] + page]:
            block = arena[arena[f + e.PAGES] + page] >> e.BLOCK_SHIFT
            s.reg[q.FROM] = block << 12
            change_groups(s, arena, block, count)
            change_leaf(s, arena, f, page, count)
            s.reg[q.COUNT] += 1
        page += count
    s.reg[q.TO], s.reg[q.FROM] = s.reg[q.FROM], s.scratch_at
    emit_recipe(s, out, x.RELINK)
    while arena[f + n.TO_COPY] > 0:
        s.reg[q.BYTES] = min(arena[f + n.TO_COPY], e.BLOCK)
        arena[f + n.TO_COPY] -= s.reg[q.BYTES]
        emit_recipe(s, out, x.COPY_BACK)
    arena[f + n.STAGED], arena[f + n.STAGED_END] = 0, 0
    join(s, arena, s.inode_table_at)  # the staging file's inode
    dirty_inode(s, arena, f, out)
    arena[f + e.DATA_TID] = s.tid
    s.relinks += 1


@subroutine
def flush(s, arena, out, op, f):
    """fsync: relink what is staged; returns its outcome."""
    if not has_events(s, out, e.ROOM + 3 * (arena[f + n.TO_COPY] // e.BLOCK + 1)):
        return NO_ROOM
    emit_recipe(s, out, x.USER_CALL)
    if arena[f + n.STAGED_END]:
        relink(s, arena, f, out)
        if not fits(s, arena, f):
            return NO_ROOM
    return DONE


@subroutine
def prepare(s, arena, out, op, f):
    """The library's part of a call that the kernel does: an entry in the operation log, and staged blocks first."""
    code = op.op
    changes = code == r.CREATE or r.UNLINK <= code <= r.RMDIR
    staged = f != 0 and arena[f + e.IS_DIR] == 0 and arena[f + n.STAGED_END] != 0
    if staged and (code == r.CLOSE or code == r.TRUNCATE or code == r.FALLOCATE):
        if flush(s, arena, out, op, f) == NO_ROOM:
            return NO_ROOM
    if changes and s.mode >= n.SYNC:
        log_entry(s, out)
    s.prepared = s.passed = 1
    return NO_ROOM


@subroutine
def step(s, arena, out, op, row):
    """Run or resume an operation of the library; the kernel's are left to it (`s.passed`)."""
    f = arena[row + e.ROW_RECORD]
    code = op.op
    mine = code == r.WRITE or code == r.READ or code == r.FSYNC or code == r.MSYNC
    if not mine or (f != 0 and arena[f + e.IS_DIR]):
        if s.prepared:
            s.passed = 1
            return NO_ROOM
        return prepare(s, arena, out, op, f)
    if f == 0:
        s.rare = 1
        return NO_ROOM
    return data_call(s, arena, out, op, row)


@subroutine
def accepts(s, arena, op):
    """Whether the library takes part in an operation."""
    s.passed = op.op == r.SYNC
    return not s.passed


@subroutine
def end(s, out):
    """The next operation is a new one."""
    s.settled = s.progress = s.prepared = 0


CALLS = {"settle": settle, "accepts": accepts, "step": step, "sync_file": flush}
TRANSFER = {"NOTHING": x.USER_CALL, "write_slice": write_part}
