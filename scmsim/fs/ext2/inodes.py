"""Inodes that the driver of ext4 passes over without a journal: those that were freed in an earlier second, for a minute.

Until its table block is surely stored, a freed inode whose number goes to another file could lose that file in a crash.  So a new
file looks at the free inodes of its block group from the first on, and leaves aside those freed less than 60 s ago; times count
in seconds, so one freed in this very second is taken.  Source: Linux 6.1 fs/ext4/ialloc.c: find_inode_bit, recently_deleted.
Simplified: all that are left aside lie before the inode that is taken; the files below one directory of the root share a block
group, and no others do (find_group_orlov spreads those directories); 60 s also where the table block is dirty (there 360 s).
"""

from scmsim.fs.linux import state as e
from scmsim.jit import subroutine

SECOND = 10**9  # ns
RECENT = 60  # seconds
NUMBER_BITS = 32  # an entry of the ring: second << 32 | inode number, row of the directory in the root
ENTRY_WORDS = 2
DEEPEST = 64  # directories; ends a ring of parents in a trace that mixes up its ids
# Words of a directory's record: its inodes in the ring, the last second in which one came, how many came then.  A directory is
# never in the queue of dirty files, to which they belong otherwise.
WAITING, LAST_SECOND, JUST_FREED = e.SINCE, e.OLDER, e.NEWER


@subroutine
def family(s, arena, row):
    """Row of the directory in the root that a directory lies below, or is."""
    root = s.rows + (s.row_count - 1) * e.ROW_WORDS
    for _ in range(DEEPEST):
        d = arena[row + e.ROW_RECORD]
        if d == 0 or row == root or arena[d + e.PARENT] == root:
            break
        row = arena[d + e.PARENT]
    return row


@subroutine
def directory(arena, row):
    """Record of a directory; 0 where the row's is gone, or is a plain file's in a trace that mixes up its ids."""
    d = arena[row + e.ROW_RECORD]
    return d if d != 0 and arena[d + e.IS_DIR] else 0


@subroutine
def passed_over(s, arena, f):
    """Inodes that the new file `f` passed over."""
    d = directory(arena, family(s, arena, arena[f + e.PARENT]))
    if d == 0:
        return 0
    return arena[d + WAITING] - (arena[d + JUST_FREED] if arena[d + LAST_SECOND] == s.now // SECOND else 0)


@subroutine
def end_wait(s, arena, index):
    """The inode at an index of the ring, counted from its oldest, can be taken."""
    at = s.recent + (s.recent_first + index) % s.recent_room * ENTRY_WORDS
    d = directory(arena, arena[at + 1])
    if d:
        arena[d + WAITING] = max(arena[d + WAITING] - 1, 0)
        if arena[d + LAST_SECOND] == arena[at] >> NUMBER_BITS:
            arena[d + JUST_FREED] = max(arena[d + JUST_FREED] - 1, 0)
    arena[s.free_inodes + s.free_inode_count] = arena[at] & ((1 << NUMBER_BITS) - 1)
    s.free_inode_count += 1
    s.recent_count -= 1
    if index == 0:
        s.recent_first = (s.recent_first + 1) % s.recent_room


@subroutine
def age(s, arena):
    """Before a new file: inodes that waited long enough are free, and one of this second, or the oldest if no other is left."""
    second = s.now // SECOND
    while s.recent_count and (arena[s.recent + s.recent_first * ENTRY_WORDS] >> NUMBER_BITS) + RECENT <= second:
        end_wait(s, arena, 0)
    if s.recent_count and s.free_inode_count == 0:
        newest = s.recent + (s.recent_first + s.recent_count - 1) % s.recent_room * ENTRY_WORDS
        if arena[newest] >> NUMBER_BITS == second:
            end_wait(s, arena, s.recent_count - 1)
        elif s.next_inode > s.inode_count:
            end_wait(s, arena, 0)


@subroutine
def give_number(s, arena, f):
    """The inode of a file that is gone waits."""
    if s.recent_count == s.recent_room:
        end_wait(s, arena, 0)
    second, row = s.now // SECOND, family(s, arena, arena[f + e.PARENT])
    at = s.recent + (s.recent_first + s.recent_count) % s.recent_room * ENTRY_WORDS
    arena[at], arena[at + 1] = second << NUMBER_BITS | arena[f + e.INODE], row
    s.recent_count += 1
    d = directory(arena, row)
    if d:
        arena[d + WAITING] += 1
        arena[d + JUST_FREED] = 1 + (arena[d + JUST_FREED] if arena[d + LAST_SECOND] == second else 0)
        arena[d + LAST_SECOND] = second


HOOKS = {"age": age, "passed_over": passed_over, "give_number": give_number}
