"""Find the touches of a set that need no look-up, because they surely hit and no later touch depends on them.

Consider a stretch of touches of an LRU set, to at most as many pages as the set has ways.  Once touched, a page stays
in the set until the stretch ends.  So only the first touch of each page can miss, whatever the set holds before, and
all later touches hit.  These hits matter only for the final order of the pages, which is the order of their last
touches.  Therefore the first touch of each page is looked up, and the last one only if the order would differ without
it.  A sequence is cut into stretches that are as long as possible.

Under tree-PLRU a touched page surely stays while log2(ways) other pages are touched (Reineke et al., "Timing predictability of
cache replacement policies", Real-Time Systems 37, 2007), so a stretch has at most log2(ways) + 1 pages.  The victim of a miss
depends on the order of the last touches before that miss, so the touches that this order needs are kept before the first touch of
each page, not only at the end of a stretch.

Under the other rules a stretch has one page: a touch that repeats the previous touch of its set changes nothing (Puzak's trace
stripping, 1985), except under SRRIP.  Kaplan, Smaragdakis and Wilson (SIGMETRICS 1999) drop LRU touches in the same way.
"""

from scmsim.jit import kernel, subroutine
from scmsim.mmu.state import TREE

MOST = 64  # most pages of a stretch


@kernel
def mark_needed(kept, uses, stretch, pages, touches):
    """Mark the touches of a sequence, all in one set, that must be looked up.

    Parameters
    ----------
    kept : bool array
        By touch: whether it must be looked up; filled in.
    uses : int array, shape (names, 2)
        Index of the last touch that is kept, and of the last touch, of each page in the stretch; all -1 before and after the call.
    stretch : int array, shape (MOST,)
        Scratch space.
    pages : record array
        `name`, `policy`, and `sure`: how many pages surely stay in the set (0: each touch is looked up).
    touches : int array
        Row of `pages` of each touch.
    """
    start, count = 0, 0
    for t in range(len(touches)):
        page, sure = pages[touches[t]].name, pages[touches[t]].sure
        kept[t] = sure == 0
        if kept[t]:
            continue
        # a repeat within the stretch is a sure hit: only note it as the page's last touch
        if uses[page, 0] >= start:
            uses[page, 1] = t
            continue
        if count == sure or pages[touches[t]].policy == TREE:
            _settle(kept, uses, stretch, count)
        if count == sure:
            start, count = t, 0
        stretch[count] = page
        count += 1
        uses[page, 0], uses[page, 1] = t, t
        kept[t] = True
    _settle(kept, uses, stretch, count)
    for t in range(len(touches)):
        uses[pages[touches[t]].name] = -1


@subroutine
def _settle(kept, uses, stretch, count):
    """Sort the pages of a stretch by their last touches, and keep a last touch where the kept touches have another order."""
    for i in range(1, count):
        page, at = stretch[i], i
        while at > 0 and uses[stretch[at - 1], 1] > uses[page, 1]:
            stretch[at] = stretch[at - 1]
            at -= 1
        stretch[at] = page
    reached = -1
    for i in range(count):
        page = stretch[i]
        if uses[page, 0] < reached:
            uses[page, 0] = uses[page, 1]
            kept[uses[page, 1]] = True
        reached = uses[page, 0]
