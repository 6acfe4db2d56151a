"""Directories of XFS: their blocks, and which of their bytes are logged when a name changes.

A growing directory has four forms: all names in the inode; one block with the names and their hashes; data blocks with one leaf
block of hashes; data blocks with several leaves under a node, and a block that records free space.  A name goes into the first data
block with room, or, in the form with a node, into the last one (since Linux 5.4).  A data block without names is freed.
Source: Linux 5.13 fs/xfs/libxfs/xfs_dir2{,_sf,_block,_leaf,_node,_data}.c.
Simplified: hashes are in the order of creation, as for names with a counter, so a full leaf is split in half, and its lower half
stays unchanged.  One leaf is freed when the leaves are a quarter full.  A directory returns to the form in the inode when its names
fit there, and never to another smaller form.
"""

from scmsim.alloc.xfs_free_space import release
from scmsim.alloc.xfs_groups import allocate
from scmsim.fs.engine import table
from scmsim.fs.engine.events import emit_template
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.xfs import state as n
from scmsim.fs.xfs import templates
from scmsim.fs.xfs.inodes import inode_block
from scmsim.fs.xfs.log import add_bytes, drop_buffer, log_buffer, log_fork, log_free_space, most_inline, new_buffer
from scmsim.jit import subroutine

LAST = e.BLOCK - 1


@subroutine
def short_bytes(arena, row):
    """Return the size in bytes of a file's entry in the directory's inode: length, offset, name, type, inode number."""
    return arena[row + e.ROW_NAME] + 8


@subroutine
def entry_bytes(arena, row):
    """Return the bytes, a multiple of 8, of an entry in a data block: inode number, length, name, type, tag."""
    return (arena[row + e.ROW_NAME] + 19) & ~7


@subroutine
def take_block(s, arena, goal):
    """Allocate a metadata block near block `goal` and return its log item; the caller ensures that a block is free."""
    block = allocate(s, arena, goal, 1, False)
    log_free_space(s, arena, block)
    s.meta_blocks += 1
    return new_buffer(s, arena, block)


@subroutine
def give_block(s, arena, item):
    """Free the metadata block of a log item."""
    block = arena[item + n.HOME]
    release(s, arena, block, 1)
    log_free_space(s, arena, block)
    # an intent to free one extent, and its done item (EFI, EFD)
    add_bytes(s, s.intents * 2 * (n.INTENT + n.EXTENT_BYTES))
    s.freed_extents += 1
    drop_buffer(s, arena, item)
    s.meta_blocks -= 1


@subroutine
def goal_after(s, arena, item):
    """Return the goal for the directory block that follows an item's block: the next block (xfs_bmap_adjacent)."""
    block = arena[item + n.HOME] + 1
    return block if block % s.ag_blocks and block < s.blocks else block - 1


@subroutine
def data_goal(s, arena, d, index):
    """Return the goal for a directory's data block `index`: after the preceding data block, or near the inode if there is none."""
    while index > 0:
        index -= 1
        item = table.get(arena, d + e.PAGES, index)
        if item:
            return goal_after(s, arena, item)
    return inode_block(s, arena, arena[d + e.INODE])


@subroutine
def leaf_goal(s, arena, d):
    """Return the goal for a directory's next leaf: after the last leaf; for the first leaf, after the last data block."""
    if arena[d + e.LEAF_COUNT]:
        return goal_after(s, arena, table.get(arena, d + e.LEAVES, arena[d + e.LEAF_COUNT] - 1))
    return data_goal(s, arena, d, arena[d + e.PAGE_COUNT])


@subroutine
def new_data(s, arena, d, index):
    """Add a data block to a directory, at `index`; log its header and its single free range."""
    table.reserve(s, arena, d + e.PAGES, index + 1)
    item = take_block(s, arena, data_goal(s, arena, d, index))
    table.put(arena, d + e.PAGES, index, item)
    arena[d + e.PAGE_COUNT] = max(arena[d + e.PAGE_COUNT], index + 1)
    if index == 0:
        arena[item + n.FILL] = n.DOTS
        arena[item + n.ENTRIES_END] = n.DATA_HEADER + n.DOTS
    else:
        arena[item + n.ENTRIES_END] = n.DATA_HEADER
    log_buffer(s, arena, item, 0, arena[item + n.ENTRIES_END] + 15)


@subroutine
def free_data(s, arena, d, index):
    """Free the data block at `index`, if there is one."""
    item = table.get(arena, d + e.PAGES, index)
    if item:
        give_block(s, arena, item)
        table.put(arena, d + e.PAGES, index, 0)


