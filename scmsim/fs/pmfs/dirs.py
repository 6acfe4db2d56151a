"""Model PMFS's directories: 4 KiB blocks of records that are searched one by one from the first.

A new name goes into the first gap that is large enough; a removed record's bytes are added to the record before it.
Source: PMFS fs/pmfs/{dir,namei}.c (pmfs_find_entry, pmfs_add_entry, pmfs_add_dirent_to_buf, pmfs_remove_entry).
"""

from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.arena import give, take
from scmsim.fs.engine.events import emit_template
from scmsim.fs.pmfs import state, templates
from scmsim.fs.pmfs.copy import inode_at
from scmsim.fs.pmfs.journal import log
from scmsim.fs.pmfs.tree import fill, grow, reserve, words_for
from scmsim.jit import subroutine

HEADER, LOADED = 12, 12  # bytes of a record's header; bytes loaded to inspect a record
BYTES, NEEDS, OWNER = (1 << 16) - 1, 16, 32
FILL_EVENTS = 40  # maximum number of events of adding a block to a directory
KILLS = 0  # 1: a removed record stays in place, marked free; 0: it merges into the record before it, if any


@subroutine
def record_bytes(length):
    """Return the bytes of a record with a name of `length` bytes."""
    return (HEADER + length + 3) & ~3


@subroutine
def words_for_name(arena, directory):
    """Return how many arena words one more block of a directory needs at most."""
    count = arena[directory + state.DIRCOUNT] + 1
    return words_for(arena, directory, count) + table.words_to_hold(arena, directory + state.DIRBLOCKS, count) + 512


@subroutine
def add_block(s, arena, out, directory):
    """Add a block with a single free record to a directory and return the block's arena offset.

    Only the tree's changes emit events.
    """
    count, inode = arena[directory + state.DIRCOUNT], s.reg[templates.INODE]
    replacing, resume_at = s.replacing, s.resume_at
    s.replacing = 0
    reserve(s, arena, directory, count + 1)
    table.reserve(s, arena, directory + state.DIRBLOCKS, count + 1)
    s.reg[templates.INODE] = inode_at(s, directory)
    grow(s, arena, out, directory, count)
    s.resume_at = count
    fill(s, arena, out, directory, count, 0)
    place = take(s, arena, state.DIR_ORDER)
    table.put(arena, directory + state.DIRBLOCKS, count, place)
    arena[place + state.DIR_RECORDS], arena[place + state.DIR_GAP] = 1, templates.BLOCK
    arena[place + state.DIR_BLOCK] = table.get(arena, directory + state.BLOCKS, count)
    arena[place + state.DIR_FIRST] = templates.BLOCK
    arena[directory + state.DIRCOUNT] += 1
    arena[directory + state.DIRENTS] += 1
    arena[directory + file_row.SIZE] += templates.BLOCK
    s.replacing, s.resume_at, s.reg[templates.INODE] = replacing, resume_at, inode
    return place


@subroutine
def dots(s, arena, out, directory):
    """Create the first block of a directory, with its "." and ".."."""
    place = add_block(s, arena, out, directory)
    arena[place + state.DIR_RECORDS] = 2
    arena[place + state.DIR_FIRST] = 16 | 16 << NEEDS | state.DOT << OWNER
    arena[place + state.DIR_FIRST + 1] = (templates.BLOCK - 16) | 16 << NEEDS | state.DOT << OWNER
    arena[directory + state.DIRENTS] += 1
    s.reg[templates.NODE] = arena[place + state.DIR_BLOCK] * templates.BLOCK


