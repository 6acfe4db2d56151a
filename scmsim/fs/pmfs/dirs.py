"""PMFS's directories: 4 KiB blocks of records that are searched one by one from the first.

A new name takes the first gap that is large enough; a removed one's bytes go to the record before it.
Source: PMFS fs/pmfs/{dir,namei}.c (pmfs_find_entry, pmfs_add_entry, pmfs_add_dirent_to_buf, pmfs_remove_entry).
"""

from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.arena import give, take
from scmsim.fs.engine.events import play
from scmsim.fs.pmfs import recipes as q
from scmsim.fs.pmfs import state as n
from scmsim.fs.pmfs.copy import inode_at
from scmsim.fs.pmfs.journal import log
from scmsim.fs.pmfs.tree import fill, grow, reserve, words_for
from scmsim.jit import part

HEADER, LOADED = 12, 12  # bytes of a record's header; that looking at a record loads
BYTES, NEEDS, OWNER = (1 << 16) - 1, 16, 32
FILL_EVENTS = 40  # of a directory's new block
KILLS = 0  # 1: a removed record stays, free, and counts as a name no longer; 0: only the first of a block


@part
def record_bytes(length):
    return (HEADER + length + 3) & ~3


@part
def words_for_name(arena, directory):
    """Words of arena that one more block of a directory takes at the most."""
    count = arena[directory + n.DIRCOUNT] + 1
    return words_for(arena, directory, count) + table.words_to_hold(arena, directory + n.DIRBLOCKS, count) + 512


@part
def add_block(s, arena, out, directory):
    """One more block, a single free record (events: those of the tree); returns its place in the arena."""
    count, inode = arena[directory + n.DIRCOUNT], s.reg[q.INODE]
    replacing, resume_at = s.replacing, s.resume_at
    s.replacing = 0
    reserve(s, arena, directory, count + 1)
    table.reserve(s, arena, directory + n.DIRBLOCKS, count + 1)
    s.reg[q.INODE] = inode_at(s, directory)
    grow(s, arena, out, directory, count)
    s.resume_at = count
    fill(s, arena, out, directory, count, q.ZERO)
    place = take(s, arena, q.ZERO + n.DIR_ORDER)
    table.put(arena, directory + n.DIRBLOCKS, count, place)
    arena[place + n.DIR_RECORDS], arena[place + n.DIR_GAP] = 1, q.BLOCK
    arena[place + n.DIR_BLOCK] = table.get(arena, directory + n.BLOCKS, count)
    arena[place + n.DIR_FIRST] = q.BLOCK
    arena[directory + n.DIRCOUNT] += 1
    arena[directory + n.DIRENTS] += 1
    arena[directory + file_row.SIZE] += q.BLOCK
    s.replacing, s.resume_at, s.reg[q.INODE] = replacing, resume_at, inode
    return place


@part
def dots(s, arena, out, directory):
    """The first block of a directory, with its "." and ".."."""
    place = add_block(s, arena, out, directory)
    arena[place + n.DIR_RECORDS] = 2
    arena[place + n.DIR_FIRST] = 16 | 16 << NEEDS | n.DOT << OWNER
    arena[place + n.DIR_FIRST + 1] = (q.BLOCK - 16) | 16 << NEEDS | n.DOT << OWNER
    arena[directory + n.DIRENTS] += 1
    s.reg[q.NODE] = arena[place + n.DIR_BLOCK] * q.BLOCK


@part
def scan(s, arena, out, directory, stop, within, match):
    """Look at all records of the blocks before `stop` and at `within` of block `stop`; `match`: comparing names."""
    total = within
    for j in range(min(stop + 1, arena[directory + n.DIRCOUNT])):
        place = table.get(arena, directory + n.DIRBLOCKS, j)
        count = arena[place + n.DIR_RECORDS] if j < stop else within
        total += count if j < stop else q.ZERO
        s.reg[q.NODE], s.reg[q.BYTES] = arena[place + n.DIR_BLOCK] * q.BLOCK, count * LOADED
        play(s, out, q.SCAN_MATCH if match else q.SCAN_FIT)
    s.reg[q.COUNT] = total
    s.scanned_dirents += total
    play(s, out, q.MATCHED if match else q.FITTED)


@part
def miss(s, arena, out, directory):
    """Look a name up that is not there."""
    scan(s, arena, out, directory, arena[directory + n.DIRCOUNT], q.ZERO, 1)


@part
def find(arena, place, row_number):
    """Index of a file's last record in a directory block, -1: none."""
    for k in range(arena[place + n.DIR_RECORDS] - 1, -1, -1):
        if arena[place + n.DIR_FIRST + k] >> OWNER == row_number + 1:
            return k
    return -1


@part
def find_place(arena, directory, hint, row_number):
    """(index of the directory's block, index of the record in it) of a file's name, (-1, -1): none; `hint`: its block or 0."""
    for j in range(arena[directory + n.DIRCOUNT] - 1, -1, -1):
        place = table.get(arena, directory + n.DIRBLOCKS, j)
        if hint == 0 or hint == place:
            k = find(arena, place, row_number)
            if k >= 0:
                return j, k
    return -1, -1


@part
def offset_of(arena, place, k):
    """Where record `k` of a directory block begins."""
    at = 0
    for i in range(k):
        at += arena[place + n.DIR_FIRST + i] & BYTES
    return at


