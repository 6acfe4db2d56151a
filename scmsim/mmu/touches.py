"""Touches of pages that are known before a replay -> look-ups, without an event each.

A table of touches is made ready for a machine once: where each page lies in its first-level array, and which touches need no
look-up (`needless.py`).  In a replay a slice of it (records.SLICE) comes ahead of an event: one look-up a touch, in the row of the
counters that the event has.  All pages lie in the kernel's half of the address space.
"""

from typing import NamedTuple

import numpy as np

from scmsim.core.records import LOAD, STORE
from scmsim.jit import inlined
from scmsim.jit.vectors import find8, touch8
from scmsim.mmu.columns import BLOCK, LOOKUPS
from scmsim.mmu.needless import needed
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
TOUCH = np.dtype((np.record, [("page", "i4"), ("number", "i4")]))  # row of PAGE; number of the touch among all
MARK = np.dtype((np.record, [("looked_up", "i4"), ("stores", "i4")]))  # of the touches before this one


_NO_SHORT_WAY = -1


class Table(NamedTuple):
    """Touches made ready for a machine.

    Attributes
    ----------
    pages : array of PAGE
        By number of the page << 1 | whether it is stored to.
    touches : array of TOUCH
        Those that are looked up.
    marks : array of MARK
        One for each touch, and one behind the last.
    objects : int32 array
        Numbers of pages, by kind and number of the object.
    """

    pages: np.ndarray
    touches: np.ndarray
    marks: np.ndarray
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
        The first touch of each call, in order, and the number of all touches: those of one call come together.
    objects : int array
        Numbers of places, by kind and number of the object; the last stands for all further ones.
    """
    pages = _on_machine(state[0], places)
    sets = np.where(pages["kind"] > 0, -1, pages["at"])
    own = np.flatnonzero(pages["kind"][touches] > 0)  # pages of objects go to any set: nothing is sure across one
    parts = np.union1d(bounds, np.concatenate([own, own + 1]))
    kept = needed(touches, parts, sets, pages["tag"], _sure(state[0], pages))
    marks = np.zeros(len(touches) + 1, MARK)
    marks["looked_up"][1:], marks["stores"][1:] = np.cumsum(kept), np.cumsum(touches & 1)
    chosen = np.zeros(int(marks["looked_up"][-1]), TOUCH)
    chosen["number"] = np.flatnonzero(kept)
    chosen["page"] = touches[chosen["number"]]
    return Table(pages, chosen, marks, objects.astype(np.int32))


NOTHING = Table(np.zeros(0, PAGE), np.zeros(0, TOUCH), np.zeros(1, MARK), np.zeros((0, 1), np.int32))


def _sure(s: np.void, pages: np.ndarray) -> np.ndarray:
    """How many pages surely stay in the set of each page, see `needless`; none where a hit of the second level fills no first."""
    array, policy = s["array"], s["array"]["policy"]
    stay = np.select([policy == LRU, policy == SRRIP], [array["ways"], 0], 1)
    found: np.ndarray = stay[pages["l1"]]
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
    first, behind = piece.first, piece.behind
    low, high, seen = known.marks[first], known.marks[behind], first
    c.at[LOOKUPS] += behind - first - (high.stores - low.stores)
    c.at[LOOKUPS + BLOCK] += high.stores - low.stores
    for k in range(low.looked_up, high.looked_up):
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
    s.now += behind - seen