@subroutine
def scan(s, arena, out, directory, stop, within, match):
    """Load all records of the blocks before `stop` and `within` records of block `stop`.

    `match`: 1 if the search compares names, 0 if it looks for free space.
    """
    total = within
    for j in range(min(stop + 1, arena[directory + state.DIRCOUNT])):
        place = table.get(arena, directory + state.DIRBLOCKS, j)
        count = arena[place + state.DIR_RECORDS] if j < stop else within
        total += count if j < stop else 0
        s.reg[templates.NODE], s.reg[templates.BYTES] = arena[place + state.DIR_BLOCK] * templates.BLOCK, count * LOADED
        emit_template(s, out, templates.SCAN_MATCH if match else templates.SCAN_FIT)
    s.reg[templates.COUNT] = total
    s.scanned_dirents += total
    emit_template(s, out, templates.MATCHED if match else templates.FITTED)


@subroutine
def miss(s, arena, out, directory):
    """Look up a name that the directory does not have."""
    scan(s, arena, out, directory, arena[directory + state.DIRCOUNT], 0, 1)


@subroutine
def find(arena, place, row_number):
    """Return the index of a file's last record in a directory block, or -1 if it has none there."""
    for k in range(arena[place + state.DIR_RECORDS] - 1, -1, -1):
        if arena[place + state.DIR_FIRST + k] >> OWNER == row_number + 1:
            return k
    return -1


@subroutine
def find_place(arena, directory, hint, row_number):
    """Return (index of the directory's block, index of the record in it) of a file's name, or (-1, -1).

    `hint`: the arena offset of the name's block; 0 if unknown.
    """
    for j in range(arena[directory + state.DIRCOUNT] - 1, -1, -1):
        place = table.get(arena, directory + state.DIRBLOCKS, j)
        if hint == 0 or hint == place:
            k = find(arena, place, row_number)
            if k >= 0:
                return j, k
    return -1, -1


@subroutine
def offset_of(arena, place, k):
    """Return the offset of record `k` in a directory block, in bytes."""
    at = 0
    for i in range(k):
        at += arena[place + state.DIR_FIRST + i] & BYTES
    return at


@subroutine
def first_gap(arena, place, needs):
    """Return the first record with a gap of `needs` bytes; if none, set DIR_GAP to the largest gap and return -1."""
    largest = 0
    for k in range(arena[place + state.DIR_RECORDS]):
        word = arena[place + state.DIR_FIRST + k]
        gap = (word & BYTES) - ((word >> NEEDS) & BYTES)
        if gap >= needs:
            return k
        largest = max(largest, gap)
    arena[place + state.DIR_GAP] = largest
    return -1


@subroutine
def put_record(s, arena, place, k, needs, row_number):
    """Put a record into the gap after record `k`, or into a free record `k`; set register DIRENT to its offset."""
    at = place + state.DIR_FIRST + k
    word = arena[at]
    start = arena[place + state.DIR_BLOCK] * templates.BLOCK + offset_of(arena, place, k)
    if word >> OWNER == 0:
        arena[at] = (word & BYTES) | needs << NEEDS | (row_number + 1) << OWNER
        s.reg[templates.DIRENT] = start
        return
    used = (word >> NEEDS) & BYTES
    for i in range(place + state.DIR_FIRST + arena[place + state.DIR_RECORDS], at + 1, -1):
        arena[i] = arena[i - 1]
    arena[at] = used | word & ~BYTES
    arena[at + 1] = ((word & BYTES) - used) | needs << NEEDS | (row_number + 1) << OWNER
    arena[place + state.DIR_RECORDS] += 1
    s.reg[templates.DIRENT] = start + used


@subroutine
def find_gap(s, arena, directory, needs):
    """Return (block, record in the block) of the first gap of `needs` bytes; the record is -1 if there is none."""
    count, j, k = arena[directory + state.DIRCOUNT], 0, -1
    while j < count:
        place = table.get(arena, directory + state.DIRBLOCKS, j)
        if arena[place + state.DIR_GAP] >= needs:
            k = first_gap(arena, place, needs)
            if k >= 0:
                break
        j += 1
    return j, k


