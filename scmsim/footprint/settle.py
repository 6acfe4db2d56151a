"""A model's own kernel objects in a replay whose footprints have them too.

A model of a measured file system says where its inodes, metadata blocks in DRAM and descriptors lie.  The measured touches hold the
pages of the same objects, as the kernel placed them.  A TLB would see each object twice.
"""

import numpy as np

from scmsim.core.records import KERNEL, WORK
from scmsim.footprint.interleave import AREA, LARGE
from scmsim.jit import kernel


def home(pages: np.ndarray, touches: np.ndarray) -> np.recarray:
    """The large page that measured calls touch most (records of PAGE, shape (1,)); without a large one, the page they touch most.

    `pages` and `touches` are those of a Book.
    """
    often = np.bincount(touches >> 1, minlength=len(pages))
    large = pages["order"] >= LARGE
    often[(pages["cache"] > 0) | (large.any() & ~large)] = -1
    return pages[np.argmax(often)].reshape(1).view(np.recarray)


@kernel
def settle(areas, at_home, events):
    """Move what lies in some areas of the kernel's memory to a page that the touches around it are on, so that it adds none.

    `areas` has a bit for each area of 1 TiB; events that have their place in user space keep it.
    """
    page = at_home[0]
    for i in range(len(events)):
        event = events[i]
        if event.space == KERNEL and event.code != WORK and event.vaddr < 0 and areas >> (event.addr >> AREA) & 1:
            event.vaddr, event.order = page.vaddr, page.order
