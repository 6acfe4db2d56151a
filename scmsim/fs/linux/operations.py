"""ext4's operations one by one, shared by ext4 and ext4-dax.

Two kernels share the work, because compile time follows the amount of code: `frequent` here, `rare` in ext4_rare
(names other than create, truncate, fallocate, sync, timed write-back, checkpoints), which is compiled when a trace
first needs it.
"""

from scmsim.core import records as r
from scmsim.fs.engine import operations
from scmsim.fs.engine.events import play
from scmsim.fs.ext2.inodes import age_inodes
from scmsim.fs.ext2.map import pointers_missing
from scmsim.fs.ext4.jbd2 import charge_joins, commit, join, log_blocks, store_dirty
from scmsim.fs.linux import recipes as q
from scmsim.fs.linux import state as e
from scmsim.fs.linux.blocks import close_window, reserve_pages
from scmsim.fs.linux.files import call, create, leaves_needed
from scmsim.fs.linux.transfer import read_slice, write_slice
from scmsim.fs.linux.writeback import flush_pages
from scmsim.jit import kernel, part
from scmsim.jit.binding import bind


@part
def has_events(s, out, events):
    """Whether `events` more events fit; notes the room needed if even an empty buffer is too small."""
    if s.emitted + events <= out.size:
        return True
    if events > out.size:
        s.need_events = events
    return False


@part
def try_commit(s, arena, out):
    """Commit if the buffer and the log have room for it; asks for a checkpoint if the log has none."""
    if s.log_used and s.log_used + log_blocks(s) + 1 > s.journal_blocks:
        s.want_checkpoint = s.rare = 1
        return False
    if not has_events(s, out, 3 * s.txn_blocks + 16):
        return False
    commit(s, arena, out)
    return True


@part
def settle(s, arena, out):
    """What the kernel's threads did since the last operation, as far as it is a commit; False if it is not done yet."""
    if s.now >= s.next_tick:
        if s.oldest >= 0 or s.held_blocks:
            s.rare = 1
            return False
        s.next_tick = s.now + e.FLUSHER_PERIOD
    if s.txn_length and (s.now - s.txn_since >= s.commit_interval or s.txn_length > s.txn_limit):
        return try_commit(s, arena, out)
    return True


@part
def extents_fit(s, arena, f):
    """False if the file's extents need another leaf, which is left to the other kernel."""
    extents = arena[f + e.EXTENTS]
    if extents > s.inline_extents and extents > arena[f + e.LEAF_COUNT] * e.EXTENTS_PER_LEAF:
        s.grow_file, s.rare = f, 1
        return False
    return True


@part
def sync_metadata(s, arena, out, f):
    """fsync without a journal: the file's dirty pointer blocks and its inode are stored in place; 0 = no room yet.

    ext2 stores an inode that changed and flushes the device.  The driver of ext4 stores an inode that got blocks or a new time,
    with it, once, the directory's block of a new file (ext4_sync_parent), and flushes if there was something to store.
    """
    parent = arena[arena[f + e.PARENT]]
    if not has_events(s, out, 3 * min(s.txn_blocks, arena[f + e.LEAF_COUNT] + arena[parent + e.END] + 1) + 16):
        return 0
    for i in range(arena[f + e.LEAVES], arena[f + e.LEAVES] + arena[f + e.LEAF_COUNT]):
        if arena[i]:
            store_dirty(s, arena, out, arena[i])
    changed = arena[f + e.TID] == s.tid
    if changed:
        arena[f + e.TID] = 0
        inode_block = s.inode_table_at + (arena[f + e.INODE] - 1) // e.INODES_PER_BLOCK
        if not s.by_ext4:  # the inode goes into its block only now
            join(s, arena, inode_block)
        store_dirty(s, arena, out, inode_block)
        if s.by_ext4 and arena[f + e.FRESH]:
            arena[f + e.FRESH] = 0
            for i in range(arena[parent + e.PAGES], arena[parent + e.PAGES] + arena[parent + e.END]):
                store_dirty(s, arena, out, arena[i] >> e.BLOCK_SHIFT)
    play(s, out, q.FSYNC)
    if changed or not s.by_ext4 or (not s.dax and arena[f + e.SIZE]):
        play(s, out, q.BARRIER)
    return 1


@part
def sync_file(s, arena, out, op, f):
    """fsync: write back, then commit the running transaction if the file is part of it, else only flush; 0 = no
    room yet."""
    while arena[f + e.DIRTY]:
        if s.txn_length > s.txn_limit and not try_commit(s, arena, out):
            return 0
        if not has_events(s, out, 64 + 2 * min(arena[f + e.DIRTY], e.FLUSH_PAGES)):
            return 0
        flush_pages(s, arena, f, out)
        if not extents_fit(s, arena, f):
            return 0
    if s.indirect:
        return sync_metadata(s, arena, out, f)
    tid = arena[f + e.DATA_TID] if op.flag & r.DATA_ONLY else arena[f + e.TID]
    if not has_events(s, out, s.txn_blocks + 16):
        return 0
    if tid != s.tid or s.txn_length == 0:
        play(s, out, q.BARRIER)
    elif not try_commit(s, arena, out):
        return 0
    play(s, out, q.FSYNC)
    return 1


@part
def holes(arena, f, op):
    """Pages in the range of an operation that have neither a block nor the promise of one."""
    first = op.offset >> 12
    last = (op.offset + op.length - 1) >> 12
    end = min(last + 1, arena[f + e.END])
    count = last + 1 - max(end, first)
    for at in range(arena[f + e.PAGES] + first, arena[f + e.PAGES] + end):
        count += arena[at] == 0
    return count


