"""Directories of ext4: the positions of entries in their blocks, which determine how many entries the kernel examines.

A directory with one block is linear; a larger one has an index block and leaves, and the hash of an entry selects its
leaf.

A look-up in a block (the only one, or the leaf that the hash selects) examines the entries up to the one that it finds, or all
entries if it finds none.  A new entry goes into the first gap, or after the last entry.  A removal examines the entries before the
removed one and leaves a gap.  In the model, all entries have the same length and are in order of arrival, except the older half
of the entries in leaves, because a split sorts them by hash.
Source: Linux fs/ext4/namei.c (ext4_search_dir, ext4_find_dest_de, ext4_generic_delete_entry, do_split).
"""

from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.files import entry_bytes
from scmsim.jit import subroutine

LEAF_FULL = 4084  # bytes of entries that a directory's only block holds
LEAF_FILL = 3072  # bytes of entries in each of several leaves: they split in half, so they are 3/4 full on average
# Renames lose 1/RENAME_SHARE of the bytes that they add (at most the bytes of all entries): names move to another leaf,
# full leaves split, and leaves that become emptier do not join (fitted to rename_sync of ext2, see docs/models/ext2.md).
RENAME_SHARE = 6
RENAMED = e.FIRST_DIRTY_PAGE  # bytes of entries that renames added to a directory, which has no dirty pages
DOTS = 2  # entries "." and "..", before all others in a directory with one block
TAIL = 1  # the entry that holds a block's checksum


@subroutine
def entries_of_block(arena, d):
    """Return the number of entries in a directory's only block, or in one of its leaves, on average."""
    return arena[d + e.LIVE] // max(arena[d + e.PAGE_COUNT] - 1, 1)


@subroutine
def entries_before(arena, d, slot):
    """Return the number of a block's entries before the one in place `slot` of the directory."""
    first, slots, entries = arena[d + e.FIRST_ENTRY_SLOT], arena[d + e.SLOTS], entries_of_block(arena, d)
    sorted_end = slots // 2 if arena[d + e.PAGE_COUNT] > 1 else 0
    span = max(slots - first, 1)
    # a split sorts the older half by hash, so an entry is anywhere in that half: on average half of them are before it
    if slot < sorted_end:
        return (sorted_end - first) * entries // span // 2
    return (max(slot - first, 0) * entries + span - 1) // span


@subroutine
def dots(arena, d):
    """Return the number of entries "." and ".." before all others: 0 if the directory has leaves."""
    return DOTS if arena[d + e.PAGE_COUNT] <= 1 else 0


@subroutine
def entries_to_gap(arena, d):
    """Return the number of entries that are examined to find a gap for a new entry."""
    gaps, leaves = arena[d + e.SLOTS] - arena[d + e.LIVE], max(arena[d + e.PAGE_COUNT] - 1, 1)
    ahead = entries_of_block(arena, d)
    if gaps and leaves == 1:
        ahead = entries_before(arena, d, arena[d + e.GAP])
    elif gaps:
        ahead //= gaps // leaves + 2  # average position of the first of several gaps in a leaf
    return max(ahead + dots(arena, d), 1)


@subroutine
def take_slot(arena, f, d):
    """Give file `f` the first gap of directory `d`, or the place after its last entry."""
    slots, gaps = arena[d + e.SLOTS], arena[d + e.SLOTS] - arena[d + e.LIVE]
    slot = slots
    if gaps:
        slot = arena[d + e.GAP]
        # The next gap: the next place if no entry is there, else the remaining gaps count as evenly spread.
        spread = 0 if slot + 1 < arena[d + e.FIRST_ENTRY_SLOT] else (slots - slot - 1) // gaps
        arena[d + e.GAP] = slot + 1 + spread
        arena[d + e.FIRST_ENTRY_SLOT] = min(arena[d + e.FIRST_ENTRY_SLOT], slot)
    else:
        arena[d + e.SLOTS] += 1
    arena[d + e.LIVE] += 1
    arena[f + e.SLOT] = slot