@subroutine
def new_leaf(s, arena, d):
    """Add a leaf block to a directory and log the part of it that is in use."""
    count = arena[d + e.LEAF_COUNT]
    table.reserve(s, arena, d + e.LEAVES, count + 1)
    item = take_block(s, arena, leaf_goal(s, arena, d))
    table.put(arena, d + e.LEAVES, count, item)
    arena[d + e.LEAF_COUNT] = count + 1
    log_buffer(s, arena, item, 0, n.LEAF_HEADER + n.LEAF_ENTRY * min(arena[d + n.NAMES], n.LEAF_FILL))


@subroutine
def free_leaf(s, arena, d):
    """Free the last leaf block."""
    arena[d + e.LEAF_COUNT] -= 1
    give_block(s, arena, table.get(arena, d + e.LEAVES, arena[d + e.LEAF_COUNT]))


@subroutine
def most_short(s, arena, d):
    """Return how many bytes of entries fit in a directory's inode; the root's, which mkfs.xfs makes, has FORK_BYTES."""
    return (n.FORK_BYTES if arena[d + e.INODE] == n.ROOT_INODE else s.fork) - n.SHORT_HEADER


@subroutine
def blocks_to_add(s, arena, row, d):
    """Return the maximum number of blocks that directory `d` gains with the entry of the file of table row `row`."""
    if arena[d + n.FORM] == n.IN_INODE:
        return 1 if arena[d + e.ENTRIES] + short_bytes(arena, row) > most_short(s, arena, d) else 0
    return n.MOST_BLOCKS


@subroutine
def fits_block(arena, d):
    """Return whether all of a directory's entries and their hashes fit in one block."""
    used = n.DATA_HEADER + n.DOTS + arena[d + n.DATA_BYTES] + n.LEAF_ENTRY * (arena[d + n.NAMES] + 3)
    return used <= e.BLOCK


@subroutine
def log_new_hash(s, arena, d):
    """Log the hash of a new name at the end of the last leaf."""
    leaves = arena[d + e.LEAF_COUNT]
    filled = max(arena[d + n.NAMES] - n.LEAF_FILL * (leaves - 1), 1)
    item = table.get(arena, d + e.LEAVES, leaves - 1)
    log_buffer(s, arena, item, 0, n.LEAF_HEADER - 1)
    at = min(n.LEAF_HEADER + n.LEAF_ENTRY * filled, LAST)
    log_buffer(s, arena, item, at - n.LEAF_ENTRY, at)


