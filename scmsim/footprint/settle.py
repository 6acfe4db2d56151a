"""Place a model's own kernel objects where footprints already contain such objects.

A model of a measured file system places its inodes, metadata blocks in DRAM and descriptors itself.  The measured touches
include the pages of the same objects, as the kernel placed them.  Without this module, a TLB would see each object twice.
"""

import numpy as np

from scmsim.core.records import FLUSH, KERNEL, LOAD, WORK
from scmsim.footprint.describe import is_sync
from scmsim.jit import inlined, kernel

# A model's objects are in areas that begin at multiples of 1 TiB, and so in one set of a TLB; no page allocator places them so.
# Area n is shifted by n large pages, away from the measured addresses.  AREA and LARGE are log2 of bytes.
AREA, LARGE = 40, 21
BLOCKS = 1  # area of the metadata blocks in DRAM (fs.linux.templates.BUFFERS)
_PAGE, _PAGES = 12, 1 << AREA - 12  # log2 of a page's bytes, and the pages of an area
_SPREAD = 0x9E3779B  # _PAGES over the golden ratio, odd: so distinct pages have distinct products


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


@inlined
def is_block(event):
    """Return whether an event reads a metadata block in DRAM."""
    return event.code == LOAD and event.addr >> AREA == BLOCKS and event.vaddr < 0


@inlined
def frame_of_block(event):
    """Return the address at which the data caches see the metadata block that an event reads.

    The kernel takes any free page for a block.  If the address followed the block's number, the blocks at the start of each group
    (bitmaps, inode tables) would all share the same sets of a cache.
    """
    page = event.addr >> _PAGE & _PAGES - 1
    mixed = page * _SPREAD & _PAGES - 1
    mixed ^= mixed >> 16  # the low bits choose the set; those of the product are the same for the starts of all groups
    return event.vaddr + (mixed - page << _PAGE)


@kernel
def leave_out_measured(areas, events, operations, keeps_commits):
    """Empty the events that `place_beside` moves to a page of the measured touches: the touches include their lines.

    With `keeps_commits` the touches lack the blocks of commits, so the events that read these blocks stay.
    """
    for i in range(events.size):
        e = events[i]
        if e.space == KERNEL and e.code <= FLUSH and areas >> (e.addr >> AREA) & 1 and e.vaddr < 0:
            if keeps_commits and is_block(e) and is_sync(operations[e.op].kind):
                e.vaddr = frame_of_block(e)
            else:
                e.length = 0
