"""Numbers of inodes: the one that was freed last is used first (ext4: the lowest free one).

A family may bind its own rules for when a freed number can be used again (see `scmsim.jit.binding`).
"""

from scmsim.fs.linux import state as e
from scmsim.jit import subroutine


@subroutine
def age(s, arena):
    """Before a new file: numbers that have waited long enough can be used again."""


@subroutine
def all_used(s):
    """Whether no number is left for a new file."""
    return s.free_inode_count == 0 and s.next_inode > s.inode_count


@subroutine
def take_number(s, arena, row):
    """An inode number for the file of table row `row`."""
    if s.free_inode_count:
        s.free_inode_count -= 1
        return arena[s.free_inodes + s.free_inode_count]
    if row == s.rows + (s.row_count - 1) * e.ROW_WORDS:
        return e.ROOT_INODE
    s.next_inode += 1
    return s.next_inode - 1


@subroutine
def passed_over(s, arena, f):
    """Free inodes that the new file `f` passed over."""
    return 0


@subroutine
def give_number(s, arena, f):
    """The inode of a file that is gone can be used again."""
    arena[s.free_inodes + s.free_inode_count] = arena[f + e.INODE]
    s.free_inode_count += 1


@subroutine
def note_change(s, arena, f):
    """A file's inode changed: an fsync has to store what the running transaction has."""
    arena[f + e.TID] = s.tid