@part
def needed(s, arena, f, op):
    """Blocks that a write takes: its holes, and the pointer blocks that are missing for them."""
    count = holes(arena, f, op)
    if count and s.indirect:
        count += pointers_missing(arena, f, op.offset >> 12, (op.offset + op.length - 1) >> 12)
    return count


@part
def slice_fits(s, arena, f, op, out):
    """Whether the next slice of a read or write surely fits; its table of pages is grown."""
    first = (op.offset + s.progress) >> 12
    last = min((op.offset + op.length - 1) >> 12, first + e.SLICE_PAGES - 1)
    if not has_events(s, out, 64 + (24 if op.op == r.WRITE else 6) * (last - first + 1)):
        return False
    return op.op != r.WRITE or reserve_pages(s, arena, f, last)


@part
def transfer(s, arena, out, op, row, f):
    """read, write: 1 done, 0 not done yet, -1 the device is full."""
    s.reg[q.INODE] = q.INODES + arena[f + e.INODE] * e.INODE_OBJECT
    if op.length <= 0 or op.offset < 0:
        play(s, out, q.OTHER)
        return 1
    total = op.length
    if op.op == r.READ:
        total = min(total, arena[f + e.SIZE] - op.offset)
    elif s.progress == 0:
        available = s.free_blocks + s.windowed - s.reserved
        if (available - 4 * s.indirect) << 12 < op.length + 8191 + (op.length >> 9) * s.indirect:
            if available < needed(s, arena, f, op):
                return -1
    while s.progress == 0 or s.progress < total:
        if not slice_fits(s, arena, f, op, out):
            return 0
        if op.op == r.READ:
            read_slice(s, arena, f, op, out)
            if s.progress == 0:
                return 1
        else:
            write_slice(s, arena, row, f, op, out)
            if not extents_fit(s, arena, f):
                return 0
    return 1


@part
def create_known(s, arena, out, op, row):
    """create where the directory is known and has room for the entry; 0: left to the other kernel, -1: no inode
    left."""
    d = arena[s.rows + (op.file2 if op.file2 >= 0 else s.row_count - 1) * e.ROW_WORDS]
    if d == 0 or arena[d + e.IS_DIR] == 0 or arena[row + e.ROW_SIZE] >= 0 or leaves_needed(s, arena, row, d):
        s.rare = 1
        return 0
    age_inodes(s, arena)
    if s.free_inode_count == 0 and s.next_inode > s.inode_count:
        return -1
    if s.arena_top + e.ROOM > arena.size:
        s.need_words = e.ROOM
        return 0
    call(s, arena, out, create(s, arena, op, row, d, out), q.CREATE)
    return 1


@part
def other_call(s, arena, out, code, f):
    """open, close, stat, and the calls that only cost their way into the kernel; 0: left to the other kernel."""
    recipe = q.OTHER
    if code == r.OPEN or code == r.CREATE:
        arena[f + e.OPENS] += 1
        recipe = q.OPEN
    elif code == r.CLOSE:
        if arena[f + e.LINKS] <= 0 and arena[f + e.OPENS] <= 1:
            s.rare = 1
            return 0
        s.closes += 1
        arena[f + e.OPENS] -= 1
        close_window(s, arena, f)
        recipe = q.CLOSE
    elif code == r.STAT:
        recipe = q.STAT
    call(s, arena, out, f, recipe)
    return 1


@part
def step(s, arena, out, op, row):
    """One operation: 1 done, 0 not done (no room yet, or left to the other kernel), -1 the device is full."""
    f = arena[row + e.ROW_RECORD]
    if f == 0:
        if op.op == r.CREATE:
            return create_known(s, arena, out, op, row)
        s.rare = 1
        return 0
    if (op.op == r.WRITE or op.op == r.READ) and not arena[f + e.IS_DIR]:
        done = transfer(s, arena, out, op, row, f)
        if done < 1 or op.op == r.READ or op.length <= 0 or not op.flag & r.SYNCHRONOUS:
            return done
        return sync_file(s, arena, out, op, f)
    if op.op == r.FSYNC or op.op == r.MSYNC:
        return sync_file(s, arena, out, op, f)
    return other_call(s, arena, out, op.op, f)


@part
def settled(s, arena, out, op):
    """Whether the kernel's threads have had their turn before an operation, and there is room for it; False: not yet."""
    s.now = op.time_ns
    if not has_events(s, out, e.ROOM) or not (s.settled or settle(s, arena, out)):
        return False
    s.settled = 1
    return True


@part
def prepare(s, arena, out, op):
    """The turn of the kernel's threads; False: it is not over yet, or the operation is a rare one."""
    if s.rare or not settled(s, arena, out, op):
        return False
    s.rare = r.UNLINK <= op.op <= r.RMDIR or op.op == r.TRUNCATE or op.op == r.FALLOCATE or op.op == r.SYNC
    return not s.rare


@part
def concerns(s, op):
    """Whether an operation enters the file system; others are counted as ignored."""
    ignored = op.op > r.SYNC or op.op == r.ULOAD or op.op == r.USTORE or (op.file < 0 and op.op != r.SYNC)
    s.ignored += ignored
    return not ignored


@part
def perform(s, arena, out, op):
    """Run or resume an operation; returns its outcome."""
    return step(s, arena, out, op, s.rows + op.file * e.ROW_WORDS)


@part
def end(s, out):
    """After an operation: what its joins of the transaction cost."""
    charge_joins(s, out)
    s.settled = s.progress = 0


_HOOKS = {"prepare": prepare, "concerns": concerns, "perform": perform, "end": end}
loop = bind("ext4", operations, {operations: _HOOKS}).loop


@kernel
def frequent(state, arena, ops, i, out):
    """Turn operations from `ops[i]` on into events until one does not fit or is rare; returns its index."""
    s = state[0]
    s.rare = s.grow_file
    return loop(s, arena, ops, i, out)
