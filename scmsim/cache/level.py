"""Look up, insert and remove lines in one level of the caches.

A slot holds an entry: line number << 1, plus 1 if the line is dirty.  One vector operation (`scmsim.jit.vectors`) finds a line,
moves it to the front of its set, and returns the entry that left the set.
"""

import numpy as np

from scmsim.cache.state import EMPTY, FOUND
from scmsim.jit import inlined, subroutine
from scmsim.jit.vectors import enter_marked8, enter_marked16, find_marked8, find_marked16, pass_on16

_LANES = 16


@inlined
def first_slot(t, entry):
    """Return the first slot of the set to which an entry's line belongs."""
    line = entry >> 1
    if t.mask >= 0:
        return t.first + (line & t.mask) * t.lanes
    # unsigned, because Python's remainder of signed numbers compiles to more instructions
    return t.first + np.int64(np.uint64(line) % np.uint64(t.sets)) * t.lanes


@inlined
def enter(arena, t, entry):
    """Move a line to the front of its set, or insert the line there; the line becomes dirty if `entry` is dirty.

    Return FOUND if the level had the line, else the entry that was evicted, or EMPTY.
    """
    at = first_slot(t, entry)
    if t.lanes == 8:
        return enter_marked8(arena, at, entry, t.ways - 1)
    if t.lanes == _LANES:
        return enter_marked16(arena, at, entry, t.ways - 1)
    return enter_rows(arena, t, at, entry)


@subroutine
def enter_rows(arena, t, at, entry):
    """Do `enter` for a set of several rows; each row's last line moves to the next row until the line is found."""
    lane = lane_in_rows(arena, t, at, entry)
    old = arena[at + (t.ways - 1 if lane < 0 else lane)]
    first, end = entry if lane < 0 else entry | old & 1, at + t.ways
    for row in range(at, end, _LANES):
        goes_on = arena[row + _LANES - 1]
        if pass_on16(arena, row, old if lane >= 0 else entry, min(_LANES, end - row) - 1, first) != 0:
            break
        first = goes_on
    return FOUND if lane >= 0 else old


@inlined
def slot_of(arena, t, entry):
    """Return the slot of an entry's line; -1 if the level does not have the line."""
    at = first_slot(t, entry)
    if t.lanes == 8:
        lane = find_marked8(arena, at, entry)
    elif t.lanes == _LANES:
        lane = find_marked16(arena, at, entry)
    else:
        lane = lane_in_rows(arena, t, at, entry)
    return at + lane if lane >= 0 else -1


@subroutine
def lane_in_rows(arena, t, at, entry):
    """Return the position of a line in a set of several rows, from its slot `at` on; -1 if it is not there."""
    for row in range(0, t.ways, _LANES):
        lane = find_marked16(arena, at + row, entry)
        if lane >= 0:
            return row + lane
    return -1


@inlined
def remove(arena, t, entry):
    """Remove a line; return 1 if it was dirty, 0 if it was clean, -1 if it was not there.

    The set's next new line fills the slot.
    """
    slot = slot_of(arena, t, entry)
    if slot < 0:
        return -1
    return take_out(arena, t, slot)


@subroutine
def take_out(arena, t, slot):
    """Remove the line of a slot; return 1 if it was dirty, else 0."""
    dirty = arena[slot] & 1
    last = t.first + (slot - t.first) // t.lanes * t.lanes + t.ways - 1
    for k in range(slot, last):
        arena[k] = arena[k + 1]
    arena[last] = EMPTY
    return dirty


@inlined
def move_out(arena, t, entry):
    """Do `remove` without moving the other lines of the set, for a level that is filled by `fill_hole`."""
    if t.lanes > _LANES:
        return remove(arena, t, entry)
    slot = slot_of(arena, t, entry)
    if slot < 0:
        return -1
    dirty = arena[slot] & 1
    arena[slot] = EMPTY
    return dirty


@inlined
def fill_hole(arena, t, entry):
    """Do `enter` for a line that the level does not have, using an empty slot of its set if there is one.

    Slots beyond the number of ways are always empty and must not be used.
    """
    at, last = first_slot(t, entry), t.ways - 1
    if t.lanes == 8:
        hole = find_marked8(arena, at, EMPTY)
        return enter_marked8(arena, at, entry, last if hole < 0 else min(hole, last))
    if t.lanes == _LANES:
        hole = find_marked16(arena, at, EMPTY)
        return enter_marked16(arena, at, entry, last if hole < 0 else min(hole, last))
    return enter_rows(arena, t, at, entry)


@inlined
def clean(arena, t, entry):
    """Make a line clean; return 1 if it was dirty, else 0."""
    slot = slot_of(arena, t, entry)
    if slot < 0:
        return 0
    dirty = arena[slot] & 1
    arena[slot] ^= dirty
    return dirty
