"""Which touches of a set need no look-up, because they surely hit and no later one depends on them.

Within a set that replaces the page used least recently, take a stretch of touches to at most as many pages as the set has ways.
Whatever the set holds before, each page's first touch hits or misses as it does without the further ones, all of which hit.
What leaves the set is no page of the stretch.  So only the order of the pages at the end is left to get right: that of their last
touches.  Of each page the first touch is looked up, and the last one only if the order would be another without it.  The stretches
of a sequence follow each other, as long as can be.

Where another rule replaces, a stretch is of one page: a touch that repeats the one before in its set changes nothing (Puzak's trace
stripping, 1985; but under SRRIP, where it does).  Kaplan, Smaragdakis and Wilson (SIGMETRICS 1999) drop touches for LRU likewise.
"""

from scmsim.jit import kernel, subroutine

MOST = 64  # pages of a stretch


@kernel
def mark_needed(kept, uses, stretch, pages, touches):
    """Mark the touches of a sequence, all in one set, that are to be looked up.

    Parameters
    ----------
    kept : bool array
        By touch; filled in.
    uses : int array, shape (names, 2)
        -1, and so at the end: first and last touch of each page in a stretch.
    stretch : int array, shape (MOST,)
        Room.
    pages : record array
        `name`, and `sure`: how many pages surely stay in the set (0: each touch is looked up).
    touches : int array
        Rows of `pages`.
    """
    start, count = 0, 0
    for t in range(len(touches)):
        page, sure = pages[touches[t]].name, pages[touches[t]].sure
        kept[t] = sure == 0
        if sure == 0:
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
    for t in range(len(touches)):
        uses[pages[touches[t]].name] = -1


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
