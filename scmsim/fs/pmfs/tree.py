"""Model PMFS's B-tree of data blocks: 4 KiB nodes of 512 pointers, height 0 (the root is the only data block) to 3.

Source: PMFS fs/pmfs/inode.c (pmfs_increase_btree_height, recursive_alloc_blocks, recursive_truncate_blocks,
pmfs_decrease_btree_height), balloc.c.
"""

from scmsim.alloc import aligned_fit, first_fit
from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.events import emit_template
from scmsim.fs.pmfs import state, templates
from scmsim.fs.pmfs.journal import log
from scmsim.jit import subroutine

MOST_BLOCKS = 1 << 27  # maximum number of data blocks of a file: three levels of 512
FILL_EVENTS = 96  # maximum number of events of one `fill` without zeroing


@subroutine
def words_for(arena, row, stop):
    """Return how many arena words the file's tables need for the data blocks below `stop`, with the copy-on-write table."""
    words = table.words_to_hold(arena, row + state.BLOCKS, stop) + table.words_to_hold(arena, row + state.OLD, stop)
    words += table.words_to_hold(arena, row + state.LEAVES, (stop >> 9) + 1)
    return words + table.words_to_hold(arena, row + state.MIDS, (stop >> 18) + 1)


@subroutine
def reserve(s, arena, row, stop):
    """Extend the tables to the data blocks below `stop`; the caller has checked that the arena has space."""
    table.reserve(s, arena, row + state.BLOCKS, stop)
    table.reserve(s, arena, row + state.LEAVES, (stop >> 9) + 1)
    table.reserve(s, arena, row + state.MIDS, (stop >> 18) + 1)
    if s.replacing:
        table.reserve(s, arena, row + state.OLD, stop)


@subroutine
def node(arena, row, level, i):
    """Return the device block of node `i` of a level (1: leaves), or 0 if there is none."""
    if level == 3:
        return arena[row + state.TOP]
    return table.get(arena, row + (state.LEAVES if level == 1 else state.MIDS), i)


@subroutine
def set_node(arena, row, level, i, block):
    """Set the device block of node `i` of a level."""
    if level == 3:
        arena[row + state.TOP] = block
    else:
        table.put(arena, row + (state.LEAVES if level == 1 else state.MIDS), i, block)


@subroutine
def take_run(s, arena, want):
    """Allocate a run of at most `want` single blocks; return its first block and set `s.got` to its length."""
    return first_fit.allocate(s, arena, want)


@subroutine
def give_run(s, arena, start, count):
    """Free a run of blocks."""
    first_fit.release(s, arena, start, count)
    aligned_fit.freed(s, start)


@subroutine
def new_node(s, arena, row, level, i):
    """Allocate the block of node `i` of a level; set register NODE to its device offset."""
    block = take_run(s, arena, 1)
    set_node(arena, row, level, i, block)
    s.nodes += 1
    s.reg[templates.NODE] = block * templates.BLOCK


@subroutine
def grow(s, arena, out, row, last):
    """Raise the tree until it reaches data block `last`, and record whether its root is new."""
    height = arena[row + state.HEIGHT]
    s.fresh_root = height == 0 and table.get(arena, row + state.BLOCKS, 0) == 0
    if last >> 9 * height == 0:
        return
    while last >> 9 * height > 0:
        height += 1
        new_node(s, arena, row, height, 0)
        emit_template(s, out, templates.GROW)
    arena[row + state.HEIGHT] = height
    s.largest_height = max(s.largest_height, height)
    # The inode stores the new root and height.
    emit_template(s, out, templates.ROOT)


@subroutine
def hang(s, arena, out, row, level, i, last):
    """Create node `i` of a level below the root if it is missing; `last` is the last node that the operation needs."""
    if node(arena, row, level, i) != 0:
        return
    slot = node(arena, row, level + 1, i >> 9) * templates.BLOCK + ((i & 511) << 3)
    key = (i >> 9) + 1
    s.reg[templates.DIRTY] = 0
    # Log a node's slots once per transaction; a node that the transaction created needs no undo.
    if s.saved[level + 1] != key:
        span = (min(last, i | 511) - i + 1) << 3
        if s.saved[level + 1] != -key and not s.fresh_root:
            log(s, out, slot, span)
        s.reg[templates.DIRTY] = span
        s.saved[level + 1] = key
    new_node(s, arena, row, level, i)
    s.reg[templates.UPPER_AT] = slot
    emit_template(s, out, templates.NODE_NEW)
    s.saved[level] = -(i + 1)


