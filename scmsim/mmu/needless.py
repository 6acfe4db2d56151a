"""Which touches of a table need no look-up, because they surely hit and no later one depends on them.

Within a set that replaces the page used least recently, take a stretch of touches to at most as many pages as the set has ways.
Whatever the set holds before, each page's first touch hits or misses as it does without the further ones, all of which hit.
What leaves the set is no page of the stretch.  So only the order of the pages at the end is left to get right: that of their last
touches.  Of each page the first touch is looked up, and the last one only if the order would be another without it.  The stretches
of a set follow each other, as long as can be, within the touches of a call.

Where another rule replaces, a stretch is of one page: a touch that repeats the one before in its set changes nothing (Puzak's trace
stripping, 1985; but under SRRIP, where it does).  Kaplan, Smaragdakis and Wilson (SIGMETRICS 1999) drop touches for LRU likewise.

What comes between the touches of a call (its events, an interrupt) is not known here.  docs/validation-tlb.md has what that
costs.
"""

import numpy as np

from scmsim.jit import kernel, subroutine

MOST = 64  # pages of a stretch

_SET = np.dtype(
    (
        np.record,
        [
            ("sure", "i8"),  # pages of a stretch; 0: every touch is looked up
            ("pages", "i8"),  # of this stretch
            ("start", "i8"),  # its first touch
            ("page", "i8", (MOST,)),
        ],
    )
)
_USE = np.dtype((np.record, [("first", "i8"), ("last", "i8")]))  # touches of a page in a stretch


def needed(touches: np.ndarray, bounds: np.ndarray, sets: np.ndarray, tags: np.ndarray, sure: np.ndarray) -> np.ndarray:
    """Whether each touch is to be looked up.

    Parameters
    ----------
    touches : int array
        Rows of the next three.
    bounds : int array
        First touch of each call or part of one, in order, and the number of all touches.
    sets, tags, sure : int arrays
        The set of each page (-1: not known, each of its touches is looked up), its name there, and how many pages surely stay in
        that set.
    """
    known, group = np.unique(sets, return_inverse=True)
    _, same = np.unique(np.stack([sets, tags]), axis=1, return_inverse=True)
    states = np.zeros(len(known), _SET)
    states["sure"][group] = np.where(sets < 0, 0, np.minimum(sure, MOST))
    states["start"] = -1
    uses = np.zeros(len(same), _USE)
    uses["first"] = -1
    kept = np.zeros(len(touches), np.bool_)
    names = np.stack([group.ravel(), same.ravel()], 1)
    _mark(kept, states, uses, np.zeros(len(states), np.int64), names, touches, bounds)
    return kept


@kernel
def _mark(kept, states, uses, seen, names, touches, bounds):
    """Mark the touches to be looked up; names[row] = set and page, `seen` has room for the sets of a call."""
    for call in range(len(bounds) - 1):
        count = 0
        for t in range(bounds[call], bounds[call + 1]):
            in_set, page = names[touches[t], 0], names[touches[t], 1]
            state, use = states[in_set], uses[page]
            if state.sure == 0:
                kept[t] = True
                continue
            if state.pages > 0 and use.first >= state.start:
                use.last = t
                continue
            if state.pages == state.sure:
                _end(kept, uses, state)
            if state.pages == 0:
                if state.start < bounds[call]:
                    seen[count] = in_set
                    count += 1
                state.start = t
            state.page[state.pages] = page
            state.pages += 1
            use.first, use.last = t, t
        for k in range(count):
            _end(kept, uses, states[seen[k]])


@subroutine
def _end(kept, uses, state):
    """End the stretch of a set: pages in the order of their last touches, each moved there by a touch only where it must be."""
    for i in range(1, state.pages):
        page, at = state.page[i], i
        while at > 0 and uses[state.page[at - 1]].last > uses[page].last:
            state.page[at] = state.page[at - 1]
            at -= 1
        state.page[at] = page
    reached = -1
    for i in range(state.pages):
        use = uses[state.page[i]]
        kept[use.first] = True
        if use.first < reached:
            kept[use.last] = True
            reached = use.last
        else:
            reached = use.first
    state.pages = 0
