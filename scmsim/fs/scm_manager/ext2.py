"""Model ext2 on the SCM driver: blocks of 1 KiB, bitmaps, an inode table, indirect blocks, holes, hard links.

Indirect blocks of 256 pointers map a file's blocks after the twelfth. A directory entry has 8 bytes and the name, here
in steps of 16 bytes. Not modelled: reservation windows, and block groups (the tables of all groups are at the front).
Source: Linux 2.6.24 fs/ext2/{balloc,dir,inode}.c; mke2fs for devices of 64 MiB.
"""

import numpy as np

from scmsim.alloc import first_fit
from scmsim.core.records import Files
from scmsim.fs.engine import calls, file_row, operations, table
from scmsim.fs.engine.events import State, emit_template
from scmsim.fs.scm_manager import cache, data, index, inodes, names, state, templates, units
from scmsim.fs.scm_manager import operations as shared
from scmsim.jit import subroutine
from scmsim.jit.binding import bind

DIRECT, FAN_SHIFT = 12, 8  # pointers in an inode; log2 of the pointers in an indirect block
INODE = 128  # bytes
# Bytes that three levels of pointers reach (ext2_max_size).
LARGEST_FILE = (12 + (1 << 8) + (1 << 16) + (1 << 24)) << 10


# Indirect blocks.


@subroutine
def words_for(arena, row, stop):
    """Return how many arena words the file's tables need for the units below `stop` and for their indirect blocks."""
    words = table.words_to_hold(arena, row + state.BLOCKS, stop)
    words += table.words_to_hold(arena, row + state.LEAVES, (stop >> FAN_SHIFT) + 1)
    return words + table.words_to_hold(arena, row + state.UPPERS, (stop >> 2 * FAN_SHIFT) + 2)


@subroutine
def reserve(s, arena, row, stop):
    """Extend the tables to the units below `stop` and their indirect blocks; the arena must have room."""
    table.reserve(s, arena, row + state.BLOCKS, stop)
    table.reserve(s, arena, row + state.LEAVES, (stop >> FAN_SHIFT) + 1)
    table.reserve(s, arena, row + state.UPPERS, (stop >> 2 * FAN_SHIFT) + 2)


@subroutine
def missing(arena, row, first, stop):
    """Return how many units must be allocated between `first` and `stop`, with an upper bound for indirect blocks."""
    count = max(stop - max(first, arena[row + state.UNIT_COUNT]), 0)
    for i in range(first, min(stop, arena[row + state.UNIT_COUNT])):
        count += index.place(arena, row, i) == 0
    return count + (4 + (count >> 7)) * (count > 0)


@subroutine
def take_node(s, arena, out, handle, i):
    """Allocate one indirect block if it is missing."""
    entry = table.get(arena, handle, i)
    if entry == 0:
        at = units.take(s, arena, 1)
        units.noted(s, arena, out, at, 1, False)
        entry = (at >> state.PLACE_SHIFT) << 2 | state.CACHED
    table.put(arena, handle, i, entry | (0 if s.silent else state.DIRTY))


@subroutine
def take_nodes(s, arena, out, row, first, last):
    """Allocate the indirect blocks of units `first` to `last`."""
    for leaf in range(max(first - DIRECT, 0) >> FAN_SHIFT, ((last - DIRECT) >> FAN_SHIFT) + 1):
        take_node(s, arena, out, row + state.LEAVES, leaf)
        if leaf > 0:
            take_node(s, arena, out, row + state.UPPERS, (leaf + 255) >> FAN_SHIFT)


@subroutine
def free_from(s, arena, handle, first, stop):
    """Free the indirect blocks [first, stop) of a table."""
    for i in range(first, stop):
        entry = table.get(arena, handle, i)
        if entry != 0:
            first_fit.release(s, arena, index.number(s, (entry >> 2) << state.PLACE_SHIFT), 1)
            table.put(arena, handle, i, 0)


@subroutine
def free_nodes(s, arena, row, stop):
    """Free the indirect blocks that no unit below `stop` needs."""
    leaves, end = (max(stop - DIRECT, 0) + 255) >> FAN_SHIFT, arena[row + state.UNIT_COUNT]
    free_from(s, arena, row + state.LEAVES, leaves, (end >> FAN_SHIFT) + 1)
    free_from(s, arena, row + state.UPPERS, (max(leaves - 1, 0) + 255 >> FAN_SHIFT) + 1, (end >> 2 * FAN_SHIFT) + 2)


@subroutine
def leaf_of(arena, row, unit):
    """Return the table entry of the indirect block with the pointer to a unit, or 0 if the inode has that pointer."""
    return table.get(arena, row + state.LEAVES, (unit - DIRECT) >> FAN_SHIFT) if unit >= DIRECT else 0


