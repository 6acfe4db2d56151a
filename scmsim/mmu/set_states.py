"""Memoised effects of touch sequences on a TLB set, keyed by the set's state.

A sequence of touches of one set finds the set in some state and leaves it in another; on the way some of its touches
miss.  The misses and the new state depend only on the sequence and the old state (the tags and marks of the slots).  So
states are numbered, a hash table has the transitions of all sequences, and `MMU.known` has the state number of each
set.  Code that changes a set in another way marks its state as unknown (`tlb.py`).  A known transition costs one
comparison; its misses go to the second level as they did the first time.

Three cases are not memoised: sets of more than 8 slots; random replacement, because its victims do not depend on the set alone;
and machines whose second level affects what enters the first level.
"""

from scmsim.jit import inlined, outlined, subroutine
from scmsim.jit.vectors import copy8, copy8_bytes, same8, same8_bytes, touch8
from scmsim.mmu.state import BOTH, EMPTY, LRU, ROW_SHIFT
from scmsim.mmu.tlb import note_filled, touch
from scmsim.mmu.translate import missed, translate

SHORT = 8  # most slots of a set whose states are numbered
ALL = (1 << SHORT) - 1
NONE = -1


@subroutine
def recall(s, m, sequence):
    """Set the sequence's transition to that from its set's current state; return False if the transition is unknown."""
    if not sequence.is_numbered:
        return False
    now = s.known[sequence.row]
    if now == EMPTY:
        # usually the set is still in the state that the sequence saw last, so try that state before hashing
        if is_state(s, m, sequence.row, sequence.was):
            now = sequence.was
        else:
            make_room(s, m, 0)
            now = number_of(s, m, sequence.row)
        s.known[sequence.row] = now
    at = m.transition_slots[slot_of(m, sequence.first, now)]
    if at > 0:
        found = m.transitions[at - 1]
        sequence.was, sequence.becomes, sequence.idle = now, found.becomes, found.idle
        sequence.missed, sequence.missed_behind = found.missed, found.missed_behind
    return at > 0


@subroutine
def slot_of(m, first, was):
    """Return the hash table's slot for a transition: of the sequence that begins at touch `first`, from state `was`.

    The slot is empty if the transition is unknown.
    """
    mask, mixed = m.transition_slots.size - 1, int(first) * 0x9E3779B1 + int(was) * 0x85EBCA6B
    slot = (mixed ^ mixed >> 17) & mask
    while m.transition_slots[slot] > 0:
        found = m.transitions[m.transition_slots[slot] - 1]
        if found.first == first and found.was == was:
            break
        slot = (slot + 1) & mask
    return slot


@subroutine
def is_state(s, m, row, number):
    """Return whether a set is in the state with this number."""
    at, there = row << ROW_SHIFT, int(number) * SHORT
    return same8(s.tag, at, m.tags, there) == ALL and same8_bytes(s.mark, at, m.marks, there) == ALL


@outlined
def number_of(s, m, row):
    """Return the number of a set's current state, assigning a number if the state is new."""
    at, mixed, mask = row << ROW_SHIFT, 0, m.state_slots.size - 1
    for way in range(SHORT):
        mixed ^= (int(s.tag[at + way]) >> 11 ^ int(s.mark[at + way])) << 7 * way
    mixed ^= mixed >> 32
    slot = (mixed ^ mixed >> 15) & mask
    while m.state_slots[slot] > 0:
        if is_state(s, m, row, m.state_slots[slot]):
            return m.state_slots[slot]
        slot = (slot + 1) & mask
    number = m.states + 1
    copy8(m.tags, number * SHORT, s.tag, at)
    copy8_bytes(m.marks, number * SHORT, s.mark, at)
    m.states, m.state_slots[slot] = number, number
    return number


@subroutine
def play(s, c, m, sequence):
    """Apply the recorded transition of a sequence: the misses and the new state of its set."""
    seen = 0
    for k in range(sequence.missed, sequence.missed_behind):
        miss = m.missed[k]
        s.now += miss.number - seen
        seen = miss.number
        missed(s, c, s.page[miss.code, miss.order], miss.vaddr, 0)
    s.now += sequence.count - seen
    at, there = sequence.row << ROW_SHIFT, int(sequence.becomes) * SHORT
    if sequence.missed < sequence.missed_behind:
        note_filled(s, at)
    copy8(s.tag, at, m.tags, there)
    copy8_bytes(s.mark, at, m.marks, there)
    s.tag[sequence.recent] = m.recent[sequence.becomes]
    s.known[sequence.row] = sequence.becomes


@outlined
def look_up_sequence(s, c, m, pages, sequence):
    """Look up the touches of a sequence that must be looked up, and record the transition."""
    if not sequence.is_numbered:
        _look_up(s, c, m, pages, sequence)
        return
    make_room(s, m, sequence.end - sequence.first)
    was = s.known[sequence.row]
    if was == EMPTY:
        was = number_of(s, m, sequence.row)
    first = m.misses
    _look_up(s, c, m, pages, sequence)
    becomes = number_of(s, m, sequence.row)
    s.known[sequence.row], m.recent[becomes] = becomes, s.tag[sequence.recent]
    new = m.transitions[m.count]
    new.was, new.becomes, new.idle = was, becomes, was == becomes and first == m.misses
    new.missed, new.missed_behind, new.first = first, m.misses, sequence.first
    sequence.was, sequence.becomes, sequence.idle = was, becomes, new.idle
    sequence.missed, sequence.missed_behind = first, m.misses
    m.count += 1
    m.transition_slots[slot_of(m, sequence.first, was)] = m.count


@inlined
def _look_up(s, c, m, pages, sequence):
    """Look up the touches of a sequence; append its misses to the list of misses."""
    seen = 0
    for k in range(sequence.first, sequence.end):
        number = m.touches[k].number
        page = pages[m.touches[k].page]
        if s.filling == BOTH and hits(s, page):
            continue
        s.now += number - seen
        seen = number
        kind = s.page[page.code, page.order]
        if s.filling == BOTH:
            miss = m.missed[m.misses]
            miss.vaddr, miss.code, miss.order, miss.number = page.vaddr, page.code, page.order, number
            m.misses += sequence.is_numbered
            missed(s, c, kind, page.vaddr, 0)
        else:
            translate(s, c, kind, page.vaddr, 0)
    s.now += sequence.count - seen


@inlined
def hits(s, page):
    """Do `tlb.touch` for a page whose set is known, with a shortcut for LRU, which most first levels have."""
    if page.policy == LRU:
        if touch8(s.tag, page.at, page.tag, page.ways - 1) != 0:
            return True
        note_filled(s, page.at)
        return False
    return touch(s, s.array[page.l1], page.tag, page.number)


@subroutine
def make_room(s, m, misses):
    """Forget all states and transitions if there may be no space for two states, a transition and its misses."""
    full = m.states + 3 > m.recent.size or m.count == m.transitions.size or m.misses + misses >= m.missed.size
    if full:
        forget(s, m)


@outlined
def forget(s, m):
    """Forget all states and transitions."""
    m.states, m.count, m.misses = 0, 0, 0
    s.known[:] = EMPTY
    m.state_slots[:] = 0
    m.transition_slots[:] = 0
    for k in range(m.sequences_known):
        m.sequences[k].was = 0
