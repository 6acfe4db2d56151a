"""Touches of pages that are known before a replay -> look-ups, without an event each.

A table of touches is made ready for a machine once.  It is cut into chunks, each part of a call.  A slice of it (records.SLICE)
comes ahead of an event: some chunks, one look-up a touch, in the row of the counters that the event has.  The touches of a chunk
go through one set of a first-level array after the other, and on to the second level in that order.

The touches of a chunk to a set are a sequence, and many chunks have the same ones.  Where the pages of a sequence lie as it leaves
them, all its touches hit and change nothing: one comparison tells, or two where marks say what goes next.  Else those are looked up
that need be (`needless.py`).  All pages lie in the kernel's half of the address space.
"""

import itertools
from typing import NamedTuple

import numpy as np

from scmsim.core.records import LOAD, STORE
from scmsim.jit import inlined, kernel, subroutine
from scmsim.jit.vectors import find8, same8, same8_bytes, touch8
from scmsim.mmu.columns import BLOCK, LOOKUPS
from scmsim.mmu.needless import MOST, needed
from scmsim.mmu.state import ADDRESS, BOTH, LRU, ON_WALK, SRRIP, TREE
from scmsim.mmu.tlb import note_filled, touch, use
from scmsim.mmu.translate import missed, translate

PLACE = np.dtype(
    [
        ("vaddr", "i8"),
        ("order", "i8"),  # log2 of the page size
        ("kind", "i8"),  # not 0: the page that an object of this kind has, from 1
        ("which", "i8"),  # which of a slice's objects that is
    ]
)
PAGE = np.dtype(  # of PLACE: as loads have it, then as stores do
    (
        np.record,
        [
            ("tag", "i8"),  # in the first level
            ("number", "i8"),
            ("vaddr", "i8"),
            ("l1", "i4"),
            ("at", "i4"),  # first slot of its set
            ("recent", "i4"),  # slot that names the page used last there
            ("ways", "i4"),
            ("policy", "i4"),  # _NO_SHORT_WAY if a set has more than 8 slots
            ("way", "i4"),  # where it was found last
            ("order", "i4"),
            ("kind", "i4"),
            ("which", "i4"),
        ],
    )
)
TOUCH = np.dtype((np.record, [("page", "i4"), ("number", "i4")]))  # row of PAGE; number of the touch in its sequence
SEQUENCE = np.dtype(
    (
        np.record,
        [
            ("at", "i4"),  # first slot of its set
            ("slots", "i4"),  # a bit for each slot that its pages have behind it; _NEVER: not known, _NOT_YET
            ("nodes", "i4"),  # a bit for each mark that it sets
            ("first", "i4"),  # of the touches that are looked up
            ("behind", "i4"),
            ("count", "i4"),  # of all its touches
        ],
    )
)
CHUNK = np.dtype((np.record, [("first", "i4"), ("behind", "i4"), ("loads", "i4"), ("stores", "i4")]))

_SHORT = 8  # slots of a set that is handled as one vector
_NO_SHORT_WAY = -1
_NEVER, _NOT_YET = 1 << _SHORT, 2 << _SHORT  # bits of no slot


class Table(NamedTuple):
    """Touches made ready for a machine.

    Attributes
    ----------
    pages : array of PAGE
        By number of the page << 1 | whether it is stored to.
    chunks : array of CHUNK
        Which part of `order` is theirs.
    order : int32 array
        Numbers of sequences.
    sequences : array of SEQUENCE
    tags : int64 array
        Of the slots of its set behind a sequence, 8 for each; under TREE as it was seen last.
    marks : uint8 array
        The same.
    touches : array of TOUCH
        Those that are looked up, by sequence.
    objects : int32 array
        Numbers of pages, by kind and number of the object.
    """

    pages: np.ndarray
    chunks: np.ndarray
    order: np.ndarray
    sequences: np.ndarray
    tags: np.ndarray
    marks: np.ndarray
    touches: np.ndarray
    objects: np.ndarray


