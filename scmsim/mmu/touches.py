"""Look up page touches that are known before a replay, without one event per touch.

A table of touches is prepared once for a machine.  It consists of chunks; a chunk is a part of a system call.  A slice of the
table (records.SLICE) names the chunks that are touched before an event.  Each touch is one look-up, counted in the event's row of
counters.  The touches of a chunk go through one set of a first-level array after another, and on to the second level in that
order (`sequences.py`).  A sequence that would change nothing in its set is skipped (`look_up.py`).
All pages are in the kernel's half of the address space.
"""

import mmap
from typing import NamedTuple

import numpy as np

from scmsim.core.records import LOAD, STORE
from scmsim.jit import inlined
from scmsim.mmu.columns import BLOCK, LOOKUPS
from scmsim.mmu.look_up import SHORT, look_up_sequence
from scmsim.mmu.needless import MOST
from scmsim.mmu.sequences import ANY, NONE, arranged
from scmsim.mmu.state import ADDRESS, EMPTY, LRU, ON_WALK, ROWS, SRRIP, TREE, empty

PLACE = np.dtype(
    [
        ("vaddr", "i8"),
        ("order", "i8"),  # log2 of the page size
        ("kind", "i8"),  # not 0: the page depends on an object of this kind, numbered from 1
        ("which", "i8"),  # index of this object among a slice's objects
    ]
)
PAGE = np.dtype(  # two rows for each PLACE: for loads and for stores
    (
        np.record,
        [
            ("tag", "i8"),  # in the first level
            ("number", "i8"),
            ("vaddr", "i8"),
            ("l1", "i4"),
            ("at", "i4"),  # first slot of its set
            ("recent", "i4"),  # slot that names the page used last in that set
            ("ways", "i4"),
            ("policy", "i4"),
            ("is_short", "i4"),  # 1: a set has 8 slots or fewer
            ("code", "i4"),
            ("order", "i4"),
            ("kind", "i4"),
            ("which", "i4"),
            ("name", "i4"),  # number of the tag: rows with equal tags have equal numbers
            ("sure", "i4"),  # number of pages that surely stay in its set, see `needless`
        ],
    )
)
CHUNK = np.dtype(
    (
        np.record,
        [
            ("key", "i4"),  # key of the objects whose sequences are in `first` and `end`; sequences.ANY: any objects
            ("first", "i4"),  # in `order`
            ("end", "i4"),
            ("loads", "i4"),
            ("stores", "i4"),
            ("arranged", "i4"),  # first of the chunk's records in MEMO.arranged
        ],
    )
)
ARRANGED = np.dtype((np.record, [("key", "i4"), ("first", "i4"), ("end", "i4"), ("next", "i4")]))
# page: row of PAGE; number: of the touch in its sequence
TOUCH = np.dtype((np.record, [("tag", "i8"), ("page", "i4"), ("number", "i4")]))
SEQUENCE = np.dtype(
    (
        np.record,
        [
            # a run changes nothing if its set has this version (0: none), or if this tag is in slot `recent`
            ("was", "i8"),
            ("tag", "i8"),  # of the only page that must be looked up; NO_TAG: there are several
            ("recent", "i4"),  # slot that names the page used last in its set
            ("row", "i4"),  # row of its set, which starts at slot row << ROW_SHIFT
            ("policy", "i4"),  # NO_VERSIONS: its set has no versions
            ("ways", "i4"),
            ("count", "i4"),  # number of its touches
            ("first", "i4"),  # first of the touches that are looked up
            ("end", "i4"),
        ],
    )
)
_ORDER, _TOUCHES, _SEQUENCES, _LISTS = 1 << 20, 1 << 20, 1 << 17, 1 << 16
MEMO = np.dtype(  # arranged sequences; cleared as a whole when an array is full
    (
        np.record,
        [
            ("version", "i8"),  # the newest version of a set
            ("tags", "i8", (SHORT,)),  # copy of a set
            ("marks", "u1", (SHORT,)),
            ("order_used", "i8"),
            ("touches_used", "i8"),
            ("sequences_known", "i8"),
            ("lists", "i8"),
            ("sequence_slots", "i4", (2 * _SEQUENCES,)),  # hash table of the numbers of sequences, from 1
            ("sequences", SEQUENCE, (_SEQUENCES,)),
            ("order", "i4", (_ORDER,)),  # indices of rows of `sequences`
            ("touches", TOUCH, (_TOUCHES,)),
            ("arranged", ARRANGED, (_LISTS,)),
        ],
    )
)


class Table(NamedTuple):
    """Touches prepared for a machine.

    Attributes
    ----------
    memo : array of MEMO, shape (1,)
    pages : array of PAGE
        Indexed by (number of the place << 1) | 1 for stores, | 0 for loads.
    chunks : array of CHUNK
    touches : uint16 array
        Row of `pages` of each touch.
    bounds : int64 array
        Index of the first touch of each chunk, then the total number of touches.
    objects : int32 array
        Page number, indexed by kind and number of the object.
    keys : int32 array
        Key of each object, indexed by its index in the slice and by its number: the sum of the keys of a slice's objects
        identifies their pages.
    rows, links, heads, some, last, uses, stretch : int32 and int64 arrays
        Scratch space for arranging a chunk, as are `kept` and `some_kept`.
    kept, some_kept : bool arrays
    """

    memo: np.ndarray
    pages: np.ndarray
    chunks: np.ndarray
    touches: np.ndarray
    bounds: np.ndarray
    objects: np.ndarray
    keys: np.ndarray
    rows: np.ndarray
    links: np.ndarray
    heads: np.ndarray
    some: np.ndarray
    last: np.ndarray
    uses: np.ndarray
    stretch: np.ndarray
    kept: np.ndarray
    some_kept: np.ndarray