@part
def first_gap(arena, place, needs):
    """First record of a block with room for `needs` bytes, -1: none (its bound is made exact)."""
    largest = 0
    for k in range(arena[place + n.DIR_RECORDS]):
        word = arena[place + n.DIR_FIRST + k]
        gap = (word & BYTES) - ((word >> NEEDS) & BYTES)
        if gap >= needs:
            return k
        largest = max(largest, gap)
    arena[place + n.DIR_GAP] = largest
    return -1


@part
def put_record(s, arena, place, k, needs, row_number):
    """Put a record into the gap behind record `k` (or into it, if it is free); sets register DIRENT."""
    at = place + n.DIR_FIRST + k
    word = arena[at]
    start = arena[place + n.DIR_BLOCK] * q.BLOCK + offset_of(arena, place, k)
    if word >> OWNER == 0:
        arena[at] = (word & BYTES) | needs << NEEDS | (row_number + 1) << OWNER
        s.reg[q.DIRENT] = start
        return
    used = (word >> NEEDS) & BYTES
    for i in range(place + n.DIR_FIRST + arena[place + n.DIR_RECORDS], at + 1, -1):
        arena[i] = arena[i - 1]
    arena[at] = used | word & ~BYTES
    arena[at + 1] = ((word & BYTES) - used) | needs << NEEDS | (row_number + 1) << OWNER
    arena[place + n.DIR_RECORDS] += 1
    s.reg[q.DIRENT] = start + used


@part
def find_gap(arena, directory, needs):
    """(block, record in it) of the first gap with room for a name of `needs` bytes; record -1: none."""
    count, j, k = arena[directory + n.DIRCOUNT], q.ZERO, -1
    while j < count:
        place = table.get(arena, directory + n.DIRBLOCKS, j)
        if arena[place + n.DIR_GAP] >= needs:
            k = first_gap(arena, place, needs)
            if k >= 0:
                break
        j += 1
    return j, k


@part
def add_name(s, arena, out, row, directory):
    """Enter a file's name into a directory, within a transaction (pmfs_add_entry)."""
    number, length = (row - s.files) // n.FILE_WORDS, arena[row + file_row.NAME]
    needs = record_bytes(length)
    s.reg[q.DIR] = inode_at(s, directory)
    log(s, out, s.reg[q.DIR], q.LOG_DATA)
    j, k = find_gap(arena, directory, needs)
    scan(s, arena, out, directory, j, k + 1, q.ZERO)
    if k < 0:
        place, k = add_block(s, arena, out, directory), q.ZERO
        put_record(s, arena, place, k, needs, number)
        s.reg[q.BYTES] = HEADER + 6 + length
    else:
        place = table.get(arena, directory + n.DIRBLOCKS, j)
        before = arena[directory + n.DIRENTS] + arena[place + n.DIR_RECORDS]
        split = arena[place + n.DIR_FIRST + k] >> OWNER != 0
        log(s, out, arena[place + n.DIR_BLOCK] * q.BLOCK + offset_of(arena, place, k) + 8 * split, 2 if split else 8)
        put_record(s, arena, place, k, needs, number)
        arena[directory + n.DIRENTS] = before - arena[place + n.DIR_RECORDS] + 2 * split + KILLS * (not split)
        s.reg[q.BYTES] = HEADER + length - 2 * (not split)
    s.reg[q.LINES] = needs
    play(s, out, q.ADD_DIRENT)
    play(s, out, q.DIR_TIMES)
    arena[row + n.PLACE], arena[row + n.PARENT] = place, directory


@part
def take_out(s, arena, out, directory, j, k):
    """Remove a record: its bytes go to the one before it, the first of a block becomes free."""
    place = table.get(arena, directory + n.DIRBLOCKS, j)
    at, count = place + n.DIR_FIRST + k, arena[place + n.DIR_RECORDS]
    start = arena[place + n.DIR_BLOCK] * q.BLOCK
    arena[place + n.DIR_GAP] = q.BLOCK
    if k == 0 or KILLS:
        s.reg[q.DIRENT] = start + offset_of(arena, place, k)
        log(s, out, s.reg[q.DIRENT], 8)
        play(s, out, q.KILL_DIRENT)
        arena[at] &= BYTES
        arena[directory + n.DIRENTS] -= KILLS
        return
    s.reg[q.DIRENT] = start + offset_of(arena, place, k - 1)
    log(s, out, s.reg[q.DIRENT] + 8, 2)
    play(s, out, q.DEL_DIRENT)
    arena[at - 1] += arena[at] & BYTES
    for i in range(at, place + n.DIR_FIRST + count - 1):
        arena[i] = arena[i + 1]
    arena[place + n.DIR_RECORDS] = count - 1
    arena[directory + n.DIRENTS] -= 1


@part
def remove_name(s, arena, out, directory, hint, row_number):
    """Take a name out of its directory, within a transaction (pmfs_remove_entry); `hint`: its block or 0."""
    j, k = find_place(arena, directory, hint, row_number)
    s.reg[q.DIR] = inode_at(s, directory)
    if j >= 0:
        scan(s, arena, out, directory, j, k + 1, 1)
        take_out(s, arena, out, directory, j, k)
    log(s, out, s.reg[q.DIR], q.LOG_DATA)
    play(s, out, q.DIR_TIMES)


@part
def drop_blocks(s, arena, row):
    """Forget the records of a directory that is gone."""
    for j in range(arena[row + n.DIRCOUNT]):
        give(s, arena, table.get(arena, row + n.DIRBLOCKS, j), q.ZERO + n.DIR_ORDER)
    table.drop(s, arena, row + n.DIRBLOCKS)
    arena[row + n.DIRCOUNT], arena[row + n.DIRENTS] = 0, 0
