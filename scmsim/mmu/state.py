"""State of the simulated MMU: one record with the same dtype for every machine, so that one compile serves every preset.

The slots of all arrays (TLBs, page-walk caches, caches of page-table entries) share one pool of tags.  A set takes 8 slots of
the pool, or a multiple of 16 slots.  A tag is the address of a page with the log2 of the page's size in its low bits, or EMPTY.
Under LRU and FIFO the slots of a set are in order (most recent, or newest, first) and empty slots come last; under the other
rules a page keeps its slot, and `mark` has a byte for each slot, which the rule writes.
"""

import numpy as np

from scmsim.core.records import CONTIGUOUS, EVENTS, SCM_TABLE

SLOTS = 1 << 15  # slots of the pool: 20 times as many as the arrays of one core need
REGIONS = 1 << 14  # regions of 64 user pages whose accessed and dirty bits are remembered
ARRAYS = 40  # most arrays of a machine
ROW_SHIFT = 3  # log2 of the slots of the smallest set: every set starts at a multiple
ROWS = SLOTS >> ROW_SHIFT
HELD = 20 * ARRAYS  # most (array, page size) pairs
LEVELS = 5  # most levels of the page table
CACHES = 3  # most levels of caches that serve page-table entries
WALKERS = 6  # most page walkers (Zen 3)
ASIDS = 6  # address spaces that keep their entries (Linux arch/x86/mm/tlb.c, TLB_NR_DYN_ASIDS)
EMPTY = -1
NEVER = -1 << 63  # not part of any tag
# bits of an address without its sign extension (5-level paging); the address-space number is above them
ADDRESS_BITS = 57
ADDRESS = (1 << ADDRESS_BITS) - 1

ANY = "any"  # a TLB that holds every power of two from 4 KiB up
CACHE_LEVELS = {"pde": 2, "pdpte": 3, "pml4e": 4}  # page-walk cache -> level of the table that its entries point to
SIDES = ("load", "store", "fetch")  # kinds of look-ups; `side` is an index of this tuple
POLICIES = ("lru", "fifo", "random", "tree-plru", "bit-plru", "srrip")
LRU, FIFO, RANDOM, TREE, BITS, SRRIP = range(len(POLICIES))
FILLS = ("mostly-inclusive", "exclusive", "on-walk")
BOTH, EXCLUSIVE, ON_WALK = range(len(FILLS))
INVALIDATION = (  # keys of a machine's [invalidate], and fields of MMU
    "cores", "program_cpus", "ceiling", "kernel_ceiling", "invlpg_cycles", "flush_cycles", "shootdown_cycles",
    "shootdown_cpu_cycles", "broadcast_pages", "broadcast_from", "broadcast_cycles", "sync_cycles", "sync_cpu_cycles", "pcid",
)  # fmt: skip

SCM_SHIFT = SCM_TABLE.bit_length() - 1
_KINDS = 2 * CONTIGUOUS  # page sizes with and without contiguous neighbours

ARRAY = np.dtype(
    (
        np.record,
        [
            ("first", "i8"),  # first slot in the pool
            ("sets", "i8"),
            ("mask", "i8"),  # sets - 1 if sets is a power of two; else -1, and set = page % sets
            ("fold", "i8"),  # set = (page ^ page >> fold) & mask; 62: set = page & mask
            ("lanes", "i8"),  # slots per set
            ("ways", "i8"),
            ("policy", "i8"),
            # slot that names the page used last in a set: the set's first slot under LRU, else a slot after all sets
            ("recent", "i8"),
            ("recent_shift", "i8"),
        ],
    )
)

# How an event of one code looks up a page of one size.  A level without an array for a size holds the page in pieces of the
# next smaller size that it has an array for: `order` and `stlb_order` are the log2 bytes of a piece.
PAGE = np.dtype(
    (
        np.record,
        [
            ("l1", "i8"),  # first-level array
            ("order", "i8"),
            ("stlb", "i8"),  # second-level array, -1 = none
            ("stlb_order", "i8"),
            ("leaf", "i8"),  # page-table level that maps the page: 1 (PTE), 2, 3
            ("walk_order", "i8"),  # log2 of the page size, at most the machine's largest page
            ("column", "i8"),  # first counter of the side
            ("split", "i8"),  # 1: look-ups at user addresses count in the user split; 0: instruction fetches
            ("by_width", "i8"),  # -1: one look-up for each `bytes_per_access` bytes; 0: one for each page
            ("retired", "i8"),  # counter of the retired instructions, -1 = none
            ("store", "i8"),  # 1: sets the dirty bit
            # The page used last in a set of the first level is named in slot `recent` + number of the set * `stride`.
            ("recent", "i8"),
            ("stride", "i8"),
            ("set_mask", "i8"),  # the array's `mask` and `fold`
            ("fold", "i8"),
            ("low", "i8"),  # low bits of a tag: `order`; with NEVER where the page used last allows no shortcut
        ],
    )
)

LOGGED = np.dtype((np.record, [("event", "i8"), ("line", "i8")]))  # line as in walk.reference