@subroutine
def put_block(s, arena, row, i, block):
    """Point data block `i` to device block `block`, and keep the block that it replaces for `close_write`."""
    before = table.get(arena, row + state.BLOCKS, i)
    if before != 0:
        table.put(arena, row + state.OLD, i, before)
    else:
        arena[row + file_row.MAPPED] += 1
    table.put(arena, row + state.BLOCKS, i, block)


@subroutine
def take_blocks(s, arena, row, at, want, is_dir):
    """Allocate device blocks for up to `want` data blocks from `at` on; return how many data blocks got one.

    Sets register NODE to the device offset of the first.
    """
    unit = 1 if is_dir else s.unit
    if unit == 1:
        block = take_run(s, arena, want)
        count = s.got
    else:
        block = aligned_fit.allocate(s, arena, unit)
        count = 1
    for k in range(count):
        put_block(s, arena, row, at + k, block + k * unit)
    if is_dir:
        s.dir_blocks += count
    else:
        s.data_blocks += count * unit
    s.reg[templates.NODE] = block * templates.BLOCK
    return count


@subroutine
def filled_whole(arena, row):
    """Handle the allocation and clearing of 512 blocks of a file at once; PMFS does nothing."""


@subroutine
def counted(fresh, calls):
    """Return how often the inode's block count is stored for `fresh` blocks from `calls` calls: PMFS stores it per block."""
    return fresh


@subroutine
def pointed(s, taken, replaced):
    """Return how many pointers of a leaf are stored for `taken` blocks, `replaced` of which replace others."""
    return taken


@subroutine
def wanted(s, arena, row, at, stop):
    """Return how many blocks one call allocates from data block `at` on, up to `stop`; 0 if block `at` is kept."""
    want = 0
    while at + want <= stop and (s.replacing or table.get(arena, row + state.BLOCKS, at + want) == 0):
        want += 1
    return want


@subroutine
def fill(s, arena, out, row, last, zero):
    """Allocate the data blocks from `resume_at` to the end of its leaf, at most to `last`.

    Existing blocks stay unless `replacing`.
    """
    first = s.resume_at
    height, stop = arena[row + state.HEIGHT], min(last, first | 511)
    if height == 3:
        hang(s, arena, out, row, 2, first >> 18, last >> 18)
    if height >= 2:
        hang(s, arena, out, row, 1, first >> 9, last >> 9)
    is_dir = arena[row + file_row.STATUS] & file_row.IS_DIR
    leaf = node(arena, row, 1, first >> 9) * templates.BLOCK + ((first & 511) << 3)
    fresh = s.fresh_root or s.saved[1] == -((first >> 9) + 1)
    taken, replaced, calls, runs, at = 0, 0, 0, 0, first
    while at <= stop:
        want = wanted(s, arena, row, at, stop)
        if want == 0:
            at += 1
            continue
        # Save the leaf's slots before the first change; a leaf that the transaction created needs no undo.
        if taken == 0 and height > 0 and not fresh:
            log(s, out, leaf + ((at - first) << 3), (stop - at + 1) << 3)
        mapped = arena[row + file_row.MAPPED]
        count = take_blocks(s, arena, row, at, want, is_dir)
        filled = arena[row + file_row.MAPPED] - mapped
        replaced += count - filled
        calls += 1 + (s.replacing and count > filled)
        runs += 1
        if zero and want == 512 and not is_dir:
            filled_whole(arena, row)
        if zero:
            s.reg[templates.TO], s.reg[templates.BYTES] = s.reg[templates.NODE], count << s.shift
            s.reg[templates.LINES] = s.reg[templates.BYTES] >> 6
            s.zeroed_bytes += s.reg[templates.BYTES]
            emit_template(s, out, templates.ZEROED)
        taken += count
        at += count
    s.resume_at = stop + 1
    arena[row + state.BLOCK_COUNT] = max(arena[row + state.BLOCK_COUNT], stop + 1)
    if taken == 0:
        return
    tree = height > 0
    s.reg[templates.LEAF_AT], s.reg[templates.SLOTS] = leaf, (stop - first + 1 << 3) * tree
    s.reg[templates.UPPER] = (pointed(s, taken, replaced) << 3) * tree
    s.reg[templates.DIRTY] = (stop - first + 1 << 3) * (tree and fresh)
    s.reg[templates.COUNT] = runs
    s.reg[templates.BLOCK_BYTES], s.reg[templates.NEW_BLOCKS] = counted(taken - replaced, calls) << 3, taken
    emit_template(s, out, templates.FILL)
    # In a tree of height 0 the root pointer in the inode points to the data block itself.
    if height == 0:
        emit_template(s, out, templates.ROOT)


