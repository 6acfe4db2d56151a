"""State of the simulated MMU: one record, the same dtype for every machine, so that one compile serves every preset.

All TLB arrays and page-walk caches lie in one pool of 16-slot rows.  A set of up to 15 ways takes one row and keeps
its LRU order as 4-bit way numbers in one integer (most recent lowest); a wider set takes 1, 2, 4, ... rows and its
slots are in LRU order.
"""

import numpy as np

from scmsim.records import EVENTS

SLOTS = 16  # slots of a row
ROWS = 2048  # rows of the pool: several times what one core has
NARROW = 15  # most ways of a one-row set: 15 way numbers of 4 bits keep the integer positive
ARRAYS = 24  # most TLB arrays and page-walk caches together
LEVELS = 5  # most levels of the page table
EMPTY = -1
ADDRESS = (1 << 57) - 1  # the bits of an address that are not sign extension (5-level paging)
LRU = 0xEDCBA9876543210  # initial order: way 0 most recent; positions beyond the ways keep the numbers of empty slots

ORDERS = (12, 21, 30)  # log2 of the page sizes; the index is the size code
SIDES = ("load", "store", "fetch")  # who looks up; the index is the side

_GEOMETRY = [
    ("first", "i8"),  # first row in the pool
    ("mask", "i8"),  # sets - 1
    ("fold", "i8"),  # set = (page ^ page >> fold) & mask; 62 = page & mask
    ("spread", "i8"),  # log2 of the rows of a set
    ("ways", "i8"),
]
ARRAY = np.dtype((np.record, _GEOMETRY))

# What an event of one code does to a page of one size.  A level without an array for a size holds the page in pieces of
# the next smaller size that it has an array for: `order` and `far_order` are the log2 bytes of a piece.
PAGE = np.dtype(
    (
        np.record,
        [
            *_GEOMETRY,  # of the first-level array
            ("order", "i8"),
            ("near", "i8"),  # first-level array
            ("keep", "i8"),  # a piece's key = address & keep | code
            ("code", "i8"),
            ("far", "i8"),  # second-level array, -1 = none
            ("far_order", "i8"),
            ("far_code", "i8"),
            ("leaf", "i8"),  # page-table level that maps the page: 1, 2, 3; at most what the machine knows
            ("column", "i8"),  # first counter of the side
            ("split", "i8"),  # 1: look-ups at user addresses count in the user split; 0: instruction fetches
            ("by_width", "i8"),  # -1: one look-up for each `width` bytes; 0: one for each page
            ("retired", "i8"),  # counter of the retired instructions, -1 = none
        ],
    )
)

MMU = np.dtype(
    (
        np.record,
        [
            ("tag", "i8", (ROWS * SLOTS,)),  # address of a page | size code, or EMPTY; first, so that rows are aligned
            ("arrays", "i8"),  # TLB arrays in use; the page-walk caches follow them
            ("caches", "i8"),  # TLB arrays and page-walk caches in use
            ("levels", "i8"),  # of the page table
            ("ref_cycles", "i8"),  # of one page-table reference
            ("lanes", "i8"),  # = SLOTS; read at run time, see tlb.touch
            ("cache", "i8", (LEVELS + 1,)),  # page-walk cache of entries of this page-table level (2 = PDE), -1 = none
            ("page", PAGE, (len(EVENTS), 32)),  # index event code, log2 of the page size
            ("array", ARRAY, (ARRAYS,)),
            ("lru", "i8", (ROWS,)),  # LRU order of a row
        ],
    )
)


def empty() -> np.recarray:
    """A state record of shape (1,) without arrays."""
    room = np.zeros(MMU.itemsize + 64, np.uint8)
    start = -room.ctypes.data % 64
    state = room[start : start + MMU.itemsize].view(MMU).view(np.recarray)
    state.lanes = SLOTS
    state.cache = -1
    state.lru = LRU
    state.tag = EMPTY
    return state
