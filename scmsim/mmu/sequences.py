"""A chunk of touches -> sequences of touches of one set each, built when the chunk is first needed.

The touches of fixed pages go through one set after another, in the order in which the sets first appear; the touches of
objects follow in their own order, cut where the set changes.  Many chunks share sequences, so each sequence is stored once.
A sequence keeps only the touches that must be looked up (`needless.py`).
"""

from scmsim.jit import outlined, subroutine
from scmsim.mmu.look_up import NO_TAG, NO_VERSIONS
from scmsim.mmu.needless import mark_needed
from scmsim.mmu.state import BITS, ROW_SHIFT

ANY = -2  # key of a chunk's arrangement that fits all objects: the chunk touches none
NONE = -1


@outlined
def arranged(known, number, piece, key):
    """Set a chunk's sequences for the objects of a slice, identified by `key`; build the sequences if they are new."""
    m, chunk = known.memo[0], known.chunks[number]
    at = chunk.arranged
    while at != NONE and m.arranged[at].key != key:
        at = m.arranged[at].next
    if at == NONE:
        room = known.rows.size
        if (
            m.order_used + room > m.order.size or m.touches_used + room > m.touches.size
            or m.sequences_known + room > m.sequences.size or m.lists == m.arranged.size
        ):  # fmt: skip
            forget_all(known)
        at = m.lists
        m.lists += 1
        made = m.arranged[at]
        made.first, made.next = m.order_used, chunk.arranged
        own = _arrange(known, number, piece)
        made.end, made.key = m.order_used, key if own else ANY
        chunk.arranged = at
    chunk.key, chunk.first, chunk.end = m.arranged[at].key, m.arranged[at].first, m.arranged[at].end


@subroutine
def forget_all(known):
    """Forget all sequences."""
    m = known.memo[0]
    m.order_used, m.touches_used, m.sequences_known, m.lists = 0, 0, 0, 0
    m.sequence_slots[:] = 0
    for k in range(len(known.chunks)):
        known.chunks[k].arranged, known.chunks[k].key = NONE, NONE


@subroutine
def _arrange(known, number, piece):
    """Make the sequences of a chunk; return whether the chunk touches objects."""
    m, chunk, rows = known.memo[0], known.chunks[number], known.rows
    first, end = known.bounds[number], known.bounds[number + 1]
    count, chunk.stores = 0, 0
    for t in range(first, end):
        touch = int(known.touches[t])
        chunk.stores += touch & 1
        if known.pages[touch].kind == 0:
            rows[count] = touch
            count += 1
    chunk.loads = end - first - chunk.stores
    sets = _mark_by_set(known, count)
    for k in range(sets):
        t, place, begins = known.heads[k], 0, m.touches_used
        while t != NONE:
            if known.kept[t]:
                _keep(m, known.pages, rows[t], place)
            place += 1
            t = known.links[t]
        _end(m, known.pages, begins, place)
    fixed, count = count, 0
    for t in range(first, end):
        touch = int(known.touches[t])
        page = known.pages[touch]
        if page.kind > 0:
            which = min(piece.objects[page.which], known.objects.shape[1] - 1)
            rows[count] = known.objects[page.kind - 1, which] << 1 | touch & 1
            count += 1
    _mark_by_set(known, count)
    begins, passed = m.touches_used, 0
    for t in range(count):
        if known.kept[t]:
            if m.touches_used > begins and known.pages[rows[t]].at != known.pages[m.touches[begins].page].at:
                _end(m, known.pages, begins, t - passed)
                begins, passed = m.touches_used, t
            _keep(m, known.pages, rows[t], t - passed)
    if count > 0:
        _end(m, known.pages, begins, count - passed)
    return fixed < end - first


@subroutine
def _mark_by_set(known, count):
    """Mark which of the first `count` rows must be looked up; return the number of sets.

    heads[k] is the first row of a set, links[t] the next row of the same set after row t.
    """
    sets, rows, last = 0, known.rows, known.last
    for t in range(count):
        at = known.pages[rows[t]].at >> ROW_SHIFT
        known.links[t] = NONE
        if last[at] == NONE:
            known.heads[sets] = t
            sets += 1
        else:
            known.links[last[at]] = t
        last[at] = t
    for k in range(sets):
        t, n = known.heads[k], 0
        last[known.pages[rows[t]].at >> ROW_SHIFT] = NONE
        while t != NONE:
            known.some[n] = rows[t]
            n += 1
            t = known.links[t]
        mark_needed(known.some_kept[:n], known.uses, known.stretch, known.pages, known.some[:n])
        t, n = known.heads[k], 0
        while t != NONE:
            known.kept[t] = known.some_kept[n]
            n += 1
            t = known.links[t]
    return sets


@subroutine
def _keep(m, pages, row, place):
    """Append a touch to the sequence that is being made."""
    made = m.touches[m.touches_used]
    made.tag, made.page, made.number = pages[row].tag, row, place
    m.touches_used += 1


@subroutine
def _end(m, pages, begins, count):
    """End the sequence of the touches from `begins` on; reuse an equal sequence if there is one.

    `count` is the number of its touches, dropped ones included.
    """
    mixed, kept, mask = int(count), m.touches_used - begins, m.sequence_slots.size - 1
    for k in range(begins, m.touches_used):
        mixed = (mixed << 5 ^ mixed >> 40 ^ int(m.touches[k].page) << 12 ^ int(m.touches[k].number)) & (1 << 60) - 1
    mixed ^= mixed >> 32
    slot = (mixed ^ mixed >> 15) & mask
    while m.sequence_slots[slot] > 0:
        found = m.sequences[m.sequence_slots[slot] - 1]
        if found.count == count and found.end - found.first == kept and _same(m, found.first, begins, kept):
            m.touches_used = begins
            break
        slot = (slot + 1) & mask
    else:
        page, made = pages[m.touches[begins].page], m.sequences[m.sequences_known]
        made.row, made.count = page.at >> ROW_SHIFT, count
        made.first, made.end, made.was = begins, m.touches_used, 0
        # bit-PLRU has no versions because a touch may clear the marks of earlier touches
        has_versions = page.is_short and page.policy != BITS
        made.policy, made.ways = page.policy if has_versions else NO_VERSIONS, page.ways
        made.recent, made.tag = page.recent, page.tag if kept == 1 else NO_TAG
        m.sequences_known += 1
        m.sequence_slots[slot] = m.sequences_known
    m.order[m.order_used] = m.sequence_slots[slot] - 1
    m.order_used += 1


@subroutine
def _same(m, one, other, count):
    """Return whether the `count` touches from `one` and from `other` are equal."""
    for k in range(count):
        if (
            m.touches[one + k].page != m.touches[other + k].page
            or m.touches[one + k].number != m.touches[other + k].number
        ):
            return False
    return True
