"""Advice of madvise on huge pages for a mapping: a list of page ranges that do not overlap.

Linux cuts the mapping at the edges of a range; here the mapping stays whole, and no huge page crosses an edge.
Source: Linux 5.13 mm/madvise.c: madvise_behavior, mm/khugepaged.c: hugepage_madvise, mm/huge_memory.c:
vma_adjust_trans_huge.
"""

from scmsim.fs.engine.arena import give, take
from scmsim.fs.mapping import tables
from scmsim.fs.mapping import words as w
from scmsim.jit import subroutine

# Fields of a range, one arena word each:
AFTER = 0  # next range; 0 if none
FROM = 1  # first page
TO = 2  # page after the last one
WHAT = 3  # ADVISED or ADVISED_AGAINST
RANGE_ORDER = 2
MIXED = -1
END = 1 << 40  # end of a range that reaches its mapping's end, so that it also covers pages that mremap adds later


@subroutine
def over(arena, mapping, first, stop):
    """Return the advice for the pages [first, stop) of a mapping: 0 if there is none, MIXED if the pages differ."""
    one, covered, what = arena[mapping + w.ADVICE], 0, 0
    while one:
        inside = min(arena[one + TO], stop) - max(arena[one + FROM], first)
        if inside > 0:
            if covered and arena[one + WHAT] != what:
                return MIXED
            covered, what = covered + inside, arena[one + WHAT]
        one = arena[one + AFTER]
    return what if covered == stop - first or covered == 0 else MIXED


@subroutine
def add(s, arena, mapping, low, high, what):
    """Prepend the advice `what` for the pages [low, high) to a mapping's list; allocates one range."""
    one = take(s, arena, RANGE_ORDER)
    arena[one + FROM], arena[one + TO], arena[one + WHAT] = low, high, what
    arena[one + AFTER], arena[mapping + w.ADVICE] = arena[mapping + w.ADVICE], one


@subroutine
def drop(s, arena, mapping, low, high):
    """Remove the advice for the pages [low, high) of a mapping; may allocate one more range."""
    at = mapping + w.ADVICE
    while arena[at]:
        one = arena[at]
        begin, end = arena[one + FROM], arena[one + TO]
        if low <= begin and end <= high:
            arena[at] = arena[one + AFTER]
            give(s, arena, one, RANGE_ORDER)
            continue
        if begin < low < end:
            arena[one + TO] = low
        if low <= begin < high:
            arena[one + FROM] = high
        # a range that loses its middle becomes two ranges
        if begin < low and high < end:
            add(s, arena, mapping, high, end, arena[one + WHAT])
        at = one + AFTER


@subroutine
def set_advice(s, arena, out, mapping, span, what):
    """Set the advice for the pages span = (low, high) of a mapping; emits at most 4 events, allocates at most two ranges.

    A 2 MiB entry that crosses an edge of the range is removed (vma_adjust_trans_huge).
    """
    low, high = span
    first, stop = arena[mapping + w.FIRST_PAGE], arena[mapping + w.FIRST_PAGE] + arena[mapping + w.PAGE_COUNT]
    if over(arena, mapping, low, high) == what:
        return
    drop(s, arena, mapping, low, END if high == stop else high)
    add(s, arena, mapping, low, END if high == stop else high, what)
    for edge in span:
        if first < edge < stop and over(arena, mapping, edge - 1, edge + 1) == MIXED:
            inside = tables.address_of(arena, mapping, edge) & w.HUGE_PAGE - 1
            if inside and arena[tables.slot_at(arena, mapping, edge)] & w.PRESENT:
                tables.zap(s, arena, out, mapping, edge, edge + 1)


@subroutine
def copy(s, arena, source, target):
    """Copy a mapping's advice to a mapping without advice."""
    one = arena[source + w.ADVICE]
    while one:
        add(s, arena, target, arena[one + FROM], arena[one + TO], arena[one + WHAT])
        one = arena[one + AFTER]


@subroutine
def words_to_copy(arena, mapping):
    """Return the maximum number of arena words that `copy` or `set_advice` allocates."""
    words, one = 2 << RANGE_ORDER, arena[mapping + w.ADVICE]
    while one:
        words, one = words + (1 << RANGE_ORDER), arena[one + AFTER]
    return words
