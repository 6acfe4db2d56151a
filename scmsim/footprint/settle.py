"""A model's own kernel objects in a replay whose footprints have them too.

A model of a measured file system says where its inodes, metadata blocks in DRAM and descriptors lie.  The measured touches hold the
pages of the same objects, as the kernel placed them.  A TLB would see each object twice.
"""

import numpy as np

from scmsim.core.records import WORK
from scmsim.jit import inlined

# A model's objects lie in areas that begin at multiples of 1 TiB, and so in one set of a TLB, as no page allocator places them.
# Beside measured addresses each area is moved by one large page more (log2 of bytes).
AREA, LARGE = 40, 21


def home(pages: np.ndarray, touches: np.ndarray) -> np.recarray:
    """The large page that measured calls touch most (records of PAGE, shape (1,)); without a large one, the page they touch most.

    `pages` and `touches` are those of a Book.
    """
    often = np.bincount(touches >> 1, minlength=len(pages))
    large = pages["order"] >= LARGE
    often[(pages["cache"] > 0) | (large.any() & ~large)] = -1
    return pages[np.argmax(often)].reshape(1).view(np.recarray)


@inlined
def settle(places, event):
    """Move an event on an object of the model's own in the kernel's memory to where it lies beside measured addresses.

    `places` are a bit for each area of 1 TiB, and the page of `home`.  What lies in one of these areas moves to that page, which
    the touches around it are on, so that it adds none; but for events that have their place in user space.
    """
    areas, page = places
    area = event.addr >> AREA
    if areas >> area & 1 and event.code != WORK and event.vaddr < 0:
        event.vaddr, event.order = page[0].vaddr, page[0].order
    else:
        event.vaddr += area << LARGE
