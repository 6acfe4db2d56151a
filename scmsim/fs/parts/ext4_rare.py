"""ext4's rarer operations: names other than create, truncate, fallocate, sync, timed write-back, checkpoints, first touches.

Directories never shrink.  A file without a name is freed at once, or at its last close if the trace has close operations.
Source: Linux fs/ext4/{namei.c,inode.c,extents.c}, fs/fs-writeback.c.
"""

from scmsim import records as r
from scmsim._jit import kernel, part
from scmsim.alloc.first_fit import release
from scmsim.fs.parts import ext4_recipes as q
from scmsim.fs.parts import ext4_state as e
from scmsim.fs.parts import table
from scmsim.fs.parts.arena import give
from scmsim.fs.parts.emit import play
from scmsim.fs.parts.ext4_blocks import add_blocks, change_blocks, close_window, page_run, take_blocks
from scmsim.fs.parts.ext4_data import flush_pages
from scmsim.fs.parts.ext4_emit import call, extents_fit, has_events, try_commit
from scmsim.fs.parts.ext4_files import (
    change_entry,
    change_inode_use,
    create,
    dirty_inode,
    entry_bytes,
    leaves_needed,
    new_record,
    unqueue_clean,
)
from scmsim.fs.parts.jbd2 import checkpoint, forget, join


@part
def has_words(s, arena, words):
    """Whether `words` more words fit in the arena; if not, asks for them."""
    if s.arena_top + words <= arena.size:
        return True
    s.need_words = words
    return False


@part
def touch(s, arena, row):
    """Record of the file of table row `row`, 0 if the arena is full.

    A file that is touched first gets the blocks that it has from before the trace, without events.
    """
    f = arena[row + e.ROW_RECORD]
    if f:
        return f
    is_dir = arena[row + e.ROW_DIR]
    size = max(arena[row + e.ROW_SIZE], 0)
    pages = 1 if is_dir else (size + e.BLOCK - 1) // e.BLOCK
    if not has_words(s, arena, e.ROOM + 2 * pages):
        return 0
    f = new_record(s, arena, row)
    arena[f + e.IS_DIR], arena[f + e.SIZE] = is_dir, size
    if pages:
        table.reserve(s, arena, f + e.PAGES, pages)
    page = e.NONE
    while page < pages and s.free_blocks + s.windowed > s.reserved:
        page += add_blocks(s, arena, f, page, pages - page, e.NONE)
    if is_dir:
        s.meta_blocks += page
        s.data_blocks -= page
    else:
        arena[f + e.MAPPED] = page
    close_window(s, arena, f)
    return f


@part
def grow_leaves(s, arena):
    """Give the file `s.grow_file` the extent leaves that it needs, as long as there are blocks for them; False: no words."""
    f = s.grow_file
    while f and not extents_fit(s, arena, f) and s.free_blocks + s.windowed > s.reserved:
        leaves = arena[f + e.LEAF_COUNT]
        if not has_words(s, arena, 4 * leaves + e.ROOM):
            return False
        table.reserve(s, arena, f + e.LEAVES, leaves + 1)
        arena[arena[f + e.LEAVES] + leaves] = take_blocks(s, arena, f, arena[f + e.END], e.ONE)
        arena[f + e.LEAF_COUNT] += 1
        s.meta_blocks += 1
        join(s, arena, arena[arena[f + e.LEAVES] + leaves])
        change_group(s, arena, arena[arena[f + e.LEAVES] + leaves])
    s.grow_file = 0
    return True


