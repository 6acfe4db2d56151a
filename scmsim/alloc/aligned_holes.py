"""Alignment-aware allocator: requests of 2 MiB take an aligned free extent, all others the first hole.

Each CPU has a range of the device, and two sorts of free space in it: whole aligned extents of 2 MiB, of which the lowest serves a
request, and holes, a red-black tree of free runs.  A hole serves a request with its first blocks, or with all if it is shorter.
An extent becomes a hole only if the CPU has no hole left.  A request that does not fit the CPU's range goes to the range with most
free blocks in holes, or with most free blocks.

The model reproduces three properties of the code that decide where blocks are.  The last extent of each range is a hole from the
start.  A freed run first joins its neighbours, and only then are extents taken out of it.  If such a run has blocks before and
after its extents, the node of the blocks after them enters the tree with the key 0, that is before all other nodes, where
`first` does not reach it.
Source: WineFS fs/winefs/balloc.c (winefs_init_blockmap, winefs_new_blocks, winefs_get_candidate_free_list,
winefs_alloc_blocks_in_free_list, winefs_free_blocks, check_and_insert_huge_aligned).  Unit: blocks of 4096 bytes.
"""

import numpy as np

from scmsim.alloc import range_tree
from scmsim.alloc.bitmap import lowest_bit, set_bits
from scmsim.alloc.range_tree import HIGH, LEFT, LOW, RIGHT
from scmsim.jit import kernel

_ONE = np.int64(1)  # not int: in kernels run as plain Python, the int 1 << 63 does not fit an int64
EXTENT = 512  # blocks of an aligned extent
MOST_CPUS = 64
NODES = 2048  # initial number of nodes in the pool

FIELDS = [
    *range_tree.FIELDS,
    ("cpus", "i8"),
    ("cpu", "i8"),  # CPU of the current operation
    ("range_blocks", "i8"),  # blocks of a CPU's range; the last blocks of the device may belong to no range
    ("lost_blocks", "i8"),  # neither free nor in a file: WineFS's code loses them
    ("whole", "i8"),  # arena offset of a bitmap: 1 = a free extent that is not in a hole
    ("free_of", "i8", (MOST_CPUS,)),  # free blocks of each CPU
    ("extents_of", "i8", (MOST_CPUS,)),  # number of aligned free extents of each CPU
    ("extent_low", "i8", (MOST_CPUS,)),  # the CPU has no aligned free extent below this one
    ("root_of", "i8", (MOST_CPUS,)),  # root of each CPU's tree of holes
    ("first_of", "i8", (MOST_CPUS,)),  # hole that serves the next request; 0: none
]


def arena_words(blocks: int) -> int:
    """Return the arena words that `attach` reserves."""
    return blocks // EXTENT // 64 + 1 + (NODES + 1) * range_tree.WORDS


