"""Which touches of a set need no look-up, because they surely hit and no later one depends on them.

Within a set that replaces the page used least recently, take a stretch of touches to at most as many pages as the set has ways.
Whatever the set holds before, each page's first touch hits or misses as it does without the further ones, all of which hit.
What leaves the set is no page of the stretch.  So only the order of the pages at the end is left to get right: that of their last
touches.  Of each page the first touch is looked up, and the last one only if the order would be another without it.  The stretches
of a sequence follow each other, as long as can be.

Where another rule replaces, a stretch is of one page: a touch that repeats the one before in its set changes nothing (Puzak's trace
stripping, 1985; but under SRRIP, where it does).  Kaplan, Smaragdakis and Wilson (SIGMETRICS 1999) drop touches for LRU likewise.
"""

import numpy as np

from scmsim.jit import kernel, subroutine

MOST = 64  # pages of a stretch


def needed(touches: np.ndarray, bounds: np.ndarray, tags: np.ndarray, sure: np.ndarray) -> np.ndarray:
    """Whether each touch is to be looked up.

    Parameters
    ----------
    touches : int array
        Rows of the last two.
    bounds : int array
        First touch of each sequence, in order, and the number of all touches.  A sequence is of one set.
    tags, sure : int arrays
        The name of each page, and how many pages surely stay in its set (0: each touch is looked up).
    """
    _, names = np.unique(tags, return_inverse=True)
    kept = np.zeros(len(touches), np.bool_)
    uses = np.full((int(names.max(initial=-1)) + 1, 2), -1)
    _mark(kept, uses, np.zeros(MOST, np.int64), np.stack([names.ravel(), np.minimum(sure, MOST)], 1), touches, bounds)
    return kept


@kernel
def _mark(kept, uses, stretch, pages, touches, bounds):
    """Mark the touches to be looked up; pages[row] = name and how many stay, uses[name] = first and last touch in a stretch."""
    for sequence in range(len(bounds) - 1):
        start, count = bounds[sequence], 0
        for t in range(bounds[sequence], bounds[sequence + 1]):
            page, sure = pages[touches[t], 0], pages[touches[t], 1]
            if sure == 0:
                kept[t] = True
                continue
            if uses[page, 0] >= start:
                uses[page, 1] = t
                continue
            if count == sure:
                _end(kept, uses, stretch, count)
                start, count = t, 0
            stretch[count] = page
            count += 1
            uses[page, 0], uses[page, 1] = t, t
        _end(kept, uses, stretch, count)


@subroutine
def _end(kept, uses, stretch, count):
    """End a stretch: its pages in the order of their last touches, each moved there by a touch only where it must be."""
    for i in range(1, count):
        page, at = stretch[i], i
        while at > 0 and uses[stretch[at - 1], 1] > uses[page, 1]:
            stretch[at] = stretch[at - 1]
            at -= 1
        stretch[at] = page
    reached = -1
    for i in range(count):
        first, last = uses[stretch[i], 0], uses[stretch[i], 1]
        kept[first] = True
        if first < reached:
            kept[last] = True
            reached = last
        else:
            reached = first