@subroutine
def add_name(s, arena, out, row, directory):
    """Add a file's name to a directory, within a transaction (pmfs_add_entry)."""
    number, length = (row - s.files) // state.FILE_WORDS, arena[row + file_row.NAME]
    needs = record_bytes(length)
    s.reg[templates.DIR] = inode_at(s, directory)
    log(s, out, s.reg[templates.DIR], templates.LOG_DATA)
    j, k = find_gap(s, arena, directory, needs)
    scan(s, arena, out, directory, j, k + 1, 0)
    if k < 0:
        place, k = add_block(s, arena, out, directory), 0
        # A record in a new block needs no undo entry.
        put_record(s, arena, place, k, needs, number)
        s.reg[templates.BYTES] = HEADER + 6 + length
    else:
        place = table.get(arena, directory + state.DIRBLOCKS, j)
        before = arena[directory + state.DIRENTS] + arena[place + state.DIR_RECORDS]
        split = arena[place + state.DIR_FIRST + k] >> OWNER != 0
        log(
            s,
            out,
            arena[place + state.DIR_BLOCK] * templates.BLOCK + offset_of(arena, place, k) + 8 * split,
            2 if split else 8,
        )
        put_record(s, arena, place, k, needs, number)
        arena[directory + state.DIRENTS] = before - arena[place + state.DIR_RECORDS] + 2 * split + KILLS * (not split)
        s.reg[templates.BYTES] = HEADER + length - 2 * (not split)
    s.reg[templates.LINES] = needs
    emit_template(s, out, templates.ADD_DIRENT)
    emit_template(s, out, templates.DIR_TIMES)
    arena[row + state.PLACE], arena[row + state.PARENT] = place, directory


@subroutine
def take_out(s, arena, out, directory, j, k):
    """Remove record `k` of block `j`: its bytes go to the record before it; a block's first record becomes free."""
    place = table.get(arena, directory + state.DIRBLOCKS, j)
    at, count = place + state.DIR_FIRST + k, arena[place + state.DIR_RECORDS]
    start = arena[place + state.DIR_BLOCK] * templates.BLOCK
    arena[place + state.DIR_GAP] = templates.BLOCK
    if k == 0 or KILLS:
        s.reg[templates.DIRENT] = start + offset_of(arena, place, k)
        log(s, out, s.reg[templates.DIRENT], 8)
        emit_template(s, out, templates.KILL_DIRENT)
        arena[at] &= BYTES
        arena[directory + state.DIRENTS] -= KILLS
        return
    s.reg[templates.DIRENT] = start + offset_of(arena, place, k - 1)
    log(s, out, s.reg[templates.DIRENT] + 8, 2)
    emit_template(s, out, templates.DEL_DIRENT)
    arena[at - 1] += arena[at] & BYTES
    for i in range(at, place + state.DIR_FIRST + count - 1):
        arena[i] = arena[i + 1]
    arena[place + state.DIR_RECORDS] = count - 1
    arena[directory + state.DIRENTS] -= 1


@subroutine
def remove_name(s, arena, out, directory, hint, row_number):
    """Remove a name from its directory, within a transaction (pmfs_remove_entry); `hint`: see `find_place`."""
    j, k = find_place(arena, directory, hint, row_number)
    s.reg[templates.DIR] = inode_at(s, directory)
    if j >= 0:
        scan(s, arena, out, directory, j, k + 1, 1)
        take_out(s, arena, out, directory, j, k)
    log(s, out, s.reg[templates.DIR], templates.LOG_DATA)
    emit_template(s, out, templates.DIR_TIMES)


@subroutine
def drop_blocks(s, arena, row):
    """Free the arena space of a removed directory's blocks."""
    for j in range(arena[row + state.DIRCOUNT]):
        give(s, arena, table.get(arena, row + state.DIRBLOCKS, j), state.DIR_ORDER)
    table.drop(s, arena, row + state.DIRBLOCKS)
    arena[row + state.DIRCOUNT], arena[row + state.DIRENTS] = 0, 0
