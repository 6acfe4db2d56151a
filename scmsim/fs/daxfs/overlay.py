"""The hash table and the pool: probes, insertions, and allocations of entries and pages.

Open addressing with linear probing, and no key is ever removed.  So the distance of a key's bucket from
its home never changes after the insertion, and the model needs only a bitmap of used buckets.
Source: daxfs/overlay.c.
"""

import numpy as np

from scmsim.alloc.bitmap import lowest_bit
from scmsim.fs.daxfs import templates
from scmsim.fs.engine import table
from scmsim.fs.engine.events import emit_template
from scmsim.fs.linux import templates as q
from scmsim.jit import subroutine

_PAGE = templates.PAGE
_ONE = np.int64(1)  # not int: the int 1 << 63 does not fit an int64
INODE_KEY, LIST_KEY = 0xFFFFF, 0xFFFFE  # page numbers in the keys of an inode's entry and of its list of names


@subroutine
def home_of(s, ino, page):
    """Return the home bucket of an inode's page, INODE_KEY or LIST_KEY: the key's low bits (DAXFS_OVL_KEY_DATA)."""
    return (ino << 20) + page & s.bucket_count - 1


@subroutine
def home_of_name(s, number):
    """Return the home bucket of a name; here a mix of its number replaces DaxFS's FNV-1a hash of directory and name."""
    mixed = (number + 1) * 2654435761 & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 16) * 73244475 & 0xFFFFFFFF
    return (mixed ^ mixed >> 15) & s.bucket_count - 1


@subroutine
def set_probe(s, home, count):
    """Set the registers for the loads of `count` buckets, starting at a home bucket."""
    before_end = min(count, s.bucket_count - home)
    s.reg[q.PROBES] = count
    s.reg[templates.AT], s.reg[q.BYTES] = templates.TABLE + home * templates.BUCKET, before_end * templates.BUCKET
    s.reg[templates.REST] = (count - before_end) * templates.BUCKET


@subroutine
def probe(s, out, home, distance):
    """Emit overlay_lookup of a key in the table: load the buckets from its home bucket to its own; at most 3 events."""
    set_probe(s, home, distance + 1)
    emit_template(s, out, templates.PROBE)


@subroutine
def distance_to_free(s, arena, home):
    """Return how many buckets are between a home bucket and the first free one, which exists."""
    at = home
    while True:
        free = ~arena[s.used + (at >> 6)] >> (at & 63)
        if free:
            return at + lowest_bit(free) - home & s.bucket_count - 1
        at = (at | 63) + 1 & s.bucket_count - 1


@subroutine
def miss(s, arena, out, home):
    """Emit overlay_lookup of a key that is not in the table; emits at most 3 events."""
    probe(s, out, home, distance_to_free(s, arena, home))


@subroutine
def claim(s, arena, home):
    """Take the first free bucket from a home bucket on; return the distance."""
    distance = distance_to_free(s, arena, home)
    at = home + distance & s.bucket_count - 1
    arena[s.used + (at >> 6)] |= _ONE << (at & 63)
    s.entries += 1
    return distance


@subroutine
def insert(s, arena, out, home):
    """Emit overlay_insert of a new key; return the distance of its bucket; emits at most 8 events."""
    distance = claim(s, arena, home)
    probe(s, out, home, distance)
    s.reg[templates.AT] = templates.TABLE + (home + distance & s.bucket_count - 1) * templates.BUCKET
    emit_template(s, out, templates.INSERT)
    return distance


@subroutine
def pages_ahead(s):
    """Return how many whole pages follow the allocated part of the pool."""
    return max(s.pool_size - (s.pool_alloc + _PAGE - 1 & ~(_PAGE - 1)), 0) >> 12


@subroutine
def note_free(s):
    """Recompute `free_blocks` after a change of the pool."""
    s.free_blocks = pages_ahead(s) + s.freed


@subroutine
def has_entries(s, arena, size, keys):
    """Return whether the pool has `size` bytes for entries, and the table a bucket for each of `keys`.

    With gaps = filled, a freed page holds entries once the pool's end is reached.
    """
    if s.entries + keys >= s.bucket_count:
        return False
    if s.pool_alloc + size <= s.pool_size or s.spare_left >= size:
        return True
    if not s.filled or s.freed == 0:
        return False
    s.freed -= 1
    s.spare_at, s.spare_left = s.pool_at + (table.get(arena, s.stack, s.freed) << 12), _PAGE
    note_free(s)
    return True


@subroutine
def take_bytes(s, size):
    """Allocate `size` bytes for an entry (the caller checked that they are free); return their device offset."""
    if s.spare_left >= size:
        s.spare_left -= size
        return s.spare_at + s.spare_left
    at = s.pool_at + s.pool_alloc
    s.pool_alloc += size
    note_free(s)
    return at


@subroutine
def take_entry(s, out, size):
    """Allocate a pool entry of `size` bytes, never a freed one; return its device offset; emits at most 3 events."""
    emit_template(s, out, templates.BUMP)
    return take_bytes(s, size)


@subroutine
def take_pages(s, count):
    """Allocate `count` adjacent pages, aligned to 4 KiB, at the pool's end; return the first one's number in the pool."""
    first = s.pool_alloc + _PAGE - 1 >> 12
    s.pool_alloc = first + count << 12
    note_free(s)
    return first


@subroutine
def take_page(s, arena, out):
    """Allocate one page, from the free list if possible, else at the pool's end; return its number; at most 4 events."""
    if s.freed == 0:
        emit_template(s, out, templates.BUMP)
        return take_pages(s, 1)
    s.freed -= 1
    page = table.get(arena, s.stack, s.freed)
    s.reg[templates.AT] = s.pool_at + (page << 12)
    emit_template(s, out, templates.POP)
    note_free(s)
    return page


@subroutine
def push_page(s, arena, out, page):
    """Put a page on the free list, whose table the caller has enlarged; emits at most 4 events."""
    table.put(arena, s.stack, s.freed, page)
    s.freed += 1
    s.reg[templates.AT] = s.pool_at + (page << 12)
    emit_template(s, out, templates.PUSH)
    note_free(s)
