"""One set-associative array: the building block of TLBs, page-walk caches and the caches of page-table entries.

Rules of replacement: LRU, FIFO, random (xorshift64, seeded), tree-PLRU, bit-PLRU (one bit per way; when the last bit is set,
all others are cleared; NRU), SRRIP with two bits (a new page at distance 2; Jaleel et al., ISCA 2010).  Every rule fills an
empty slot first.  For real TLBs see Tatar et al., TLB;DR, USENIX Security 2022.
"""

from scmsim.jit import inlined, outlined, subroutine
from scmsim.jit.vectors import find8, find16, pass_on16, touch8, touch16
from scmsim.mmu.state import BITS, EMPTY, FIFO, LRU, RANDOM, ROW_SHIFT, SRRIP, TREE

LANES = 16  # lanes of a row; a set of more ways has several rows
_NEAR, _LONG, _FAR = 0, 2, 3  # SRRIP: distance of a page just used, of a new page, of a page that may be replaced


@inlined
def first_slot(t, page):
    """Return the first slot of a page's set; `page` is the address without its sign extension >> log2 of the page size."""
    if t.mask >= 0:
        return t.first + ((page ^ (page >> t.fold)) & t.mask) * t.lanes
    return t.first + page % t.sets * t.lanes


@inlined
def recent_slot(t, at):
    """Return the slot that names the page used last in the set at `at`.

    Another use of that page changes nothing (under SRRIP, unless the page is new).
    """
    return t.recent + ((at - t.first) >> t.recent_shift)


@inlined
def note_filled(s, at):
    """Add the set at `at`, which receives a page, to the list of filled sets.

    A flush of everything empties only the sets of this list, because most sets are empty at most flushes.
    """
    if s.listed[at >> ROW_SHIFT] == 0:
        s.listed[at >> ROW_SHIFT] = 1
        s.filled_set[s.filled] = at
        s.filled += 1


@inlined
def note_changed(s, at):
    """Mark the version of the set at `at` as unknown, because the set changes or may change."""
    s.known[at >> ROW_SHIFT] = EMPTY


@inlined
def touch_row(s, t, tag, page):
    """Do `touch` for LRU and sets of up to 16 ways, without noting a filled or changed set."""
    return touch_set(s, t, tag, first_slot(t, page))


@inlined
def touch_set(s, t, tag, at):
    """Do `touch_row` for the set at `at`."""
    if t.lanes == 8:
        return touch8(s.tag, at, tag, t.ways - 1) != 0
    return touch16(s.tag, at, tag, t.ways - 1) != 0


@inlined
def touch_rows(s, t, tag, at):
    """Do `touch_set` for more than 16 ways: the last tag of each row moves on to the next row, until the tag is found."""
    first, end = tag, at + t.ways
    while at < end:
        goes_on = s.tag[at + LANES - 1]
        if pass_on16(s.tag, at, tag, min(LANES, end - at) - 1, first) != 0:
            return True
        first = goes_on
        at += LANES
    return False


@inlined
def touch_short(s, t, tag, page):
    """Do `touch` for LRU and sets of up to 16 ways."""
    at = first_slot(t, page)
    note_changed(s, at)
    if touch_set(s, t, tag, at):
        return True
    note_filled(s, at)
    return False


@subroutine
def touch(s, t, tag, page):
    """Look up the tag of page number `page` in array `t`, and insert the tag on a miss; return True on a hit."""
    if t.policy == LRU and t.lanes <= LANES:
        return touch_short(s, t, tag, page)
    if t.policy == TREE and t.lanes == 8:
        at = first_slot(t, page)
        note_changed(s, at)
        return touch_tree(s, at, t.ways, recent_slot(t, at), tag)
    return touch_otherwise(s, t, tag, page)


@subroutine
def touch_tree(s, at, ways, recent, tag):
    """Do `touch` for tree-PLRU and the set of up to 8 ways at `at`, without noting a changed set."""
    way = find8(s.tag, at, tag)
    is_hit = way >= 0
    if not is_hit:
        note_filled(s, at)
        way = find8(s.tag, at, EMPTY)
        if not 0 <= way < ways:
            way = victim_in_tree(s, at, ways)
        s.tag[at + way] = tag
    use_in_tree(s, at, ways, way)
    s.tag[recent] = tag
    return is_hit


@outlined
def touch_otherwise(s, t, tag, page):
    """Do `touch` for all other replacement rules and numbers of ways."""
    at = first_slot(t, page)
    note_changed(s, at)
    if t.policy == LRU:
        if touch_rows(s, t, tag, at):
            return True
        note_filled(s, at)
        return False
    if probe(s, t, tag, at):
        return True
    insert(s, t, tag, at)
    return False


