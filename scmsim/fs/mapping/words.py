"""Layout of mappings in the arena: the fields of the table of mappings, of a file and of a mapping, and page-table entries.

Units: pages of 4096 bytes; addresses in bytes.  Addresses of mappings are allocated upwards and reused after 64 TiB.
"""

PAGE, HUGE_PAGE = 1 << 12, 1 << 21
FAN = 512  # entries of a page of a page table
FAN_ORDER = 9  # log2 of the arena words of such a page
# words that a fault takes besides those of the file system, and two for each 2 MiB before its page
FAULT_WORDS = 4 * FAN + 64

# The table of mappings, at `maps` of the state record:
#   FILES: offset of the first file's fields
#   AT: bytes or pages done of the current operation (msync: ~page if the mapping of that page has not been started)
#   REQUEST: request to the file system (ASK_...), for REQUEST_FILE at page REQUEST_PAGE; REPLY: its last answer
#   RUNS: 1 + the thread whose address space is in use
#   COPIES: pages that private mappings have copied
#   SITE, COST: first mechanism and first cost row of mappings
#   BEYOND_END to UNSUPPORTED: counts of failures
#   HUGE: all pages are huge; LEAVES_LARGE: a large entry stays writable when its pages are written back
#   LIVE: number of mappings; NEWEST: head of the list of all mappings
#   HOW: findings of the current DAX fault (FAULT bits, ASKED), MAJOR if it filled a hole
#   FILL_AT, FILL_END: pages to which the current fault gives blocks, 0: none
#   LOADS_DIRTY: DAX treats a page that a fault for a load mapped as dirty
#   FILLS: a fault for a store that may map 2 MiB gives blocks to their first run of pages without blocks
#   ADVICE_AT_WORK: ADVICE of the current fault's mapping
#   UPPER: offset of the bitmaps of the page tables above those that each mapping has
(
    FILES, AT, REQUEST, REQUEST_FILE, REQUEST_PAGE, REPLY, NEXT_ADDRESS, RUNS, COPIES, SITE, COST, BEYOND_END, NOT_MAPPED, DENIED,
    REPLACED, NO_SPACE, UNSUPPORTED, HUGE, LEAVES_LARGE, LIVE, NEWEST, HOW, FILL_AT, FILL_END, LOADS_DIRTY,
    FILLS, ADVICE_AT_WORK, UPPER,
) = range(28)  # fmt: skip
UPPER_WORDS = ((1 << 17) + (1 << 8)) // 32  # a bit for each GiB below 1 << 47, then one for each 512 GiB
TABLE_WORDS = 28
ASK_NOTHING, ASK_TURN, ASK_BLOCK, ASK_SYNC, ASK_CLOSE = range(5)
REFUSED = -1  # answer of a full file system; otherwise the answer equals the request

# Fields of a file: its newest mapping; DAX's tree (region of 2 MiB -> entry, or offset of small entries) as a handle of
# engine.table; whether its mappings keep it although it has lost its last name; the last page with an entry in the
# tree; number of dirty entries of the tree.
HEAD, TREE, PINS, LAST_GIVEN, DIRTIES = 0, 1, 3, 4, 5
FILE_WORDS = 6

# Fields of a mapping.  SLOTS: offset of the slots, one per 2 MiB of addresses; NEXT: next older mapping of the same
# file; OLDER: next older mapping of all; ADVICE: first range of madvise's advice on huge pages.
FILE, FIRST, PAGES, START, FLAGS, THREAD, NEXT, SLOTS, SLOTS_ORDER, OLDER, ADVICE = range(11)
ADVISED, ADVISED_AGAINST = 1, 2
MAPPING_ORDER = 4

# An entry: address on the device (or of the frame) and flags, 0: none.  A slot of a mapping or of the tree that is
# neither 0 nor PRESENT is the arena offset of FAN small entries << 12.
PRESENT, WRITABLE, DIRTY, ZERO, COPIED, LARGE = 1, 2, 4, 8, 16, 32
CONTIGUOUS = 64  # the 16 entries around it, aligned, map 64 KiB of one folio with the same rights
GROUP = 16  # of such entries: Arm's contiguous bit with pages of 4 KiB (CONT_PTES)
FLAG_BITS = PAGE - 1

# Values of hooks.place: 0: a hole; UNWRITTEN set: the page has a block without content; else the page's address.
UNWRITTEN = 1

BEYOND, ASK = (
    2,
    3,
)  # more outcomes of a fault: SIGBUS; the file system must act first

# How a fault's page came (hooks.read_in): it was there or came alone; it was read with others; its whole huge page
# came.
WAS_THERE, WAS_READ, CAME_WHOLE = 0, 1, 2

# Values of EVENT.fault_flags, flags.
FAULT, WRITES, PROTECTED, MAJOR = 1, 2, 4, 8
ASKED = 16  # additional flag of HOW: no table for small pages existed, so the fault asks for 2 MiB first

AREA, AREA_END = 1 << 46, 1 << 47  # addresses of mappings in the program's address space
ZERO_PAGE = 1 << 12  # physical addresses in DRAM, as those of kernel objects (fs/linux/templates.py)
ANONYMOUS, PAGE_TABLES = 5 << 40, 6 << 40
UPPER_TABLES = 1 << 39  # above PAGE_TABLES