@subroutine
def log_stale_hash(s, arena, d, entry):
    """Log the hash of the name at position `entry` as stale; hashes are assumed to be in the order of the names."""
    leaves, end = arena[d + e.LEAF_COUNT], arena[d + e.PAGE_COUNT] << 12
    item = table.get(arena, d + e.LEAVES, min(entry * leaves // end, leaves - 1))
    at = n.LEAF_HEADER + entry * leaves % end * n.LEAF_FILL // end * n.LEAF_ENTRY
    log_buffer(s, arena, item, 0, n.LEAF_HEADER - 1)
    log_buffer(s, arena, item, at, at + n.LEAF_ENTRY - 1)


@subroutine
def log_free_room(s, arena, d, index):
    """Log that the free space of the data block at `index` changed."""
    if arena[d + n.FORM] == n.WITH_NODE:
        log_buffer(s, arena, arena[d + n.FREES], 0, n.DATA_HEADER - 1)
        at = n.DATA_HEADER + 2 * index % 4032
        log_buffer(s, arena, arena[d + n.FREES], at, at + 1)
    else:
        at = e.BLOCK - 4 - 2 * (index + 1)
        log_buffer(s, arena, table.get(arena, d + e.LEAVES, 0), at, LAST)


@subroutine
def takes(arena, item, need):
    """Return whether a data block exists and has room for `need` bytes."""
    return item != 0 and arena[item + n.FILL] + need <= e.BLOCK - n.DATA_HEADER


@subroutine
def first_with_room(arena, d, need):
    """Return the index of the first data block that has room or is a hole (xfs_dir2_leaf_addname)."""
    index = arena[d + n.HINT]
    while index < arena[d + e.PAGE_COUNT]:
        item = table.get(arena, d + e.PAGES, index)
        if item == 0 or takes(arena, item, need):
            break
        index += 1
    return index


@subroutine
def last_with_room(arena, d, need):
    """Return the index of the last data block with room for `need` bytes, else of the first hole (xfs_dir2_node_find_freeblk)."""
    index, hole = arena[d + e.PAGE_COUNT] - 1, arena[d + e.PAGE_COUNT]
    while index >= 0:
        item = table.get(arena, d + e.PAGES, index)
        if takes(arena, item, need):
            return index
        if item == 0:
            hole = index
        index -= 1
    return hole


@subroutine
def put_entry(s, arena, row, d):
    """Put a name into a data block with room, or into a new block; the directory has leaves."""
    need = entry_bytes(arena, row)
    with_node = arena[d + n.FORM] == n.WITH_NODE
    index = last_with_room(arena, d, need) if with_node else first_with_room(arena, d, need)
    arena[d + n.HINT] = index
    if table.get(arena, d + e.PAGES, index) == 0:
        new_data(s, arena, d, index)
    place(s, arena, row, table.get(arena, d + e.PAGES, index), index)
    log_free_room(s, arena, d, index)


@subroutine
def place(s, arena, row, item, index):
    """Place a name in its data block: after the last name if there is room, else in the space of removed names."""
    need = entry_bytes(arena, row)
    at = arena[item + n.ENTRIES_END]
    if at + need <= e.BLOCK:
        arena[item + n.ENTRIES_END] = at + need
    else:
        # positions of removed names are not recorded: take an arbitrary one
        at = n.DATA_HEADER + (row - s.rows) * e.HASH_FACTOR % (e.BLOCK - n.DATA_HEADER - need)
    arena[item + n.FILL] += need
    arena[arena[row] + n.ENTRY] = index << 12 | at
    log_buffer(s, arena, item, 0, n.DATA_HEADER - 1)
    log_buffer(s, arena, item, at, at + need + 1)


@subroutine
def turn_into_block(s, arena, d):
    """Move the names from the inode into a block."""
    arena[d + n.FORM] = n.IN_BLOCK
    new_data(s, arena, d, 0)
    item = table.get(arena, d + e.PAGES, 0)
    arena[item + n.FILL] += arena[d + n.DATA_BYTES]
    arena[item + n.ENTRIES_END] += arena[d + n.DATA_BYTES]
    log_buffer(s, arena, item, 0, arena[item + n.ENTRIES_END] + 15)
    log_buffer(s, arena, item, LAST - n.LEAF_ENTRY * (arena[d + n.NAMES] + 3), LAST)


@subroutine
def turn_into_leaf(s, arena, d):
    """Move the hashes from the only block into a leaf."""
    arena[d + n.FORM] = n.WITH_LEAF
    new_leaf(s, arena, d)
    item = table.get(arena, d + e.PAGES, 0)
    log_buffer(s, arena, item, 0, n.DATA_HEADER - 1)
    log_buffer(s, arena, item, LAST - n.LEAF_ENTRY * (arena[d + n.NAMES] + 2), LAST)


@subroutine
def turn_into_node(s, arena, d):
    """Give a directory a block of free space and a node, and split its leaf in two."""
    arena[d + n.FORM] = n.WITH_NODE
    arena[d + n.FREES] = take_block(s, arena, leaf_goal(s, arena, d))
    arena[d + n.NODE] = take_block(s, arena, goal_after(s, arena, arena[d + n.FREES]))
    log_buffer(s, arena, arena[d + n.FREES], 0, n.DATA_HEADER + 2 * arena[d + e.PAGE_COUNT])
    split_leaf(s, arena, d)


@subroutine
def split_leaf(s, arena, d):
    """Add a leaf; log the changed headers of the leaf before it and of the node."""
    new_leaf(s, arena, d)
    leaves = arena[d + e.LEAF_COUNT]
    log_buffer(s, arena, table.get(arena, d + e.LEAVES, leaves - 2), 0, n.LEAF_HEADER - 1)
    log_buffer(s, arena, arena[d + n.NODE], 0, n.LEAF_HEADER + 8 * leaves % 4032)


@subroutine
def to_inode(s, arena, d):
    """Move the names back into the inode and free all blocks."""
    for index in range(arena[d + e.PAGE_COUNT]):
        free_data(s, arena, d, index)
    while arena[d + e.LEAF_COUNT]:
        free_leaf(s, arena, d)
    if arena[d + n.FORM] == n.WITH_NODE:
        give_block(s, arena, arena[d + n.NODE])
        give_block(s, arena, arena[d + n.FREES])
    arena[d + e.PAGE_COUNT], arena[d + n.HINT], arena[d + n.FORM] = 0, 0, n.IN_INODE


@subroutine
def log_directory(s, arena, out, d):
    """Log the directory's inode: its size and times, and its names or the extents of its blocks."""
    if arena[d + n.FORM] == n.IN_INODE:
        log_fork(s, arena, out, d, (arena[d + e.ENTRIES] + 9) & ~3)
        return
    blocks = arena[d + e.PAGE_COUNT] + arena[d + e.LEAF_COUNT] + (2 if arena[d + n.FORM] == n.WITH_NODE else 0)
    log_fork(s, arena, out, d, n.EXTENT_BYTES * min(blocks, most_inline(s)))


@subroutine
def add_entry(s, arena, out, row, d):
    """Add a name of table row `row` to directory `d`, for which enough blocks are free; emits at most 4 events."""
    arena[d + n.NAMES] += 1
    arena[d + e.ENTRIES] += short_bytes(arena, row)
    arena[d + n.DATA_BYTES] += entry_bytes(arena, row)
    arena[arena[row] + n.KNOWN] += 1
    arena[arena[row] + n.OLDER_ENTRY] = arena[arena[row] + n.ENTRY]
    arena[arena[row] + n.ENTRY] = 0
    form = arena[d + n.FORM]
    if form == n.IN_INODE:
        if arena[d + e.ENTRIES] > most_short(s, arena, d):
            turn_into_block(s, arena, d)
    elif form == n.IN_BLOCK and fits_block(arena, d):
        item = table.get(arena, d + e.PAGES, 0)
        place(s, arena, row, item, 0)
        log_buffer(s, arena, item, LAST - n.LEAF_ENTRY * (arena[d + n.NAMES] + 3), LAST)
    else:
        if form == n.IN_BLOCK:
            turn_into_leaf(s, arena, d)
        elif form == n.WITH_LEAF and arena[d + n.NAMES] > n.ONE_LEAF:
            turn_into_node(s, arena, d)
        elif form == n.WITH_NODE and arena[d + n.NAMES] > n.LEAF_FULL + n.LEAF_FILL * (arena[d + e.LEAF_COUNT] - 1):
            split_leaf(s, arena, d)
        put_entry(s, arena, row, d)
        log_new_hash(s, arena, d)
    show_block(s, arena, out, d)
    log_directory(s, arena, out, d)


@subroutine
def show_block(s, arena, out, d):
    """Emit the access to the memory of a directory block; emits at most 2 events."""
    if arena[d + n.FORM] != n.IN_INODE:
        index = min(arena[d + n.HINT], arena[d + e.PAGE_COUNT] - 1)
        item = table.get(arena, d + e.PAGES, index)
        if item:
            s.reg[q.FROM] = arena[item + n.HOME] * e.BLOCK
            s.reg[templates.IN_BLOCK] = arena[d + n.FORM] == n.IN_BLOCK
            s.reg[templates.IN_LEAF] = arena[d + n.FORM] != n.IN_BLOCK
            emit_template(s, out, q.NAME)


@subroutine
def remove_entry(s, arena, out, row, d):
    """Remove the newest name of the file of table row `row` from directory `d`; emits at most 4 events."""
    if arena[arena[row] + n.KNOWN]:
        forget_entry(s, arena, out, row, d)
    log_directory(s, arena, out, d)


@subroutine
def forget_entry(s, arena, out, row, d):
    """Remove the file's newest name, whose place is known; the name before it becomes the newest again."""
    arena[arena[row] + n.KNOWN] -= 1
    arena[d + n.NAMES] = max(arena[d + n.NAMES] - 1, 0)
    arena[d + e.ENTRIES] = max(arena[d + e.ENTRIES] - short_bytes(arena, row), 0)
    arena[d + n.DATA_BYTES] = max(arena[d + n.DATA_BYTES] - entry_bytes(arena, row), 0)
    if arena[d + n.FORM] != n.IN_INODE and arena[d + e.ENTRIES] <= most_short(s, arena, d):
        to_inode(s, arena, d)
    if arena[d + n.FORM] != n.IN_INODE:
        clear_entry(s, arena, row, d)
        show_block(s, arena, out, d)
    arena[arena[row] + n.ENTRY] = arena[arena[row] + n.OLDER_ENTRY]


@subroutine
def clear_entry(s, arena, row, d):
    """Free a name's bytes; free its data block if no other name is in it, and a leaf if the leaves are too empty."""
    entry = arena[arena[row] + n.ENTRY]
    item = table.get(arena, d + e.PAGES, entry >> 12)
    if item == 0:  # the name moved when the directory changed its form
        entry = 0
        item = table.get(arena, d + e.PAGES, entry)
    index, at = entry >> 12, entry & LAST
    log_buffer(s, arena, item, 0, n.DATA_HEADER - 1)
    log_buffer(s, arena, item, at, at + entry_bytes(arena, row) - 1)
    arena[item + n.FILL] = max(arena[item + n.FILL] - entry_bytes(arena, row), 0)
    arena[d + n.HINT] = index if arena[d + n.FORM] == n.WITH_NODE else min(arena[d + n.HINT], index)
    if arena[d + n.FORM] == n.IN_BLOCK:
        log_buffer(s, arena, item, LAST - 7, LAST)
        return
    log_stale_hash(s, arena, d, entry)
    log_free_room(s, arena, d, index)
    if index and arena[item + n.FILL] == 0:
        free_data(s, arena, d, index)
    leaves = arena[d + e.LEAF_COUNT]
    if arena[d + n.FORM] == n.WITH_NODE and leaves > 2 and 2 * arena[d + n.NAMES] < n.LEAF_FILL * leaves:
        free_leaf(s, arena, d)
        log_buffer(s, arena, arena[d + n.NODE], 0, n.LEAF_HEADER + 8 * leaves % 4032)
