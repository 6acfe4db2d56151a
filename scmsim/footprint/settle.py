"""Place a model's own kernel objects where footprints already contain such objects.

A model of a measured file system places its inodes, metadata blocks in DRAM and descriptors itself.  The measured touches
include the pages of the same objects, as the kernel placed them.  Without this module, a TLB would see each object twice.
"""

import numpy as np

from scmsim.core.records import FLUSH, KERNEL, WORK
from scmsim.jit import inlined, kernel

# A model's objects are in areas that begin at multiples of 1 TiB, and so in one set of a TLB; no page allocator places them so.
# Area n is shifted by n large pages, away from the measured addresses.  AREA and LARGE are log2 of bytes.
AREA, LARGE = 40, 21


def home(pages: np.ndarray, often: np.ndarray) -> np.recarray:
    """Return the most-touched large page, or the most-touched page if none is large (records of PAGE, shape (1,)).

    `pages` are those of a FootprintTable, `often` is the number of touches of each page.
    """
    large = pages["order"] >= LARGE
    excluded = (pages["cache"] > 0) | (large.any() & ~large)
    return pages[np.argmax(np.where(excluded, -1, often))].reshape(1).view(np.recarray)


@inlined
def place_beside(places, event):
    """Move an event on a model's own kernel object to its place beside measured addresses.

    `places` is (a bit for each area of 1 TiB, the page of `home`).  Events in one of these areas move to that page, which the
    surrounding touches use as well, so that the event adds no page; events with a user-space address are not moved there.
    """
    areas, page = places
    area = event.addr >> AREA
    if areas >> area & 1 and event.code != WORK and event.vaddr < 0:
        event.vaddr, event.order = page[0].vaddr, page[0].order
    else:
        event.vaddr += area << LARGE


@kernel
def leave_out_measured(areas, events):
    """Empty the events that `place_beside` moves to a page of the measured touches: the touches include their lines."""
    for i in range(events.size):
        e = events[i]
        if e.space == KERNEL and e.code <= FLUSH and areas >> (e.addr >> AREA) & 1 and e.vaddr < 0:
            e.length = 0
