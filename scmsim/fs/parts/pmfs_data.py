"""PMFS's data path: writes inside one block go in place at once, others through a transaction; reads go page by page.

With data_path = "cow" a write over existing bytes takes fresh blocks, copies what it does not cover, swaps the pointers in the
transaction and frees the old blocks (the VSM paper, section IV.A: its authors added this to PMFS, whose code has none).
Source: PMFS fs/pmfs/xip.c (pmfs_xip_file_write, pmfs_file_write_fast, __pmfs_xip_file_write, pmfs_clear_edge_blk).
"""

from scmsim._jit import part
from scmsim.fs.parts import pmfs_recipes as q
from scmsim.fs.parts import pmfs_state as n
from scmsim.fs.parts import table
from scmsim.fs.parts.emit import has_events, play
from scmsim.fs.parts.pmfs_journal import begin, commit, log
from scmsim.fs.parts.pmfs_tree import FILL_EVENTS, fill, grow, node, release

CHUNK = 64  # pages of one run of copies


@part
def inode_at(s, row):
    """Device offset of a file's inode."""
    return s.inode_table + (row - s.files) // n.FILE_WORDS * q.INODE_BYTES


@part
def set_find(s, arena, row, page, pages):
    """Registers of the look-up of `pages` pages (at most CHUNK) from `page` on."""
    i, height = page >> s.shift - 12, arena[row + n.HEIGHT]
    leaf, upper = node(arena, row, q.ONE, i >> 9), node(arena, row, height, q.ZERO) if height > 1 else q.ZERO
    span = pages << 3
    s.reg[q.PAGES], s.reg[q.HEADERS] = pages, pages * q.TABLE_LOADS
    s.reg[q.LEAF_AT], s.reg[q.LEAF] = leaf * q.BLOCK + min((i & 511) << 3, q.BLOCK - span), span * (leaf != 0)
    s.reg[q.UPPER_AT], s.reg[q.UPPER] = upper * q.BLOCK, span * max(height - 1, 0) * (upper != 0)


@part
def device(s, arena, row, at):
    """Device offset of byte `at` of the file, -1 in a hole."""
    block = table.get(arena, row + n.BLOCKS, at >> s.shift)
    return -1 if block == 0 else block * q.BLOCK + (at & ((1 << s.shift) - 1))


@part
def stretch(s, arena, row, at, end):
    """End of the run from byte `at` on, at most CHUNK pages and to `end`, that lies in one piece on the device (or is a hole)."""
    limit = min(end, ((at >> 12) + CHUNK) << 12)
    first = at >> s.shift
    block, stop = table.get(arena, row + n.BLOCKS, first), first + 1
    while stop << s.shift < limit and table.get(arena, row + n.BLOCKS, stop) == (
        block + (stop - first) * s.unit if block != 0 else 0
    ):
        stop += 1
    return min(limit, stop << s.shift)


@part
def copy_in(s, out, op, target, low, high):
    """Copy bytes [low, high) of the file from the caller's buffer to the device offset `target`; edges are written back."""
    s.reg[q.TO], s.reg[q.BYTES], s.reg[q.LINES] = target, high - low, (high - low + 63) >> 6
    s.reg[q.USER_AT] = (op.thread << 36) + op.buffer + low - op.offset
    s.reg[q.LEAF] = (low & 7) != 0
    s.reg[q.EDGE] = (high & 7) != 0 and (low & 63) != (high & 63)
    s.reg[q.EDGE_AT] = target + high - low
    play(s, out, q.COPY)


@part
def fast(s, arena, out, op, row):
    """A write inside one existing block (pmfs_file_write_fast)."""
    end = op.offset + op.length
    s.reg[q.PAGES] = 0
    copy_in(s, out, op, device(s, arena, row, op.offset), op.offset, end)
    grows = end > arena[row + n.SIZE]
    s.reg[q.GROWN], s.reg[q.UPDATED] = grows, 16 if grows else 8
    play(s, out, q.FAST_END)
    arena[row + n.SIZE] = max(arena[row + n.SIZE], end)


@part
def clear(s, out, block, low, high):
    """Clear bytes [low, high) of a new block (memset_nt, whole words)."""
    s.reg[q.TO], s.reg[q.BYTES] = block * q.BLOCK + low, high - low
    s.reg[q.LINES] = (high - low + 63) >> 6
    s.zeroed_bytes += high - low
    play(s, out, q.ZEROED)


@part
def edge(s, arena, out, row, i, low, high):
    """Bytes [low, high) of data block `i` that the write leaves over: from the block it replaces, else zeroes."""
    block, old = table.get(arena, row + n.BLOCKS, i), table.get(arena, row + n.OLD, i)
    if s.replacing and old != 0:
        s.reg[q.FROM], s.reg[q.TO] = old * q.BLOCK + low, block * q.BLOCK + low
        s.reg[q.BYTES], s.reg[q.LINES] = high - low, (high - low + 63) >> 6
        play(s, out, q.COW_EDGE)
    elif s.whole_edge:
        clear(s, out, block, q.ZERO, q.ONE << s.shift)
    elif low == 0:
        clear(s, out, block, low, (high + 7) & ~7)
    else:
        clear(s, out, block, low & ~7, high)