@inlined
def way_of(s, t, tag, at):
    """Return the way that holds a tag, or -1 if no way does."""
    if t.lanes == 8:
        return find8(s.tag, at, tag)
    if t.lanes == 16:
        return find16(s.tag, at, tag)
    for row in range(0, t.ways, LANES):
        way = find16(s.tag, at + row, tag)
        if way >= 0:
            return row + way
    return -1


@outlined
def probe(s, t, tag, at):
    """Return whether the set at `at` has the tag; on a hit, update the replacement state."""
    way = way_of(s, t, tag, at)
    if way < 0:
        return False
    use(s, t, at, way, _NEAR)
    s.tag[recent_slot(t, at)] = tag
    return True


@subroutine
def use(s, t, at, way, distance):
    """Update the replacement state for the use of a way; `distance`, for SRRIP, is _NEAR for a hit, _LONG for a new page."""
    tags, marks = s.tag, s.mark
    if t.policy == LRU:
        tag = tags[at + way]
        for w in range(way, 0, -1):
            tags[at + w] = tags[at + w - 1]
        tags[at] = tag
    elif t.policy == TREE:
        use_in_tree(s, at, t.ways, way)
    elif t.policy == BITS:
        # bit-PLRU: when every bit is set, all but the newest are cleared
        marks[at + way] = 1
        for w in range(t.ways):
            if marks[at + w] == 0:
                return
        for w in range(t.ways):
            marks[at + w] = w == way
    elif t.policy == SRRIP:
        marks[at + way] = distance


@inlined
def use_in_tree(s, at, ways, way):
    """Update the tree of a tree-PLRU set for the use of a way; a node's bit names the half to be replaced next, not used now."""
    node = way + ways
    while node > 1:
        s.mark[at + (node >> 1)] = 1 - (node & 1)
        node >>= 1


@inlined
def victim_in_tree(s, at, ways):
    """Return the way that a full tree-PLRU set replaces next."""
    node = 1
    while node < ways:
        node = 2 * node + s.mark[at + node]
    return node - ways


@outlined
def insert(s, t, tag, at):
    """Insert a tag that the set at `at` does not have; return the evicted tag, or EMPTY."""
    tags, way = s.tag, t.ways - 1
    note_filled(s, at)
    if t.policy > FIFO:
        way = victim(s, t, at)
    # LRU and FIFO keep the order of the slots: the last page leaves, the new page comes first
    gone = tags[at + way]
    if t.policy <= FIFO:
        for w in range(way, 0, -1):
            tags[at + w] = tags[at + w - 1]
        way = 0
    tags[at + way] = tag
    if t.policy > FIFO:
        use(s, t, at, way, _LONG)
    s.tag[recent_slot(t, at)] = tag if t.policy != SRRIP else EMPTY
    return gone


@subroutine
def victim(s, t, at):
    """Return the way to be replaced under RANDOM, TREE, BITS, SRRIP."""
    marks, free_way = s.mark, way_of(s, t, EMPTY, at)
    if 0 <= free_way < t.ways:
        return free_way
    if t.policy == RANDOM:
        # xorshift64; the mask makes the signed right shift a logical one
        x = s.seed
        x ^= x << 13
        x ^= (x >> 7) & 0x1FFFFFFFFFFFFFF
        x ^= x << 17
        s.seed = x
        return ((x >> 20) & 0xFFFFFFFF) % t.ways
    if t.policy == TREE:
        return victim_in_tree(s, at, t.ways)
    if t.policy == BITS:
        for w in range(t.ways):
            if marks[at + w] == 0:
                return w
        return 0
    # SRRIP: age all pages until one is at the distance at which it may go
    while True:
        for w in range(t.ways):
            if marks[at + w] == _FAR:
                return w
        for w in range(t.ways):
            marks[at + w] += 1


@subroutine
def free(s, t, at, way):
    """Empty a way of the set at `at`."""
    tags = s.tag
    note_changed(s, at)
    if t.policy <= FIFO:
        for w in range(way, t.ways - 1):
            tags[at + w] = tags[at + w + 1]
        way = t.ways - 1
    tags[at + way] = EMPTY
    if t.policy != LRU:
        tags[recent_slot(t, at)] = EMPTY
    if t.policy == BITS or t.policy == SRRIP:
        s.mark[at + way] = 0
