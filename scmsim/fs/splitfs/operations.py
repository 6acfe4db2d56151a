"""SplitFS's operations: what the library does itself, and what it passes on to the kernel's ext4-DAX.

Reads and overwrites go to the mapped file.  An append goes to a staging file (here: the window of blocks that the file
preallocates), with an entry in the append log; fsync and close relink whole blocks into the file, which joins jbd2's
running transaction but commits nothing.  Strict mode stages overwrites too.  Source: utsaslab/SplitFS
splitfs/fileops_nvp.c.  Simplified: bytes of a page that is not whole are copied by the relink from the scratch area;
which block of an exchanged pair a file has afterwards is not followed; logs wrap without a clean-up.
"""

from scmsim.core import records as r
from scmsim.fs.engine import operations
from scmsim.fs.engine.events import play
from scmsim.fs.ext4.jbd2 import join
from scmsim.fs.linux import recipes as q
from scmsim.fs.linux import state as e
from scmsim.fs.linux.blocks import add_blocks, change_blocks, page_run
from scmsim.fs.linux.files import dirty_inode
from scmsim.fs.linux.operations import concerns, extents_fit, frequent, has_events, holes, settled, slice_fits
from scmsim.fs.linux.rare import rare
from scmsim.fs.linux.transfer import add_zeroed, copy_in, read_slice
from scmsim.fs.splitfs import recipes as x
from scmsim.fs.splitfs import state as n
from scmsim.jit import kernel, part
from scmsim.jit.binding import bind


@part
def log_entry(s, out):
    """An entry of 64 bytes in the append log or the operation log, with the fence that covers the data too."""
    s.reg[q.LOG] = s.entries_at + s.entry % s.entries_bytes
    s.entry += x.ENTRY
    play(s, out, x.LOG_ENTRY)


@part
def stage(s, arena, f, page, count):
    """The pages [page, page + count) wait for a relink."""
    if arena[f + n.STAGED_END] == 0:
        arena[f + n.STAGED] = page
    arena[f + n.STAGED] = min(arena[f + n.STAGED], page)
    arena[f + n.STAGED_END] = max(arena[f + n.STAGED_END], page + count)


@part
def take_staging(s, arena, f, out, page, want):
    """Up to `want` staging blocks for the pages from `page` on; those beyond the first staging file were filled before."""
    count = add_blocks(s, arena, f, page, want, 0)
    arena[f + e.MAPPED] += count
    stage(s, arena, f, page, count)
    used = min(s.filled, count * e.BLOCK)
    s.filled -= used
    s.reg[q.FROM] = (arena[arena[f + e.PAGES] + page] >> e.BLOCK_SHIFT) * e.BLOCK + used
    s.reg[q.BYTES] = count * e.BLOCK - used
    play(s, out, x.PREFILL)
    return count


@part
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


@part
def write_part(s, arena, f, op, out):
    """Part of a write, from `s.progress` on: each run of pages is copied by the program."""
    at = op.offset + s.progress
    end = min(op.offset + op.length, (at & ~4095) + e.SLICE_PAGES * e.BLOCK)
    size, most = arena[f + e.SIZE], s.scratch_bytes - 2 * e.BLOCK
    if s.progress == 0:
        play(s, out, q.WRITE)
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
            play(s, out, x.DRAIN)
        if at > size or s.mode == n.STRICT:
            log_entry(s, out)
        arena[f + e.SIZE] = max(size, at)


@part
def relink(s, arena, f, out):
    """Staged blocks become the file's (ext4_dynamic_remap): one handle, its metadata joins the running transaction."""
    page, end = arena[f + n.STAGED], min(arena[f + n.STAGED_END], arena[f + e.END])
    s.reg[q.COUNT] = 0
    while page < end:
        count = page_run(s, arena, f, page, end - 1)
        if arena[arena[f + e.PAGES] + page]:
            s.reg[q.FROM] = arena[arena[f + e.PAGES] + page] >> e.BLOCK_SHIFT << 12
            change_blocks(s, arena, f, page, count)
            s.reg[q.COUNT] += 1
        page += count
    s.reg[q.TO], s.reg[q.FROM] = s.reg[q.FROM], s.scratch_at
    play(s, out, x.RELINK)
    while arena[f + n.TO_COPY] > 0:
        s.reg[q.BYTES] = min(arena[f + n.TO_COPY], e.BLOCK)
        arena[f + n.TO_COPY] -= s.reg[q.BYTES]
        play(s, out, x.COPY_BACK)
    arena[f + n.STAGED], arena[f + n.STAGED_END] = 0, 0
    join(s, arena, s.inode_table_at)  # the staging file's inode
    dirty_inode(s, arena, f, out)
    arena[f + e.DATA_TID] = s.tid
    s.relinks += 1