MMU = np.dtype(
    (
        np.record,
        [
            ("tag", "i8", (SLOTS,)),  # first, so that sets are on cache lines
            ("mark", "u1", (SLOTS,)),
            # TLB arrays in use; the page-walk caches, nested TLB, caches of page-table entries follow them
            ("tlbs", "i8"),
            ("held", "i8"),  # number of (TLB array, log2 of a page size that it holds) pairs
            ("array_held", "i8", (HELD,)),
            ("order_held", "i8", (HELD,)),
            ("array_of", "u1", (ROWS,)),  # array of each row of slots
            ("listed", "u1", (ROWS,)),  # 1: the set at this row is in `filled_set`, or need never be added
            ("filled", "i8"),  # number of TLB sets that received a page since everything was flushed
            ("filled_set", "i8", (ROWS,)),  # first slots of the `filled` sets
            ("known", "i8", (ROWS,)),  # by row: version of the set's content (look_up.py), EMPTY: not known
            ("walk_slots", "i8", (2,)),  # slots of page-walk caches and nested TLB: [first, end)
            ("filling", "i8"),
            # second-level array that victims of this log2 size enter; [0] fetches, [1] data
            ("stlb_of", "i8", (2, 32)),
            ("levels", "i8"),  # levels of the page table
            ("shift", "i8", (LEVELS + 2,)),  # log2 of the bytes that an entry of this level maps (1 = PTE)
            ("walk_cache", "i8", (LEVELS + 2,)),  # page-walk cache of entries of this level (2 = PDE), -1 = none
            ("caches", "i8"),  # caches that serve page-table entries; 0: every reference costs `memory_cycles`
            ("cache", "i8", (CACHES,)),
            ("cache_cycles", "i8", (CACHES,)),
            ("memory_cycles", "i8"),
            ("scm_cycles", "i8"),
            ("log", "i8"),  # address of LOGGED records for entries that walks read, 0: not logged
            ("log_room", "i8"),
            ("logged", "i8"),  # entries read; the log keeps the first `log_room` of them
            ("event", "i8"),  # number of the current event, while a log is kept
            ("walkers", "i8"),
            ("free_at", "i8", (WALKERS,)),  # time at which a walker is free, cycles
            ("now", "i8"),  # cycles: one per look-up, plus waiting for a walker
            ("active_until", "i8"),
            ("nested", "i8"),  # array of nested translations, -1 = none
            ("nested_levels", "i8"),  # levels of the host's page table; 0: no virtual machine
            ("nested_order", "i8"),  # log2 of the host's page size
            ("nested_leaf", "i8"),  # level of the host's page table that maps its pages
            ("low_bits", "i8"),  # = ADDRESS: a mask whose value LLVM does not know, see batch.py
            ("space", "i8"),  # number of the address space << ADDRESS_BITS, 0 to ASIDS - 1
            ("pcid", "i8"),  # 1: a switch of address spaces keeps the entries
            ("mm", "i8", (ASIDS,)),  # address space of each number, -1 = none
            ("next_mm", "i8"),
            ("cores", "i8"),  # CPUs on which a kernel address is invalidated
            ("program_cpus", "i8"),  # CPUs that run the program: a user address is invalidated on them
            ("ceiling", "i8"),  # more pages than this flush everything
            ("kernel_ceiling", "i8"),  # the same for kernel addresses, which Linux invalidates on all CPUs
            ("invlpg_cycles", "i8"),
            ("flush_cycles", "i8"),
            ("shootdown_cycles", "i8"),  # for the first interrupted CPU
            ("shootdown_cpu_cycles", "i8"),  # for each further CPU
            # pages that one request invalidates on all CPUs without interrupting them; 0: no such instruction
            ("broadcast_pages", "i8"),
            ("broadcast_from", "i8"),  # fewest CPUs of a program for which a user address is broadcast
            ("broadcast_cycles", "i8"),  # per request
            ("sync_cycles", "i8"),  # to wait until the other CPUs have completed the requests
            ("sync_cpu_cycles", "i8"),  # to wait in addition, for each of the other CPUs
            ("track_bits", "i8"),  # 1: accessed and dirty bits of user pages are simulated
            ("update_cycles", "i8"),  # cycles to set a bit
            ("region", "i8", (REGIONS,)),  # number of the region in this row, or EMPTY
            ("accessed", "i8", (REGIONS,)),  # one bit for each page of the region
            ("dirty", "i8", (REGIONS,)),
            ("seed", "i8"),  # state of RANDOM
            ("page", PAGE, (len(EVENTS), _KINDS)),
            ("array", ARRAY, (ARRAYS,)),
        ],
    )
)


def empty() -> np.ndarray:
    """Return a state record of shape (1,) without arrays."""
    room = np.zeros(MMU.itemsize + 64, np.uint8)
    start = -room.ctypes.data % 64
    state = room[start : start + MMU.itemsize].view(MMU)
    for field in ("tag", "walk_cache", "nested", "mm", "stlb_of", "region", "known"):
        state[field] = EMPTY
    state["low_bits"] = ADDRESS
    state["seed"] = 0x2545F4914F6CDD1D
    return state