@part
def change_group(s, arena, block):
    """A block of metadata is taken or freed: its bitmap and group descriptor join."""
    group = block // e.GROUP_BLOCKS
    join(s, arena, s.bitmap_at + group)
    join(s, arena, 1 + group // e.DESCRIPTORS_PER_BLOCK)


@part
def free_pages(s, arena, f, out, page, last):
    """Free the pages [page, last]; takes 2 events."""
    last = min(last, arena[f + e.END] - 1)
    was_dirty = arena[f + e.DIRTY]
    s.reg[q.COUNT], s.reg[q.PAGES] = 0, 0
    at = page
    while at <= last:
        words = arena[f + e.PAGES] + at
        block = arena[words] >> e.BLOCK_SHIFT
        count = 1
        if block:
            while at + count <= last and arena[words + count] >> e.BLOCK_SHIFT == block + count:
                count += 1
            change_blocks(s, arena, f, at, count)
            release(s, arena, block, count)
            s.data_blocks -= count
            s.reg[q.COUNT] += 1
        for i in range(words, words + count):
            if arena[i]:
                arena[f + e.MAPPED] -= 1
                arena[f + e.DIRTY] -= arena[i] & e.IS_DIRTY
                s.reserved -= block == 0
                s.reg[q.PAGES] += arena[i] & e.IS_CACHED != 0
            arena[i] = 0
        at += count
    if was_dirty and arena[f + e.DIRTY] == 0:
        unqueue_clean(s, arena, f)
    if last == arena[f + e.END] - 1:
        arena[f + e.END] = min(arena[f + e.END], page)
    play(s, out, q.FREED)


@part
def free_leaves(s, arena, f):
    """Free the extent leaves of a file without blocks."""
    for i in range(arena[f + e.LEAF_COUNT]):
        block = arena[arena[f + e.LEAVES] + i]
        release(s, arena, block, e.ONE)
        change_group(s, arena, block)
        forget(s, arena, block)
    s.meta_blocks -= arena[f + e.LEAF_COUNT]
    arena[f + e.LEAF_COUNT] = 0
    arena[f + e.EXTENTS] = 0


@part
def destroy(s, arena, row, f, out):
    """The last link of a file or directory is gone (ext4_evict_inode): blocks, inode and record are free; takes 3 events."""
    dirty_inode(s, arena, f, out)
    join(s, arena, e.SUPERBLOCK)
    change_inode_use(s, arena, f)
    if arena[f + e.IS_DIR]:
        for i in range(arena[f + e.PAGES], arena[f + e.PAGES] + arena[f + e.END]):
            forget(s, arena, arena[i] >> e.BLOCK_SHIFT)
        s.meta_blocks -= arena[f + e.END]
        s.data_blocks += arena[f + e.END]
    free_pages(s, arena, f, out, e.NONE, arena[f + e.END])
    free_leaves(s, arena, f)
    close_window(s, arena, f)
    arena[s.free_inodes + s.free_inode_count] = arena[f + e.INODE]
    s.free_inode_count += 1
    table.drop(s, arena, f + e.PAGES)
    table.drop(s, arena, f + e.LEAVES)
    give(s, arena, f, e.RECORD_ORDER)
    arena[row + e.ROW_RECORD], arena[row + e.ROW_SIZE], arena[row + e.ROW_DIR] = 0, -1, 0


@part
def grow_directory(s, arena, d, count):
    """Give directory `d` `count` more blocks; its index block (the first) changes too."""
    for page in range(arena[d + e.END], arena[d + e.END] + count):
        table.reserve(s, arena, d + e.PAGES, page + 1)
        add_blocks(s, arena, d, page, e.ONE, e.NONE)
        change_blocks(s, arena, d, page, e.ONE)
        join(s, arena, arena[arena[d + e.PAGES] + page] >> e.BLOCK_SHIFT)
        join(s, arena, arena[arena[d + e.PAGES]] >> e.BLOCK_SHIFT)
    s.data_blocks -= count
    s.meta_blocks += count


@part
def add_name(s, arena, op, row, d, out):
    """create, mkdir, link: a new entry in directory `d`; False if the device has no room for it."""
    leaves = leaves_needed(arena, row, d)
    if leaves + (op.op == r.MKDIR) > s.free_blocks + s.windowed - s.reserved:
        return False
    if op.op != r.LINK and s.free_inode_count == 0 and s.next_inode > s.inode_count:
        return False
    grow_directory(s, arena, d, leaves)
    if op.op == r.LINK:
        f = arena[row]
        arena[f + e.LINKS] += 1
        arena[d + e.ENTRIES] += entry_bytes(arena, row)
        change_entry(s, arena, row, d, out)
        dirty_inode(s, arena, f, out)
        call(s, arena, out, f, q.LINK)
        return True
    f = create(s, arena, op, row, d, out)
    if op.op == r.MKDIR:
        arena[f + e.IS_DIR], arena[f + e.OPENS] = 1, 0
        grow_directory(s, arena, f, e.ONE)
    call(s, arena, out, f, q.MKDIR if op.op == r.MKDIR else q.CREATE)
    return True


@part
def lose_link(s, arena, row, f, out):
    """One link less; the last one takes the file with it, unless it is open; True if the file is gone."""
    arena[f + e.LINKS] -= 1
    if arena[f + e.LINKS] <= 0 and not (s.closes and arena[f + e.OPENS] > 0):
        destroy(s, arena, row, f, out)
        return True
    dirty_inode(s, arena, f, out)
    if arena[f + e.LINKS] <= 0:
        join(s, arena, e.SUPERBLOCK)
    return False


@part
def rename(s, arena, op, row, f, d, out):
    """rename, over another file if there was one."""
    change_entry(s, arena, row, d, out)
    dirty_inode(s, arena, f, out)
    call(s, arena, out, f, q.RENAME)
    replaced = s.rows + op.file2 * e.ROW_WORDS
    if op.file2 >= 0 and replaced != row:
        if arena[replaced]:
            lose_link(s, arena, replaced, arena[replaced], out)
        arena[replaced + e.ROW_SIZE] = -1


@part
def parent_of(s, arena, op, row):
    """Record of the directory that an operation changes, 0 if the arena is full; the root if the trace names none."""
    root = s.rows + (s.row_count - 1) * e.ROW_WORDS
    parent = root
    if op.op == r.RENAME or op.file2 < 0:
        if arena[row]:
            parent = arena[arena[row] + e.PARENT]
    else:
        parent = s.rows + op.file2 * e.ROW_WORDS
    d = touch(s, arena, parent)
    if d == 0 or arena[d + e.IS_DIR]:
        return d
    if arena[d + e.SIZE] or arena[d + e.END]:  # a file with content: a trace that mixes up its ids
        return arena[root]
    arena[d + e.IS_DIR] = 1
    return d


@part
def change_names(s, arena, op, row, out):
    """create, mkdir, unlink, rmdir, rename, link: 1 done, 0 no room yet, -1 the device is full."""
    d = parent_of(s, arena, op, row)
    if d == 0 or not has_words(s, arena, 4 * (e.ROOM + arena[d + e.END])):
        return 0
    if (op.op == r.CREATE or op.op == r.MKDIR) and arena[row] == 0 and arena[row + e.ROW_SIZE] < 0:
        return 1 if add_name(s, arena, op, row, d, out) else -1
    f = touch(s, arena, row)
    if f == 0:
        return 0
    if op.op == r.LINK:
        return 1 if add_name(s, arena, op, row, d, out) else -1
    s.reg[q.INODE] = q.INODES + arena[f + e.INODE] * e.INODE_OBJECT
    if op.op == r.RENAME:
        rename(s, arena, op, row, f, d, out)
    elif op.op == r.MKDIR:
        play(s, out, q.OPEN)
    else:
        arena[d + e.ENTRIES] = max(arena[d + e.ENTRIES] - entry_bytes(arena, row), 0)
        change_entry(s, arena, row, d, out)
        gone = lose_link(s, arena, row, f, out)
        play(s, out, q.RMDIR if op.op == r.RMDIR else (q.REMOVE if gone else q.UNLINK))
    return 1


@part
def clear_part(s, arena, f, out, at, length):
    """Clear `length` bytes from `at` on, inside one page, if it has content; takes 2 events."""
    page = at >> 12
    if length > 0 and page < arena[f + e.END]:
        word = arena[arena[f + e.PAGES] + page]
        s.reg[q.TO], s.reg[q.BYTES] = s.key_base + ((word >> s.key_shift & s.key_mask) << 12) + (at & 4095), length
        if s.dax and word and not word & e.IS_UNWRITTEN:
            play(s, out, q.CLEAR_PM)
        elif word & e.IS_CACHED:
            play(s, out, q.CLEAR_FRAME)


@part
def truncate(s, arena, op, f, out):
    """truncate: pages behind the new size are freed, the rest of its last page is cleared."""
    size = max(op.offset, 0)
    call(s, arena, out, f, q.TRUNCATE)
    if size < arena[f + e.SIZE]:
        free_pages(s, arena, f, out, (size + 4095) >> 12, arena[f + e.END])
        close_window(s, arena, f)
        clear_part(s, arena, f, out, size, -size & 4095)
        if arena[f + e.END] == 0:
            free_leaves(s, arena, f)
    arena[f + e.SIZE] = size
    join(s, arena, e.SUPERBLOCK)
    dirty_inode(s, arena, f, out)
    arena[f + e.DATA_TID] = s.tid


@part
def fill_holes(s, arena, f, page, last, out):
    """Unwritten blocks for the holes in the pages [page, last]."""
    s.reg[q.COUNT] = 0
    while page <= last:
        if page < arena[f + e.END] and arena[arena[f + e.PAGES] + page]:
            page += 1
            continue
        count = 1
        while page + count <= last and (page + count >= arena[f + e.END] or arena[arena[f + e.PAGES] + page + count] == 0):
            count += 1
        count = add_blocks(s, arena, f, page, count, e.IS_UNWRITTEN)
        arena[f + e.MAPPED] += count
        change_blocks(s, arena, f, page, count)
        s.reg[q.COUNT] += 1
        page += count
    play(s, out, q.FALLOCATED)


@part
def fallocate(s, arena, op, f, out):
    """fallocate: unwritten blocks for the holes of the range, or (punch hole) the range becomes a hole; -1: no blocks left."""
    end = op.offset + op.length
    last = (end - 1) >> 12
    if op.length <= 0 or op.offset < 0:
        play(s, out, q.OTHER)
        return 1
    if op.flag & r.PUNCH_HOLE:
        call(s, arena, out, f, q.FALLOCATE)
        if op.offset >> 12 == last:
            clear_part(s, arena, f, out, op.offset, op.length & 4095)
        else:
            clear_part(s, arena, f, out, op.offset, -op.offset & 4095)
            clear_part(s, arena, f, out, end & ~4095, end & 4095)
        free_pages(s, arena, f, out, (op.offset + 4095) >> 12, (end >> 12) - 1)
    else:
        missing = max(last + 1 - max(arena[f + e.END], op.offset >> 12), 0)
        for page in range(op.offset >> 12, min(last + 1, arena[f + e.END])):
            missing += arena[arena[f + e.PAGES] + page] == 0
        if missing > s.free_blocks + s.windowed - s.reserved:
            return -1
        if not has_words(s, arena, table.words_to_hold(arena, f + e.PAGES, last + 1)):
            return 0
        table.reserve(s, arena, f + e.PAGES, last + 1)
        call(s, arena, out, f, q.FALLOCATE)
        fill_holes(s, arena, f, op.offset >> 12, last, out)
        if not op.flag & r.KEEP_SIZE:
            arena[f + e.SIZE] = max(arena[f + e.SIZE], end)
    dirty_inode(s, arena, f, out)
    arena[f + e.DATA_TID] = s.tid
    return 1


@part
def write_back(s, arena, out, limit):
    """Write back the files that became dirty at `limit` or before; False if that is not done yet."""
    while s.oldest >= 0 and arena[arena[s.oldest] + e.SINCE] <= limit:
        f = arena[s.oldest]
        if s.txn_length > s.txn_limit and not make_room(s, arena, out):
            return False
        if not has_events(s, out, 64 + 2 * min(arena[f + e.DIRTY], e.FLUSH_PAGES)):
            return False
        flush_pages(s, arena, f, out)
        s.grow_file = f
        if not grow_leaves(s, arena):
            return False
    return True


@part
def make_room(s, arena, out):
    """Commit the running transaction, with a checkpoint before if the log has no room for it; False if that does not fit."""
    if try_commit(s, arena, out):
        return True
    if s.want_checkpoint and has_events(s, out, 2 * s.held_blocks + 2):
        checkpoint(s, arena, out)
        s.want_checkpoint = 0
        return try_commit(s, arena, out)
    return False


@part
def settle(s, arena, out):
    """What the kernel's threads did since the last operation: timed write-back and commits; False if that is not done yet."""
    while s.now >= s.next_tick:
        if s.oldest < 0 and s.held_blocks == 0:
            s.next_tick = s.now
        if not write_back(s, arena, out, s.next_tick - s.dirty_expire):
            return False
        if s.held_blocks and s.held_since <= s.next_tick - s.dirty_expire:
            if not has_events(s, out, 2 * s.held_blocks + 2):
                return False
            checkpoint(s, arena, out)
        s.next_tick += e.FLUSHER_PERIOD
    if s.txn_length and (s.now - s.txn_since >= s.commit_interval or s.txn_length > s.txn_limit):
        return make_room(s, arena, out)
    return True


@part
def sync_all(s, arena, out):
    """sync, syncfs: write back all files, commit, then write the logged metadata in place; 0 = not done yet."""
    if not write_back(s, arena, out, s.now):
        return 0
    if s.txn_length and not make_room(s, arena, out):
        return 0
    if not has_events(s, out, 2 * s.held_blocks + 8):
        return 0
    checkpoint(s, arena, out)
    play(s, out, q.SYNC)
    return 1


@part
def step(s, arena, out, op, row):
    """One rare operation: 1 done, 0 no room yet, -1 the device is full."""
    if op.op == r.SYNC:
        return sync_all(s, arena, out)
    if op.file < 0:
        s.ignored += 1
        return 1
    if op.op == r.TRUNCATE or op.op == r.FALLOCATE or op.op == r.CLOSE:
        f = touch(s, arena, row)
        if f == 0:
            return 0
        if arena[f + e.IS_DIR] and op.op != r.CLOSE:
            call(s, arena, out, f, q.OTHER)
        elif op.op == r.FALLOCATE:
            return fallocate(s, arena, op, f, out)
        elif op.op == r.TRUNCATE:
            truncate(s, arena, op, f, out)
        else:  # the last close of a file without a name
            s.closes += 1
            call(s, arena, out, f, q.CLOSE)
            play(s, out, q.ORPHAN)
            destroy(s, arena, row, f, out)
        return 1
    return change_names(s, arena, op, row, out)


@part
def is_rare(s, arena, op, row):
    """Whether this kernel is the one for an operation."""
    code = op.op
    if r.UNLINK <= code <= r.RMDIR or code == r.TRUNCATE or code == r.FALLOCATE or code == r.SYNC:
        return True
    if op.file < 0 or arena[row] == 0:
        return code == r.CREATE and op.file >= 0 and arena[row + e.ROW_SIZE] < 0
    return code == r.CLOSE and arena[arena[row] + e.LINKS] <= 0 and arena[arena[row] + e.OPENS] <= 1


@kernel
def rare(state, arena, ops, i, out):
    """What `frequent` left: leaves, checkpoints, write-back, then operations from `ops[i]` on as long as they are rare."""
    s = state[0]
    s.rare, s.stuck = 0, 1
    if s.grow_file and not grow_leaves(s, arena):
        return i
    if s.want_checkpoint:
        if not has_events(s, out, 2 * s.held_blocks + 2):
            return i
        checkpoint(s, arena, out)
        s.want_checkpoint = 0
    while i < ops.size:
        op = ops[i]
        s.op = i
        s.now = op.time_ns
        if not has_events(s, out, e.ROOM) or not (s.settled or settle(s, arena, out)):
            return i
        s.settled = 1
        row = s.rows + op.file * e.ROW_WORDS
        if not is_rare(s, arena, op, row):
            known = op.file < 0 or op.op > r.SYNC or op.op == r.ULOAD or op.op == r.USTORE
            if not known and touch(s, arena, row) == 0:
                return i
            break
        done = step(s, arena, out, op, row)
        if done == 0:
            return i
        if done < 0:
            s.failed += 1
            if s.first_failed < 0:
                s.first_failed = s.seen
        s.seen += 1
        s.settled = 0
        i += 1
    s.stuck = 0
    return i
