"""Inode numbers: a new file gets the number that was freed last.  File systems with groups bind `orlov`.

A family may bind its own rules for the reuse of a freed number (see `scmsim.jit.binding`).
"""

from scmsim.fs.linux import state as e
from scmsim.jit import subroutine


@subroutine
def age(s, arena):
    """Release numbers that have waited long enough; runs before a new file is created."""


@subroutine
def all_used(s):
    """Return whether no inode number is left for a new file."""
    return s.free_inode_count == 0 and s.next_inode > s.inode_count


@subroutine
def take_number(s, arena, row, d, is_dir):
    """Take an inode number for the new file of table row `row` in directory `d`."""
    if s.free_inode_count:
        s.free_inode_count -= 1
        return arena[s.free_inodes + s.free_inode_count]
    if row == s.rows + (s.row_count - 1) * e.ROW_WORDS:
        return e.ROOT_INODE
    s.next_inode += 1
    return s.next_inode - 1


@subroutine
def folder_of(s, arena, row):
    """Return the record of the directory that held the file of table row `row` before the trace, for `take_number`."""
    return 0


@subroutine
def begin_group(s, arena):
    """Record that a group's block bitmap must be stored, if the newest inode is the group's first one."""


@subroutine
def passed_over(s, arena, f):
    """Return the number of free inodes that the search for new file `f`'s inode skipped."""
    return 0


@subroutine
def give_number(s, arena, f):
    """Free the inode number of a deleted file."""
    arena[s.free_inodes + s.free_inode_count] = arena[f + e.INODE]
    s.free_inode_count += 1


@subroutine
def note_change(s, arena, f):
    """Note that a file's inode changed: an fsync must commit the running transaction."""
    arena[f + e.TID] = s.tid
