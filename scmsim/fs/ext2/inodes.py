"""Inodes that the driver of ext4 skips without a journal: inodes freed in an earlier second, for one minute.

If the number of a freed inode goes to another file before the inode's table block is surely stored, a crash could
lose that file.  So a new file looks at the free inodes of its block group from the first on, and skips those freed less than 60
s ago; times count in seconds, so an inode freed in the current second is taken.  Source: Linux 6.1 fs/ext4/ialloc.c:
find_inode_bit, recently_deleted.  Simplified: all skipped inodes are before the inode that is taken; the files below one
directory of the root share a block group with no others (find_group_orlov spreads those directories); the limit is 60 s even
if the table block is dirty (Linux: 360 s).
"""

from scmsim.fs.linux import state as e
from scmsim.fs.linux.descriptors import count_inode
from scmsim.fs.linux.orlov import group_of, make_available
from scmsim.jit import subroutine

SECOND = 10**9  # ns
RECENT = 60  # seconds
NUMBER_BITS = 32  # bits of an inode number
DEEPEST = 64  # directories; ends a cycle of parents in a trace that mixes up its ids
# An entry of the ring of freed inodes, one word each:
FREED = 0  # second in which the inode was freed << NUMBER_BITS | inode number
FAMILY = 1  # row of the root's subdirectory that held the file, see `family`
ENTRY_WORDS = 2
# Fields of a directory's record, one word each. They reuse fields of the dirty-file queue, which holds no directory.
WAITING = e.DIRTY_SINCE_NS  # inodes of the directory in the ring
LAST_SECOND = e.OLDER  # second in which an inode was freed last
JUST_FREED = e.NEWER  # inodes freed in that second


@subroutine
def family(s, arena, row):
    """Return the row of the root's subdirectory that contains a directory, or is that directory."""
    root = s.rows + (s.row_count - 1) * e.ROW_WORDS
    for _ in range(DEEPEST):
        d = arena[row + e.ROW_RECORD]
        if d == 0 or row == root or arena[d + e.PARENT] == root:
            break
        row = arena[d + e.PARENT]
    return row


@subroutine
def directory(arena, row):
    """Return the record of a directory; 0 if the row is empty, or a plain file's (a trace that mixes up its ids)."""
    d = arena[row + e.ROW_RECORD]
    return d if d != 0 and arena[d + e.IS_DIR] else 0


@subroutine
def passed_over(s, arena, f):
    """Return the number of inodes that the new file `f` skipped."""
    d = directory(arena, family(s, arena, arena[f + e.PARENT]))
    if d == 0:
        return 0
    return arena[d + WAITING] - (arena[d + JUST_FREED] if arena[d + LAST_SECOND] == s.now // SECOND else 0)


@subroutine
def end_wait(s, arena, index):
    """Make a recently freed inode available again; `index` counts the ring's inodes from the oldest."""
    at = s.recent + (s.recent_first + index) % s.recent_room * ENTRY_WORDS
    d = directory(arena, arena[at + FAMILY])
    if d:
        arena[d + WAITING] = max(arena[d + WAITING] - 1, 0)
        if arena[d + LAST_SECOND] == arena[at + FREED] >> NUMBER_BITS:
            arena[d + JUST_FREED] = max(arena[d + JUST_FREED] - 1, 0)
    make_available(s, arena, arena[at + FREED] & ((1 << NUMBER_BITS) - 1))
    s.recent_count -= 1
    if index == 0:
        s.recent_first = (s.recent_first + 1) % s.recent_room


@subroutine
def age(s, arena):
    """Make inodes available before a new file is created.

    Inodes that have waited long enough become available.  If no inode is free then, an inode that was freed in this second
    becomes available, or the oldest one if every inode of the device has been used.
    """
    second = s.now // SECOND
    while s.recent_count and (arena[s.recent + s.recent_first * ENTRY_WORDS + FREED] >> NUMBER_BITS) + RECENT <= second:
        end_wait(s, arena, 0)
    if s.recent_count and s.free_inode_count == 0:
        newest = s.recent + (s.recent_first + s.recent_count - 1) % s.recent_room * ENTRY_WORDS
        if arena[newest + FREED] >> NUMBER_BITS == second:
            end_wait(s, arena, s.recent_count - 1)
        elif s.fresh_inodes == 0:
            end_wait(s, arena, 0)


@subroutine
def give_number(s, arena, f):
    """Put the inode of a deleted file into the ring."""
    if s.recent_count == s.recent_room:
        end_wait(s, arena, 0)
    count_inode(s, arena, group_of(s, arena, f), arena[f + e.IS_DIR], 1)
    second, row = s.now // SECOND, family(s, arena, arena[f + e.PARENT])
    at = s.recent + (s.recent_first + s.recent_count) % s.recent_room * ENTRY_WORDS
    arena[at + FREED], arena[at + FAMILY] = second << NUMBER_BITS | arena[f + e.INODE], row
    s.recent_count += 1
    d = directory(arena, row)
    if d:
        arena[d + WAITING] += 1
        arena[d + JUST_FREED] = 1 + (arena[d + JUST_FREED] if arena[d + LAST_SECOND] == second else 0)
        arena[d + LAST_SECOND] = second


HOOKS = {"age": age, "passed_over": passed_over, "give_number": give_number}