def table(state: np.ndarray, places: np.ndarray, touches: np.ndarray, bounds: np.ndarray, objects: np.ndarray) -> Table:
    """Make touches ready for the machine of a state.

    Parameters
    ----------
    state : array of state.MMU, shape (1,)
    places : array of PLACE
    touches : int array
        Number of the place << 1 | whether it is stored to.
    bounds : int array
        The first touch of each chunk, in order, and the number of all touches.
    objects : int array
        Numbers of places, by kind and number of the object; the last stands for all further ones.
    """
    pages = _on_machine(state[0], places)
    own = pages["kind"] > 0
    chunks, rows = np.zeros(len(bounds) - 1, CHUNK), np.zeros(len(touches), np.int32)
    ends = np.zeros(len(touches) + 1, np.int64)
    sets = np.where(own, -1, pages["at"])
    count = _by_set(touches, bounds, sets, np.zeros(len(touches), np.bool_), (chunks, rows, ends))
    distinct: dict[bytes, int] = {}
    pieces = (rows[a:b].tobytes() for a, b in itertools.pairwise(ends[: count + 1].tolist()))
    order = np.array([distinct.setdefault(piece, len(distinct)) for piece in pieces], np.int32)
    rows = np.frombuffer(b"".join(distinct), np.int32)
    ends = np.cumsum([0, *map(len, distinct)]) // rows.itemsize
    # what objects' pages may share a set with is not known, but it is never more than they are
    names = np.where(own, -1 - np.arange(len(pages)), pages["tag"])
    kept = needed(rows, ends, names, _sure(state[0], pages, objects))
    looked_up = np.append(0, np.cumsum(kept))[ends]
    sequences, tags = np.zeros(len(distinct), SEQUENCE), np.zeros(len(distinct) * _SHORT, np.int64)
    sequences["first"], sequences["behind"], sequences["count"] = looked_up[:-1], looked_up[1:], np.diff(ends)
    _leave(pages, rows, ends, sequences, tags)
    chosen = np.zeros(looked_up[-1], TOUCH)
    chosen["page"], chosen["number"] = rows[kept], (np.arange(len(rows)) - np.repeat(ends[:-1], np.diff(ends)))[kept]
    return Table(pages, chunks, order, sequences, tags, np.zeros(len(tags), np.uint8), chosen, objects.astype(np.int32))


NOTHING = Table(
    np.zeros(0, PAGE), np.zeros(0, CHUNK), np.zeros(0, np.int32), np.zeros(0, SEQUENCE), np.zeros(0, np.int64),
    np.zeros(0, np.uint8), np.zeros(0, TOUCH), np.zeros((0, 1), np.int32),
)  # fmt: skip


@kernel
def _by_set(touches, bounds, sets, taken, out):
    """Put the touches of each chunk in the order of their sets, as these come; sets[row] = -1 comes last.

    `out`: the chunks, rows of the ordered touches, and where each sequence begins.  Returns how many sequences there are.
    """
    chunks, rows, begins = out
    at, count = 0, 0
    for c in range(len(chunks)):
        chunk, end = chunks[c], bounds[c + 1]
        chunk.first = count
        for own in range(2):
            for t in range(bounds[c], end):
                if taken[t] or (sets[touches[t]] < 0) != (own == 1):
                    continue
                begins[count] = at
                count += 1
                for u in range(t, end):
                    if sets[touches[u]] == sets[touches[t]]:
                        rows[at], taken[u] = touches[u], True
                        at += 1
        for t in range(bounds[c], end):
            chunk.stores += touches[t] & 1
        chunk.behind, chunk.loads = count, end - bounds[c] - chunk.stores
    begins[count] = at
    return count


@kernel
def _leave(pages, rows, ends, sequences, tags):
    """Say what each sequence leaves in its set: its pages, the last one first, if there are not too many."""
    for k in range(len(sequences)):
        sequence, page, count = sequences[k], pages[rows[ends[k]]], 0
        sequence.at, sequence.slots = page.at, _NEVER
        if page.kind > 0 or (page.policy != LRU and page.policy != TREE):
            continue
        for t in range(ends[k + 1] - 1, ends[k] - 1, -1):
            known, tag = False, pages[rows[t]].tag
            for i in range(_SHORT * k, _SHORT * k + min(count, page.ways)):
                known |= tags[i] == tag
            if not known:
                if count < page.ways:
                    tags[_SHORT * k + count] = tag
                count += 1
        if count <= page.ways:
            sequence.slots = (1 << count) - 1 if page.policy == LRU else _NOT_YET


def _sure(s: np.void, pages: np.ndarray, objects: np.ndarray) -> np.ndarray:
    """How many pages surely stay in the set of each page, see `needless`; none where a hit of the second level fills no first.

    The page of an object may be any of those that objects have.
    """
    array, policy = s["array"], s["array"]["policy"]
    stay = np.select([policy == LRU, policy == SRRIP], [array["ways"], 0], 1)
    found: np.ndarray = stay[pages["l1"]]
    some = 2 * objects.ravel()
    found[pages["kind"] > 0] = min(found[some].min(initial=MOST), found[some + 1].min(initial=MOST))
    return found if s["filling"] != ON_WALK else 0 * found