def table(state: np.ndarray, places: np.ndarray, touches: np.ndarray, bounds: np.ndarray, objects: np.ndarray) -> Table:
    """Return the table of touches for the machine that `state` models.

    Parameters
    ----------
    state : array of state.MMU, shape (1,)
    places : array of PLACE
    touches : int array
        (Number of the place << 1) | 1 for a store, | 0 for a load.
    bounds : int array
        Index of the first touch of each chunk, then the total number of touches.
    objects : int array
        Number of the place of each object, by the object's kind and number; the last column is for all objects with higher
        numbers.
    """
    chunks, longest = np.zeros(len(bounds) - 1, CHUNK), int(np.diff(bounds).max(initial=0))
    chunks["key"], chunks["arranged"] = NONE, NONE
    pages = _on_machine(state[0], places)
    uses = np.full((len(pages), 2), -1)
    state["known"] = EMPTY
    # The memo is mapped, not allocated: NumPy and the allocator may clear all of its 30 MB, of which most replays use little.
    rows, links, heads, some = np.zeros((4, longest), np.int32)
    return Table(
        np.frombuffer(mmap.mmap(-1, MEMO.itemsize), MEMO), pages, chunks, touches.astype(np.uint16, copy=False),
        bounds.astype(np.int64, copy=False), objects.astype(np.int32), _keys(places, objects), rows, links, heads, some,
        np.full(ROWS, NONE, np.int32), uses, np.zeros(MOST, np.int64), *np.zeros((2, longest), np.bool_),
    )  # fmt: skip


def _keys(places: np.ndarray, objects: np.ndarray) -> np.ndarray:
    """Return keys whose sum identifies the pages of a slice's objects; objects on the same pages share a key."""
    keys, stride = np.zeros((2, objects.shape[1]), np.int32), 1
    for which in range(2):
        kinds = np.unique(places["kind"][(places["kind"] > 0) & (places["which"] == which)])
        if len(kinds):
            found, inverse = np.unique(objects[kinds - 1], axis=1, return_inverse=True)
            keys[which], stride = stride * inverse.ravel(), stride * found.shape[1]
    return keys


def _sure(s: np.void, pages: np.ndarray) -> np.ndarray:
    """Return how many pages surely stay in the set of each page, see `needless`; 0 if a second-level hit fills no first level."""
    array, policy = s["array"], s["array"]["policy"]
    in_tree = 1 + np.log2(np.maximum(array["ways"], 1)).astype(int)
    stay = np.select([policy == LRU, policy == TREE, policy == SRRIP], [array["ways"], in_tree, 0], 1)
    # a page also leaves a set, or moves in it, when the set is the second level of another kind of access
    second = s["page"]["stlb"]
    stay[second[second >= 0]] = 0
    found: np.ndarray = np.minimum(stay[pages["l1"]], MOST)
    return found if s["filling"] != ON_WALK else 0 * found


def _on_machine(s: np.void, places: np.ndarray) -> np.ndarray:
    """Return places as loads and stores see them on the machine."""
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
            row["l1"], row["order"], row["code"] = kind["l1"], order, code
            row["at"], row["ways"] = t["first"] + index * t["lanes"], t["ways"]
            row["recent"] = t["recent"] + (row["at"] - t["first"] >> t["recent_shift"])
            row["policy"], row["is_short"] = t["policy"], t["lanes"] == SHORT
            for name in ("vaddr", "kind", "which"):
                row[name] = places[name][at]
            pages[2 * at + stores] = row
    pages["name"], pages["sure"] = np.unique(pages["tag"], return_inverse=True)[1], _sure(s, pages)
    return pages


NOTHING = table(empty(), np.zeros(0, PLACE), np.zeros(0), np.zeros(1), np.zeros((0, 1)))


@inlined
def look_up_touches(s, c, known, piece):
    """Look up the touches of a slice."""
    m, most = known.memo[0], known.keys.shape[1] - 1
    for number in range(piece.first, piece.end):
        chunk = known.chunks[number]
        key = known.keys[0, min(piece.objects[0], most)] + known.keys[1, min(piece.objects[1], most)]
        if chunk.key != key and chunk.key != ANY:
            arranged(known, number, piece, key)
        c.at[LOOKUPS] += chunk.loads
        c.at[LOOKUPS + BLOCK] += chunk.stores
        for k in range(chunk.first, chunk.end):
            sequence = m.sequences[m.order[k]]
            if (s.known[sequence.row] == sequence.was) | (s.tag[sequence.recent] == sequence.tag):
                s.now += sequence.count
            else:
                look_up_sequence(s, c, m, known.pages, sequence)