@part
def edges(s, arena, out, op, row):
    """Both ends of a write that begins or ends inside a block which is new or replaced."""
    mask, end = (1 << s.shift) - 1, op.offset + op.length
    first, last = op.offset >> s.shift, (end - 1) >> s.shift
    whole = s.whole_edge and not s.replacing
    if op.offset & mask and s.edges & 1:
        edge(s, arena, out, row, first, q.ZERO, op.offset & mask)
    if end & mask and s.edges & 2 and not (whole and first == last and op.offset & mask):
        edge(s, arena, out, row, last, end & mask, mask + 1)


@part
def replaces(s, arena, op, row):
    """Whether a copy-on-write is due: the write covers bytes of the file that have a block."""
    if not s.cow or op.length <= 0 or op.offset >= arena[row + n.SIZE]:
        return False
    for i in range(op.offset >> s.shift, min(((op.offset + op.length - 1) >> s.shift) + 1, arena[row + n.END])):
        if table.get(arena, row + n.BLOCKS, i) != 0:
            return True
    return False


@part
def open_write(s, arena, out, op, row):
    """The transaction of a write: what precedes its first block."""
    end, mask = op.offset + op.length, (1 << s.shift) - 1
    first, last = op.offset >> s.shift, (end - 1) >> s.shift
    begin(s, out)
    log(s, out, s.reg[q.INODE], q.LOG_DATA)
    play(s, out, q.TIMES)
    s.edges = (s.replacing or table.get(arena, row + n.BLOCKS, first) == 0) + 2 * (
        s.replacing or table.get(arena, row + n.BLOCKS, last) == 0
    )
    if op.offset & mask:
        set_find(s, arena, row, op.offset >> 12, q.ONE)
        play(s, out, q.FIND)
    if end & mask:
        set_find(s, arena, row, (end - 1) >> 12, q.ONE)
        play(s, out, q.FIND)
    grow(s, arena, out, row, last)


@part
def close_write(s, arena, out, op, row):
    """Size, commit, and the blocks that a copy-on-write replaced."""
    end = op.offset + op.length
    if end > arena[row + n.SIZE]:
        arena[row + n.SIZE] = end
        play(s, out, q.RESIZED)
    commit(s, out)
    if s.replacing:
        s.reg[q.COUNT] = 0
        for i in range(op.offset >> s.shift, ((end - 1) >> s.shift) + 1):
            old = table.get(arena, row + n.OLD, i)
            if old != 0:
                release(s, arena, old, q.ZERO)
                table.put(arena, row + n.OLD, i, q.ZERO)
                s.reg[q.COUNT] += 1
        play(s, out, q.OLD_FREED)


@part
def write_file(s, arena, out, op, row):
    """One write(); False: no room to go on."""
    end = op.offset + op.length
    first, last = op.offset >> s.shift, (end - 1) >> s.shift
    s.reg[q.INODE] = inode_at(s, row)
    if s.stage == n.READY:
        set_find(s, arena, row, op.offset >> 12, q.ONE)
        play(s, out, q.WRITE)
        if first == last and not s.replacing and table.get(arena, row + n.BLOCKS, first) != 0:
            fast(s, arena, out, op, row)
            return True
        open_write(s, arena, out, op, row)
        s.stage, s.resume_at = n.ALLOCATING, first
    if s.stage == n.ALLOCATING:
        while s.resume_at <= last:
            if not has_events(s, out, FILL_EVENTS):
                return False
            fill(s, arena, out, row, last, q.ZERO)
        if not has_events(s, out, FILL_EVENTS):
            return False
        edges(s, arena, out, op, row)
        s.stage, s.resume_at = n.COPYING, op.offset
    while s.resume_at < end:
        if not has_events(s, out, 24):
            return False
        at, stop = s.resume_at, stretch(s, arena, row, s.resume_at, end)
        set_find(s, arena, row, at >> 12, ((stop - 1) >> 12) - (at >> 12) + 1)
        play(s, out, q.FIND)
        copy_in(s, out, op, device(s, arena, row, at), at, stop)
        s.resume_at = stop
    if not has_events(s, out, FILL_EVENTS):
        return False
    close_write(s, arena, out, op, row)
    return True


@part
def read_file(s, arena, out, op, row):
    """One read(); a hole is cleared.  False: no room to go on."""
    if s.stage == n.READY:
        play(s, out, q.READ)
        s.stage, s.resume_at = n.COPYING, op.offset
    end = min(op.offset + op.length, arena[row + n.SIZE])
    while s.resume_at < end:
        if not has_events(s, out, 8):
            return False
        at, stop = s.resume_at, stretch(s, arena, row, s.resume_at, end)
        set_find(s, arena, row, at >> 12, ((stop - 1) >> 12) - (at >> 12) + 1)
        s.reg[q.FROM], s.reg[q.BYTES] = device(s, arena, row, at), stop - at
        s.reg[q.USER_AT] = (op.thread << 36) + op.buffer + at - op.offset
        play(s, out, q.READ_DATA if s.reg[q.FROM] >= 0 else q.READ_HOLE)
        s.resume_at = stop
    return True
