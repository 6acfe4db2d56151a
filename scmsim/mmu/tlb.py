"""One set-associative array with exact LRU replacement: the part that TLBs and page-walk caches are made of.

A key is the address of a page without its sign extension | its size code.  Real TLBs replace by cheaper rules than
LRU (source: Tatar et al., TLB;DR, USENIX Security 2022); LRU is the common reference that miss counts can be checked
with.  Measured alternatives for a look-up of one of many pages: this form 5 to 7 ns; moving slots to keep them in LRU
order 7 to 25 ns; a time stamp per slot twice this form, because a miss searches the oldest.
"""

from scmsim._jit import part
from scmsim.mmu.state import EMPTY, NARROW, ROWS, SLOTS

_ONES = 0x111111111111111  # 15 nibbles of 1
_HIGH = 0x888888888888888


@part
def recent(s, t, key):
    """`touch`, if `key` is one of the four most recent of its set; False if not, and nothing is changed."""
    page = key >> t.order
    # the mask tells the compiler that no index is negative
    row = ((((page ^ (page >> t.fold)) & t.mask) << t.spread) + t.first) & (ROWS - 1)
    base, lru, tag = row * SLOTS, s.lru[row], s.tag
    if tag[base + (lru & 15)] == key:
        return True
    at = 4 * (tag[base + ((lru >> 4) & 15)] == key)
    at += 8 * (tag[base + ((lru >> 8) & 15)] == key)
    at += 12 * (tag[base + ((lru >> 12) & 15)] == key)
    if at == 0:
        return False
    upto = (16 << at) - 1
    s.lru[row] = (lru & ~upto) | ((lru & (upto >> 4)) << 4) | ((lru >> at) & 15)
    return True


@part
def touch(s, t, key, order):
    """Make `key` the most recent of its set, in place of the least recent if it is not there; True if it was there."""
    page = key >> order
    row = ((((page ^ (page >> t.fold)) & t.mask) << t.spread) + t.first) & (ROWS - 1)
    base, lru, tag, way, top = row * SLOTS, s.lru[row], s.tag, 0, 4 * t.ways - 4
    if t.ways > NARROW:  # the slots are in LRU order
        held = key
        for w in range(t.ways):
            other = tag[base + w]
            tag[base + w] = held
            if other == key:
                return True
            held = other
        return False
    # the count of 16 comes from the record: a constant would be unrolled first and then not be vectorised
    for w in range(s.lanes & 48):
        way += w + 1 if tag[base + w] == key else 0
    hit = way > 0
    if hit:
        way -= 1
        differs = lru ^ (way * _ONES)
        nibble = (differs - _ONES) & ~differs & _HIGH  # lowest bit set: top bit of the nibble that holds `way`
        upto = ((nibble & -nibble) << 1) - 1
    else:
        way, upto = (lru >> top) & 15, (16 << top) - 1
        tag[base + way] = key
    s.lru[row] = (lru & ~upto) | ((lru & (upto >> 4)) << 4) | way
    return hit


@part
def free(s, t, row, way):
    """Empty slot `way` of a set and make it the first to be used again."""
    base, last, lru = row * SLOTS, t.ways - 1, s.lru[row]
    s.tag[base + way] = EMPTY
    if last < NARROW:
        position = 0
        while (lru >> position) & 15 != way:
            position += 4
        moved = ((1 << 4 * last) - 1) & -(1 << position)  # the less recent ways move up by one
        s.lru[row] = (lru & ~(moved | 15 << 4 * last)) | ((lru >> 4) & moved) | way << 4 * last
        return
    for w in range(way, last):
        s.tag[base + w] = s.tag[base + w + 1]
        s.tag[base + w + 1] = EMPTY