@subroutine
def pages_of(s, arena, row, i):
    """Return how many device blocks to free for data block `i`."""
    return s.unit


@subroutine
def release(s, arena, row, i, block):
    """Free the device blocks of data block `i`."""
    if arena[row + file_row.STATUS] & file_row.IS_DIR:
        give_run(s, arena, block, 1)
        s.dir_blocks -= 1
    else:
        pages = pages_of(s, arena, row, i)
        give_run(s, arena, block, pages)
        s.data_blocks -= pages


@subroutine
def free_slots(s, arena, row, field, first, stop):
    """Free the blocks at [first, stop) of a table of the file's row; return (number of blocks, number of runs).

    `field` is BLOCKS, with entries of one leaf, or OLD for the blocks that a copy-on-write replaced.
    """
    count, runs, before = 0, 0, 0
    for i in range(first, stop):
        block = table.get(arena, row + field, i)
        if block != 0:
            release(s, arena, row, i, block)
            table.put(arena, row + field, i, 0)
            count += 1
            runs += block != before + s.unit
            before = block
    return count, runs


@subroutine
def drop_node(s, arena, row, level, i):
    """Free node `i` of a level if it exists."""
    block = node(arena, row, level, i)
    if block != 0:
        give_run(s, arena, block, 1)
        set_node(arena, row, level, i, 0)
        s.nodes -= 1


@subroutine
def is_empty(arena, row, level, i):
    """Return whether node `i` of a level has no pointer."""
    for k in range(i << 9, (i + 1) << 9):
        below = table.get(arena, row + state.BLOCKS, k) if level == 1 else node(arena, row, level - 1, k)
        if below != 0:
            return False
    return True


@subroutine
def drop_empty(s, arena, row, last):
    """Free the leaf of data block `last` and the nodes above it, unless they still have a pointer.

    `last` is the last data block of the leaf that was just freed.  recursive_truncate_blocks frees a
    node as soon as all its parts are done.
    """
    height = arena[row + state.HEIGHT]
    for level in range(1, height + 1):
        shift = 9 * level
        if level > 1 and (last + 1) & ((1 << shift) - 1) and last + 1 < arena[row + state.BLOCK_COUNT]:
            return  # parts of this node are still to be freed
        if node(arena, row, level, last >> shift) != 0 and is_empty(arena, row, level, last >> shift):
            drop_node(s, arena, row, level, last >> shift)
    if height > 0 and node(arena, row, height, 0) == 0:
        arena[row + state.HEIGHT] = 0


@subroutine
def free_leaf(s, arena, out, row):
    """Free the data blocks from `resume_at` to the end of its leaf, and the nodes that have no pointer left."""
    first, stop = s.resume_at, min(arena[row + state.BLOCK_COUNT], (s.resume_at | 511) + 1)
    count, runs = free_slots(s, arena, row, state.BLOCKS, first, stop)
    arena[row + file_row.MAPPED] -= count
    leaf = node(arena, row, 1, first >> 9)
    s.reg[templates.LEAF_AT] = leaf * templates.BLOCK + ((first & 511) << 3)
    # Slots are loaded up to the end of the node.
    s.reg[templates.SLOTS], s.reg[templates.COUNT] = (512 - (first & 511) << 3) * (leaf != 0), count
    s.reg[templates.PAGES] = runs
    emit_template(s, out, templates.FREED)
    drop_empty(s, arena, row, stop - 1)
    s.resume_at = stop


@subroutine
def lower(s, arena, row, stop):
    """Free the nodes and the top levels of the tree that the data blocks below `stop` do not need."""
    blocks = arena[row + state.BLOCK_COUNT]
    for i in range((stop + 511) >> 9, ((blocks + 511) >> 9) + 1):
        drop_node(s, arena, row, 1, i)
    for i in range((stop + (1 << 18) - 1) >> 18, ((blocks + (1 << 18) - 1) >> 18) + 1):
        drop_node(s, arena, row, 2, i)
    height = arena[row + state.HEIGHT]
    while height > 0 and max(stop - 1, 0) >> 9 * (height - 1) == 0:
        drop_node(s, arena, row, height, 0)
        height -= 1
    arena[row + state.HEIGHT] = height
    arena[row + state.BLOCK_COUNT] = min(blocks, stop)
