"""A slab of kernel objects of one size: objects are adjacent, and the object freed last is allocated first.

Objects are numbered from 1.  The state holds an arena table with an entry for each object; the entry of a free object is the number
of the object freed before it.  Units: bytes.  Source: Linux 5.13 mm/slub.c: a slab of 2**order pages holds whole objects, and its
free list is a stack.  Left out: free lists per CPU and slab, and the delay of objects freed by RCU.
"""

from scmsim.fs.engine import table
from scmsim.fs.engine.events import State
from scmsim.jit import subroutine

FIELDS = [
    ("slab", "i8"),  # arena offset of the table's handle
    ("slab_top", "i8"),  # largest number that was ever in use
    ("slab_free", "i8"),  # number of the object freed last, 0 = none
]


def attach(state: State) -> None:
    """Set up an empty slab table."""
    record = state.record[0]
    record.slab = record.arena_top
    record.arena_top += table.HANDLE_WORDS


@subroutine
def words_to_hold(s, arena, count):
    """Return the maximum number of arena words that a `reserve` of `count` more objects allocates now."""
    return table.words_to_hold(arena, s.slab, s.slab_top + count + 1)


@subroutine
def reserve(s, arena, count):
    """Extend the slab's table for `count` more objects; the arena must have room (`words_to_hold`)."""
    table.reserve(s, arena, s.slab, s.slab_top + count + 1)


@subroutine
def allocate(s, arena):
    """Return the number of a new object, for which `reserve` has made room."""
    number = s.slab_free
    if number != 0:
        s.slab_free = table.get(arena, s.slab, number)
        return number
    s.slab_top += 1
    return s.slab_top


@subroutine
def free(s, arena, number):
    """Free an object."""
    table.put(arena, s.slab, number, s.slab_free)
    s.slab_free = number


@subroutine
def address(number, object_bytes, slab_bytes):
    """Return the byte offset of an object in the slabs; number 0 is never an object."""
    each = slab_bytes // object_bytes
    return number // each * slab_bytes + number % each * object_bytes