@subroutine
def give_slot(arena, slot, d):
    """Remove the entry in place `slot` of directory `d`."""
    slots, live = arena[d + e.SLOTS], max(arena[d + e.LIVE] - 1, 0)
    if slot == slots - 1:
        arena[d + e.SLOTS] -= 1
    else:
        arena[d + e.GAP] = slot if slots == live + 1 else min(arena[d + e.GAP], slot)
    if slot == arena[d + e.FIRST_ENTRY_SLOT]:
        arena[d + e.FIRST_ENTRY_SLOT] += 1
    if live == 0:
        arena[d + e.SLOTS], arena[d + e.FIRST_ENTRY_SLOT] = 0, 0
    arena[d + e.LIVE] = live


@subroutine
def look_at_entries(s, arena, row, d, change):
    """Change an entry of directory `d`, and count in registers the entries that are examined.

    `change` adds the entry of table row `row`, removes it, or does both (rename).
    A removed name is known to be absent (a negative dentry), so its file is created again without a lookup.
    """
    f, adds, goes = arena[row + e.ROW_RECORD], change != e.ENTRY_REMOVED, change != e.ENTRY_ADDED
    slot, lookups = arena[f + e.SLOT], 1 if adds else 0
    if arena[row + e.ROW_SIZE] == e.REMOVED:
        lookups = 0
    found = entries_before(arena, d, slot) + dots(arena, d) + 1
    whole = entries_of_block(arena, d) + dots(arena, d) + TAIL
    s.reg[q.LOOKUPS], s.reg[q.PLACED], s.reg[q.REMOVED] = lookups, 0, 0
    s.reg[q.SEARCHED] = lookups * whole
    s.reg[q.PROBES] = 0 if arena[d + e.PAGE_COUNT] <= 1 else lookups + adds + goes * (1 + adds)
    if adds:
        s.reg[q.PLACED] = entries_to_gap(arena, d)
        take_slot(arena, f, d)
    if goes:  # a rename looks up the new name once more
        s.reg[q.SEARCHED] += found + adds * whole
        s.reg[q.REMOVED] = found
        give_slot(arena, slot, d)


@subroutine
def growth(s, arena, row, d):
    """Return the number of blocks by which directory `d` must grow to take the entry of table row `row`."""
    used = arena[d + e.ENTRIES] + entry_bytes(arena, row)
    blocks = arena[d + e.PAGE_COUNT]
    if blocks <= 1:
        # make_indexed_dir: the only block becomes an index block and two leaves
        return 2 if used > LEAF_FULL else 1 - blocks
    return 1 if used > (blocks - 1) * LEAF_FILL else 0


@subroutine
def growth_by_rename(s, arena, row, d):
    """Return how many blocks directory `d` must grow by to hold the new and the old entry of table row `row` (ext4_rename)."""
    added, blocks = entry_bytes(arena, row), arena[d + e.PAGE_COUNT]
    if blocks <= 1:
        return growth(s, arena, row, d)
    arena[d + RENAMED] += added
    used = arena[d + e.ENTRIES] + added + min(arena[d + RENAMED], arena[d + e.ENTRIES]) // RENAME_SHARE
    return 1 if used > (blocks - 1) * LEAF_FILL else 0


@subroutine
def search(s, arena, out, row, d, change):
    """Find the entry of table row `row` in directory `d` and change it; return its page."""
    look_at_entries(s, arena, row, d, change)
    leaves = arena[d + e.PAGE_COUNT] - 1
    return 1 + ((row - s.rows) // e.ROW_WORDS * e.HASH_FACTOR >> 8) % leaves if leaves > 0 else 0


HOOKS = {"FIRST_BLOCKS": 1, "growth": growth, "growth_by_rename": growth_by_rename, "search": search}