@subroutine
def find(s, arena, row, unit):
    """Set the registers for the pointers that lead to a unit."""
    entry = leaf_of(arena, row, unit)
    s.reg[templates.HOPS] = 0
    if entry != 0:
        s.reg[templates.HOPS] = 1 + (unit >= DIRECT + (1 << FAN_SHIFT))
        s.reg[templates.HOP_AT] = (entry >> 2) << state.PLACE_SHIFT
    s.reg[templates.HOP_BYTES] = templates.WORD * s.reg[templates.HOPS]


@subroutine
def read_entries(s, arena, out, row, unit):
    """Read into the cache the indirect block that points to a unit."""
    entry = leaf_of(arena, row, unit)
    if entry != 0 and not entry & state.CACHED:
        cache.fetch(s, arena, out, s.reg[templates.HOP_AT], 1)
        table.put(arena, row + state.LEAVES, (unit - DIRECT) >> FAN_SHIFT, entry | state.CACHED)


@subroutine
def send_nodes(s, arena, out, row, first):
    """Write the indirect block of unit `first`, if it has changed, after the run that begins with that unit."""
    entry = leaf_of(arena, row, first)
    if entry & state.DIRTY:
        table.put(arena, row + state.LEAVES, (first - DIRECT) >> FAN_SHIFT, entry & ~state.DIRTY)
        at = (entry >> 2) << state.PLACE_SHIFT
        cache.send(s, arena, out, at, 1, templates.OUT_META)


@subroutine
def settle_nodes(s, arena, row, first, stop):
    """Mark the indirect blocks of a file from before the trace as stored, not cached."""
    for leaf in range(max(first - DIRECT, 0) >> FAN_SHIFT, ((stop - DIRECT - 1) >> FAN_SHIFT) + 1):
        entry = table.get(arena, row + state.LEAVES, leaf)
        table.put(arena, row + state.LEAVES, leaf, entry & ~(state.CACHED | state.DIRTY))


# Bitmaps, inodes, names.


@subroutine
def words_changed(count, linked):
    """Return 1: the bits of adjacent units share a word."""
    return 1


@subroutine
def inode_changed(s, arena, out, row):
    """Store the inode in its unit of the inode table."""
    i = (row - s.files) // state.FILE_WORDS >> 3
    s.reg[templates.META] = (cache.system_unit(s, arena, s.inodes, i) >> 2) << state.PLACE_SHIFT
    cache.mark(s, arena, s.inodes, i, 1)
    emit_template(s, out, templates.INODE_STORE)


@subroutine
def entries(length):
    """Return how many 16-byte steps a name of `length` characters takes in a directory."""
    return (8 + length + 15) >> 4


@subroutine
def link(s, arena, out, op, row, parent):
    """Model link: add a name."""
    emit_template(s, out, templates.RENAME)
    names.scan(s, arena, out, parent, arena[parent + state.TOP])
    names.add_name(s, arena, out, row, parent)
    arena[row + file_row.LINKS] += 1
    inode_changed(s, arena, out, row)


emit = bind(
    "ext2",
    operations,
    {
        **shared.HOOKS,
        operations: {**shared.HOOKS[operations], "check_prefix": shared.check_prefix},
        calls: {**shared.HOOKS[calls], "link": link},
        cache: {"send_nodes": send_nodes},
        data: {"HOLES": 1},
        index: {
            "ENTRY_SHIFT": 0,
            "words_for": words_for,
            "reserve": reserve,
            "words_changed": words_changed,
            "find": find,
        },
        inodes: {"changed": inode_changed},
        names: {"entries": entries},
        shared: {"missing": missing},
        units: {
            "take_nodes": take_nodes,
            "free_nodes": free_nodes,
            "read_entries": read_entries,
            "place_old_nodes": settle_nodes,
        },
    },
).emit


def start(params: dict, files: Files) -> State:
    """Return the state of an empty ext2: super block and descriptors, block and inode bitmaps, inode table, blocks."""
    made = templates.calls() | templates.cached(INODE, False)
    built = state.build(params, files, "ext2-scm", made, shift=10, entry=16, inode=INODE)
    record, unit = built.record[0], 1 << 10
    groups = -(-int(record.capacity) // (8 * unit * unit))
    record.table_at += unit + state.up(32 * groups, unit)
    record.table_bytes = 2 * groups * unit
    record.inodes_at = record.table_at + record.table_bytes
    state.add_blocks(
        built, int(record.inodes_at) + state.up(INODE * int(record.file_count), unit), int(record.capacity)
    )
    return built


def space(built: State) -> dict[str, int]:
    """Return the space report in bytes; indirect blocks count as metadata."""
    report, unit = state.space(built), 1 << int(built.record[0].shift)
    leaves = np.maximum(-(-(file_row.of(built, state.FILE_WORDS)[:, state.UNIT_COUNT] - DIRECT) >> FAN_SHIFT), 0)
    uppers = -(-np.maximum(leaves - 1, 0) >> FAN_SHIFT)
    return report | {"metadata_bytes": report["metadata_bytes"] + int((leaves + uppers).sum()) * unit}