def attach(state, reserved: int, blocks: int, cpus: int) -> None:
    """Divide the blocks [reserved, blocks), all of which are free, among the CPUs."""
    record, arena = state.record[0], state.arena
    record.blocks = record.tracked = blocks  # PMFS's admission finds no blocks that `first_fit` does not track yet
    record.cpus, record.range_blocks = cpus, blocks // cpus
    record.whole = record.arena_top
    record.arena_top += blocks // EXTENT // 64 + 1
    range_tree.ready(record, arena, NODES)
    for cpu in range(cpus):
        first = cpu * int(record.range_blocks)
        low, stop = max(first, reserved), first + int(record.range_blocks)
        record.extent_low[cpu] = low // EXTENT
        record.free_of[cpu] = max(stop - low, 0)
        record.free_blocks += max(stop - low, 0)
        if low >= stop:
            continue
        up, last = -(-low // EXTENT) * EXTENT, (stop - 1) // EXTENT * EXTENT
        for start, end in ((low, min(up, stop)), (max(last, up), stop)):
            if start < end:
                root, node = range_tree.insert(record, arena, record.root_of[cpu], start, start, end - 1)
                record.root_of[cpu] = root
                record.first_of[cpu] = record.first_of[cpu] or node
        record.extents_of[cpu] = max(last - up, 0) // EXTENT
        set_bits(arena, record.whole, up // EXTENT, record.extents_of[cpu], True)


def reserve_tables(state, count: int) -> None:
    """Take `count` extents of the first CPU and one of each other CPU for inode tables (winefs_alloc_inode_table).

    In the model, all inodes are in the tables of the first CPU.
    """
    record = state.record[0]
    for cpu in range(int(record.cpus)):
        for _ in range(min(1 if cpu else count, int(record.extents_of[cpu]))):
            take_extent(record, state.arena, cpu)
            record.free_of[cpu] -= EXTENT
            record.free_blocks -= EXTENT


def free_runs(record, arena: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (first block, length) of the free extents and holes, unordered and with neighbours not joined."""
    low, high = range_tree.ranges(record, arena)
    words = arena[record.whole : record.whole + record.blocks // EXTENT // 64 + 1]
    extents = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
    return np.append(low, extents * EXTENT), np.append(high + 1 - low, np.full(len(extents), EXTENT, np.int64))


@kernel
def is_enough(s, cpu, want):
    """Return whether a CPU has `want` free blocks, and a search finds at least some of them (not_enough_blocks)."""
    return s.free_of[cpu] >= want and (s.first_of[cpu] != 0 or s.extents_of[cpu] > 0)


@kernel
def pick(s, want):
    """Return the CPU whose range serves a request (winefs_get_candidate_free_list)."""
    if is_enough(s, s.cpu, want):
        return s.cpu
    best, most, with_holes, holes = 0, 0, -1, 0
    for cpu in range(s.cpus):
        if s.free_of[cpu] > most:
            best, most = cpu, s.free_of[cpu]
        here = s.free_of[cpu] - EXTENT * s.extents_of[cpu]
        if want != EXTENT and here >= want and here > holes:
            with_holes, holes = cpu, here
    return with_holes if with_holes >= 0 else best


@kernel
def take_extent(s, arena, cpu):
    """Take the lowest aligned free extent of a CPU, which must have one; return its first block."""
    extent = s.extent_low[cpu]
    word = extent >> 6
    bits = arena[s.whole + word] & -(_ONE << (extent & 63))
    while bits == 0:
        word += 1
        bits = arena[s.whole + word]
    extent = (word << 6) + lowest_bit(bits)
    arena[s.whole + word] &= ~(_ONE << (extent & 63))
    s.extent_low[cpu] = extent
    s.extents_of[cpu] -= 1
    return extent * EXTENT


@kernel
def _add_extent(s, arena, cpu, extent):
    """Add an aligned free extent."""
    arena[s.whole + (extent >> 6)] |= _ONE << (extent & 63)
    s.extents_of[cpu] += 1
    s.extent_low[cpu] = min(s.extent_low[cpu], extent)


@kernel
def allocate(s, arena, want):
    """Allocate a run of up to `want` blocks (at most 512); return its first block, -1 if nothing is free.

    `s.got` is the length of the run.
    """
    s.got = 0
    cpu = pick(s, want)
    if not is_enough(s, cpu, 1):
        # WineFS would refuse the request although holes are left that its search does not find; here they serve it.
        for other in range(s.cpus):
            if s.root_of[other] != 0 or s.extents_of[other] > 0:
                cpu = other
                s.first_of[cpu] = s.first_of[cpu] or range_tree.end_of(s, arena, s.root_of[cpu], LEFT)
                break
        if not is_enough(s, cpu, 1):
            return -1
    if want == EXTENT and s.extents_of[cpu] > 0:
        start = take_extent(s, arena, cpu)
        s.got = EXTENT
    else:
        if s.first_of[cpu] == 0:
            low = take_extent(s, arena, cpu)
            s.root_of[cpu], s.first_of[cpu] = range_tree.insert(s, arena, s.root_of[cpu], low, low, low + EXTENT - 1)
        node = s.first_of[cpu]
        start = range_tree.get(s, arena, node, LOW)
        s.got = min(want, range_tree.get(s, arena, node, HIGH) + 1 - start)
        if start + s.got > range_tree.get(s, arena, node, HIGH):
            s.first_of[cpu] = range_tree.neighbour(s, arena, node, RIGHT)
            s.root_of[cpu] = range_tree.erase(s, arena, s.root_of[cpu], node)
        else:
            range_tree.put(s, arena, node, LOW, start + s.got)
    s.free_blocks -= s.got
    s.free_of[cpu] -= s.got
    return start


@kernel
def release(s, arena, start, count):
    """Free the run [start, start + count) in parts of 512 blocks, each of which needs at most one node."""
    cpu, at, stop = start // s.range_blocks, start, start + count
    while at < stop:
        # WineFS checks each part's start plus the whole count, and loses the rest if that end is outside the range.
        if at + count > (cpu + 1) * s.range_blocks:
            s.lost_blocks += stop - at
            return
        part = min(stop - at, EXTENT)
        if part == EXTENT and at % EXTENT == 0:
            _add_extent(s, arena, cpu, at // EXTENT)
        else:
            _add_hole(s, arena, cpu, at, part)
        s.free_blocks += part
        s.free_of[cpu] += part
        at += part


@kernel
def _add_hole(s, arena, cpu, start, count):
    """Add a free run to a CPU's holes, joined with the runs beside it."""
    before, after = range_tree.around(s, arena, s.root_of[cpu], start, start + count - 1)
    joins_before = before != 0 and range_tree.get(s, arena, before, HIGH) + 1 == start
    joins_after = after != 0 and range_tree.get(s, arena, after, LOW) == start + count
    if joins_before:
        high = start + count - 1
        if joins_after:
            high = range_tree.get(s, arena, after, HIGH)
            if s.first_of[cpu] == after:  # WineFS keeps a pointer to the freed node
                s.first_of[cpu] = before
            s.root_of[cpu] = range_tree.erase(s, arena, s.root_of[cpu], after)
        range_tree.put(s, arena, before, HIGH, high)
        _cut_extents(s, arena, cpu, before)
    elif joins_after:
        range_tree.put(s, arena, after, LOW, start)
        _cut_extents(s, arena, cpu, after)
    else:
        s.root_of[cpu], node = range_tree.insert(s, arena, s.root_of[cpu], start, start, start + count - 1)
        if before == 0:
            s.first_of[cpu] = node


@kernel
def _cut_extents(s, arena, cpu, node):
    """Turn the aligned extents of a hole into free extents (check_and_insert_huge_aligned)."""
    low, stop = range_tree.get(s, arena, node, LOW), range_tree.get(s, arena, node, HIGH) + 1
    first, last = -(-low // EXTENT), stop // EXTENT
    if first >= last:
        return
    if low < first * EXTENT:
        range_tree.put(s, arena, node, HIGH, first * EXTENT - 1)
        if last * EXTENT < stop:
            # WineFS inserts the new node before it sets the node's range, that is with the key 0.
            s.root_of[cpu], _ = range_tree.insert(s, arena, s.root_of[cpu], 0, last * EXTENT, stop - 1)
    elif last * EXTENT < stop:
        range_tree.put(s, arena, node, LOW, last * EXTENT)
    else:
        if s.first_of[cpu] == node:
            s.first_of[cpu] = range_tree.neighbour(s, arena, node, RIGHT)
        s.root_of[cpu] = range_tree.erase(s, arena, s.root_of[cpu], node)
    for extent in range(first, last):
        _add_extent(s, arena, cpu, extent)