def _on_machine(s: np.void, places: np.ndarray) -> np.ndarray:
    """Places as loads and stores have them."""
    pages = np.zeros(2 * len(places), PAGE)
    for stores, code in enumerate((LOAD, STORE)):
        for order in np.unique(places["order"]):
            at = np.flatnonzero(places["order"] == order)
            kind = s["page"][code, order]
            t = s["array"][kind["l1"]]
            number = (places["vaddr"][at] & ADDRESS) >> kind["order"]
            index = (number ^ number >> t["fold"]) & t["mask"] if t["mask"] >= 0 else number % t["sets"]
            row = pages[2 * at + stores]
            row["tag"], row["number"] = number << kind["order"] | kind["order"], number
            row["l1"], row["order"] = kind["l1"], order
            row["at"], row["ways"] = t["first"] + index * t["lanes"], t["ways"]
            row["recent"] = t["recent"] + (row["at"] - t["first"] >> t["recent_shift"])
            row["policy"] = t["policy"] if t["lanes"] == 8 else _NO_SHORT_WAY
            for name in ("vaddr", "kind", "which"):
                row[name] = places[name][at]
            pages[2 * at + stores] = row
    return pages


@inlined
def hits(s, page):
    """`tlb.touch` for a page whose set is known, a short way for LRU and the tree of bits, which most first levels have."""
    if page.policy == LRU:
        if touch8(s.tag, page.at, page.tag, page.ways - 1) != 0:
            return True
        note_filled(s, page.at)
        return False
    if page.policy == TREE:
        if s.tag[page.at + page.way] != page.tag:
            page.way = max(0, find8(s.tag, page.at, page.tag))
        if s.tag[page.at + page.way] == page.tag:
            use(s, s.array[page.l1], page.at, page.way, 0)
            s.tag[page.recent] = page.tag
            return True
    return touch(s, s.array[page.l1], page.tag, page.number)


@inlined
def look_up_touches(s, c, known, piece):
    """Look the touches of a slice up."""
    for number in range(piece.first, piece.behind):
        chunk = known.chunks[number]
        c.at[LOOKUPS] += chunk.loads
        c.at[LOOKUPS + BLOCK] += chunk.stores
        for k in range(chunk.first, chunk.behind):
            which = known.order[k]
            sequence = known.sequences[which]
            if lie_as_left(s, known, which, sequence):
                s.now += sequence.count
            else:
                look_up_sequence(s, c, known, piece, sequence)
                if sequence.slots > _NEVER or sequence.nodes > 0:
                    note_places(s, known, which, sequence)


@inlined
def lie_as_left(s, known, which, sequence):
    """Whether the pages of a sequence lie in their set as it leaves them."""
    at, row = sequence.at, _SHORT * which
    if same8(s.tag, at, known.tags, row) & sequence.slots != sequence.slots:
        return False
    return sequence.nodes == 0 or same8_bytes(s.mark, at, known.marks, row) & sequence.nodes == sequence.nodes


@subroutine
def note_places(s, known, which, sequence):
    """Where the tree of bits has the pages of a sequence that has just ended, and the bits on the way to them."""
    row, sequence.slots, sequence.nodes = _SHORT * which, 0, 0
    for k in range(sequence.first, sequence.behind):
        page = known.pages[known.touches[k].page]
        way = find8(s.tag, page.at, page.tag)
        if way < 0:
            sequence.slots = _NOT_YET
            return
        known.tags[row + way] = page.tag
        sequence.slots |= 1 << way
        node = (way + page.ways) >> 1
        while node > 0:
            known.marks[row + node] = s.mark[page.at + node]
            sequence.nodes |= 1 << node
            node >>= 1


@subroutine
def look_up_sequence(s, c, known, piece, sequence):
    """Look those touches of a sequence up that need be."""
    seen = 0
    for k in range(sequence.first, sequence.behind):
        row = known.touches[k].page
        page = known.pages[row]
        if page.kind > 0:
            number = min(piece.objects[page.which], known.objects.shape[1] - 1)
            row = known.objects[page.kind - 1, number] << 1 | row & 1
            page = known.pages[row]
        if s.filling == BOTH and hits(s, page):
            continue
        s.now += known.touches[k].number - seen
        seen = known.touches[k].number
        kind = s.page[STORE if row & 1 else LOAD, page.order]
        if s.filling == BOTH:
            missed(s, c, kind, page.vaddr, 0)
        else:
            translate(s, c, kind, page.vaddr, 0)
    s.now += sequence.count - seen
