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
from scmsim.jit import inlined, subroutine
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
    chunks, rows, ends = _by_set(touches.astype(np.int32), bounds, np.where(own, -1, pages["at"]))
    distinct: dict[bytes, int] = {}
    pieces = (rows[a:b].tobytes() for a, b in itertools.pairwise(ends.tolist()))
    order = np.array([distinct.setdefault(piece, len(distinct)) for piece in pieces], np.int32)
    rows = np.frombuffer(b"".join(distinct), np.int32)
    ends = np.cumsum([0, *map(len, distinct)]) // rows.itemsize
    # what objects' pages may share a set with is not known, but it is never more than they are
    names = np.where(own, -1 - np.arange(len(pages)), pages["tag"])
    kept = needed(rows, ends, names, _sure(state[0], pages, objects))
    looked_up = np.append(0, np.cumsum(kept))[ends]
    sequences = np.zeros(len(distinct), SEQUENCE)
    sequences["first"], sequences["behind"], sequences["count"] = looked_up[:-1], looked_up[1:], np.diff(ends)
    tags = _leave(pages, rows, ends, sequences)
    chosen = np.zeros(looked_up[-1], TOUCH)
    chosen["page"], chosen["number"] = rows[kept], (np.arange(len(rows)) - np.repeat(ends[:-1], np.diff(ends)))[kept]
    return Table(pages, chunks, order, sequences, tags, np.zeros(len(tags), np.uint8), chosen, objects.astype(np.int32))


NOTHING = Table(
    np.zeros(0, PAGE), np.zeros(0, CHUNK), np.zeros(0, np.int32), np.zeros(0, SEQUENCE), np.zeros(0, np.int64),
    np.zeros(0, np.uint8), np.zeros(0, TOUCH), np.zeros((0, 1), np.int32),
)  # fmt: skip


def _by_set(touches: np.ndarray, bounds: np.ndarray, sets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The touches of each chunk in the order of their sets, as these come; sets[row] = -1 comes last.

    Returns the chunks, the touches, and where each sequence begins, with the number of all touches.
    """
    lengths = np.diff(bounds)
    chunk = np.repeat(np.arange(len(lengths)), lengths)
    key = chunk * (int(sets.max(initial=0)) + 2) + sets[touches] + 1
    by_key = np.argsort(key, kind="stable")
    begins = np.flatnonzero(np.diff(key[by_key], prepend=-1))
    counts = np.diff(begins, append=len(touches))
    came = by_key[begins]  # the first touch of each sequence
    own = sets[touches[came]] < 0
    came[own] = bounds[chunk[came[own]] + 1] - 1
    order = np.lexsort((own, came))
    ends = np.append(0, np.cumsum(counts[order]))
    at = np.arange(len(touches)) + np.repeat(begins[order] - ends[:-1], counts[order])
    chunks = np.zeros(len(lengths), CHUNK)
    chunks["behind"] = np.cumsum(np.bincount(chunk[by_key[begins]], minlength=len(lengths)))
    chunks["first"][1:] = chunks["behind"][:-1]
    chunks["stores"] = np.bincount(chunk, weights=touches & 1, minlength=len(lengths))
    chunks["loads"] = lengths - chunks["stores"]
    return chunks, touches[by_key[at]], ends


def _leave(pages: np.ndarray, rows: np.ndarray, ends: np.ndarray, sequences: np.ndarray) -> np.ndarray:
    """Say what each sequence leaves in its set, if its pages are not too many; returns their tags, the last one first."""
    which = np.repeat(np.arange(len(sequences)), np.diff(ends))
    _, names = np.unique(pages["tag"][rows], return_inverse=True)
    _, from_end = np.unique((which * len(rows) + names.ravel())[::-1], return_index=True)
    last = len(rows) - 1 - np.sort(from_end)  # touch of each page of a sequence, the last one first
    distinct = np.bincount(which[last], minlength=len(sequences))
    page = pages[rows[ends[:-1]]]
    known = (page["kind"] == 0) & np.isin(page["policy"], (LRU, TREE)) & (distinct <= page["ways"])
    sequences["at"] = page["at"]
    few = np.minimum(distinct, _SHORT)
    sequences["slots"] = np.where(known, np.where(page["policy"] == LRU, (1 << few) - 1, _NOT_YET), _NEVER)
    tags = np.zeros((len(sequences), _SHORT), np.int64)
    behind = np.cumsum(distinct[::-1])[::-1] - distinct  # `last` goes through the sequences from the last one on
    place = np.arange(len(last)) - behind[which[last]]
    fits = known[which[last]]
    tags[which[last[fits]], place[fits]] = pages["tag"][rows[last[fits]]]
    return tags.ravel()


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
