"""Look up a sequence of touches of one TLB set, unless the set is still as an earlier run left it.

Each content of a set (tags, marks) has a version: `MMU.known`, by row.  If no touch of a sequence missed, another run on the same
content changes nothing, so the sequence keeps the version and is skipped while the set has this version.  Code that changes a set
in another way marks its version as unknown (`tlb.py`).

A sequence that touches one page is also skipped if its set used this page last.
"""

from scmsim.jit import inlined, outlined
from scmsim.jit.vectors import copy8, copy8_bytes, same8, same8_bytes, touch8
from scmsim.mmu.state import BOTH, EMPTY, LRU, ROW_SHIFT, TREE
from scmsim.mmu.tlb import note_filled, touch, touch_tree
from scmsim.mmu.translate import missed, translate

SHORT = 8  # most slots of a set that has versions
NO_TAG = -2  # differs from each tag and from EMPTY
NO_VERSIONS = -1  # in place of a rule of replacement
_ALL = (1 << SHORT) - 1


@outlined
def look_up_sequence(s, c, m, pages, sequence):
    """Look up the touches of a sequence that must be looked up."""
    at, is_single, seen = sequence.row << ROW_SHIFT, sequence.tag != NO_TAG, 0
    settles = sequence.policy != NO_VERSIONS
    if not is_single:
        copy8(m.tags, 0, s.tag, at)
        copy8_bytes(m.marks, 0, s.mark, at)
    for k in range(sequence.first, sequence.end):
        page, number = pages[m.touches[k].page], m.touches[k].number
        if s.filling == BOTH and _hits(s, sequence, at, m.touches[k].tag, page):
            continue
        s.now += number - seen
        seen, settles = number, False
        kind = s.page[page.code, page.order]
        if s.filling == BOTH:
            missed(s, c, kind, page.vaddr, 0)
        else:
            translate(s, c, kind, page.vaddr, 0)
    s.now += sequence.count - seen
    # a sequence of one page is here only because its set did not use this page last, so it changed the set
    if is_single or s.known[sequence.row] == EMPTY or not _is_unchanged(s, m, at):
        m.version += 1
        s.known[sequence.row] = m.version
    if settles:
        sequence.was = s.known[sequence.row]


@inlined
def _is_unchanged(s, m, at):
    """Return whether the set at `at` is as it was copied."""
    return same8(s.tag, at, m.tags, 0) == _ALL and same8_bytes(s.mark, at, m.marks, 0) == _ALL


@inlined
def _hits(s, sequence, at, tag, page):
    """Do `tlb.touch` for a page of a sequence, with shortcuts for the usual rules, LRU and tree-PLRU."""
    if sequence.policy == LRU:
        if touch8(s.tag, at, tag, sequence.ways - 1) != 0:
            return True
        note_filled(s, at)
        return False
    if sequence.policy == TREE:
        return touch_tree(s, at, sequence.ways, sequence.recent, tag)
    return touch(s, s.array[page.l1], tag, page.number)