@part
def flush(s, arena, out, f):
    """fsync: relink what is staged; 1 done, 0 no room yet."""
    if not has_events(s, out, e.ROOM + 3 * (arena[f + n.TO_COPY] // e.BLOCK + 1)):
        return 0
    play(s, out, x.USER_CALL)
    if arena[f + n.STAGED_END]:
        relink(s, arena, f, out)
        if not extents_fit(s, arena, f):
            return 0
    return 1


@part
def transfer(s, arena, out, op, f):
    """read, write: 1 done, 0 not done yet, -1 the device is full."""
    if op.length <= 0 or op.offset < 0:
        play(s, out, x.USER_CALL)
        return 1
    total = op.length
    if op.op == r.READ:
        total = min(total, arena[f + e.SIZE] - op.offset)
    elif s.progress == 0:
        available = s.free_blocks + s.windowed - s.reserved
        if available << 12 < op.length + 8191 and available < holes(arena, f, op):
            return -1
    while s.progress == 0 or s.progress < total:
        if not slice_fits(s, arena, f, op, out):
            return 0
        if op.op == r.READ:
            read_slice(s, arena, f, op, out)
            if s.progress == 0:
                return 1
        else:
            write_part(s, arena, f, op, out)
            if not extents_fit(s, arena, f):
                return 0
    return 1


@part
def prepare(s, arena, out, op, f):
    """The library's part of a call that the kernel does: an entry in the operation log, and staged blocks first."""
    code = op.op
    changes = code == r.CREATE or r.UNLINK <= code <= r.RMDIR
    staged = f != 0 and arena[f + e.IS_DIR] == 0 and arena[f + n.STAGED_END] != 0
    if staged and (code == r.CLOSE or code == r.TRUNCATE or code == r.FALLOCATE) and flush(s, arena, out, f) == 0:
        return 0
    if changes and s.mode >= n.SYNC:
        log_entry(s, out)
    s.prepared = s.passed = 1
    return 0


@part
def step(s, arena, out, op, row):
    """One operation: 1 done, 0 not done (no room yet, or it is the kernel's), -1 the device is full."""
    f = arena[row + e.ROW_RECORD]
    code = op.op
    mine = code == r.WRITE or code == r.READ or code == r.FSYNC or code == r.MSYNC
    if not mine or (f != 0 and arena[f + e.IS_DIR]):
        if s.prepared:
            s.passed = 1
            return 0
        return prepare(s, arena, out, op, f)
    if f == 0:
        s.rare = 1
        return 0
    if code == r.FSYNC or code == r.MSYNC:
        return flush(s, arena, out, f)
    done = transfer(s, arena, out, op, f)
    if done < 1 or code == r.READ or op.length <= 0 or not op.flag & r.SYNCHRONOUS:
        return done
    return flush(s, arena, out, f)


@part
def prepare_call(s, arena, out, op):
    """The turn of the kernel's threads; False: it is not over yet, or the operation is the kernel's."""
    if s.rare or not settled(s, arena, out, op):
        return False
    s.passed = op.op == r.SYNC
    return not s.passed


@part
def perform(s, arena, out, op):
    """Run or resume an operation; returns its outcome."""
    return step(s, arena, out, op, s.rows + op.file * e.ROW_WORDS)


@part
def end(s, out):
    """The next operation is a new one."""
    s.settled = s.progress = s.prepared = 0


_HOOKS = {"prepare": prepare_call, "concerns": concerns, "perform": perform, "end": end}
loop = bind("splitfs", operations, {operations: _HOOKS}).loop


@kernel
def library(state, arena, ops, i, out):
    """Turn operations from `ops[i]` on into events until one does not fit or is the kernel's; returns its index."""
    s = state[0]
    s.rare, s.passed = s.grow_file, 0
    return loop(s, arena, ops, i, out)


def emit(state, arena, ops, i, out):
    """Turn operations from `ops[i]` on into events while they fit; returns the index of the first one not done."""
    flags = state[0]
    flags["emitted"], flags["need_events"], flags["need_words"] = 0, 0, 0
    while i < len(ops):
        i = library(state, arena, ops, i, out)
        if flags["passed"]:
            before, i = i, frequent(state, arena, ops[: i + 1], i, out)
            if i > before:
                flags["prepared"] = 0
                continue
        if not flags["rare"]:
            return i
        rows = ops[: i + 1]
        if not flags["settled"]:  # only the kernel's threads have their turn; the library comes before the operation
            rows = rows.copy()
            rows["op"][i], rows["file"][i] = r.STAT, -1
        before, i = i, rare(state, arena, rows, i, out)
        if i > before:
            flags["prepared"] = 0
        if flags["stuck"]:
            return i
    return i
