"""Where mappings stand in the arena: the words of the table of mappings, of a file, of a mapping, and of a page-table entry.

Units: pages of 4096 bytes; addresses in bytes.  Addresses of mappings are handed out upwards and used again after 64 TiB.
"""

PAGE, HUGE_PAGE = 1 << 12, 1 << 21
FAN = 512  # entries of a page of a page table
FAN_ORDER = 9  # of its words in the arena
# that a fault takes besides those of the file system, and two for each 2 MiB before its page
FAULT_WORDS = 4 * FAN + 64

# The table of mappings, at `maps` of the state record.  FILES: the words of the first file; AT: bytes or pages of the operation at
# work that are done (msync: ~page where the mapping of that page is not begun);
# ASKS: what the file system is to do first (ASK_...), for ASKS_FILE at page ASKS_AT; ANSWERED: the last answer;
# RUNS: 1 + the thread whose address space is in use; COPIES: pages that private mappings have copied; SITE, COST: the first of its
# own; BEYOND_END to UNSUPPORTED: what failed; HUGE: all its pages are huge; LEAVES_LARGE: a large entry stays writable when
# its pages are written back; LIVE, NEWEST: how many mappings there are, and the first of all in a list; HOW: what the fault of DAX
# at work found (FAULT bits, ASKED), MAJOR if it filled a hole; FILL_AT, FILL_END: pages to which the fault at work gives blocks,
# 0: to none; LOADS_DIRTY: DAX takes a page that a fault for a load mapped for dirty; FILLS: a fault for a store that may map 2 MiB
# gives blocks to their first run of pages without; ADVICE_AT_WORK: ADVICE of the mapping whose fault is at work; UPPER: the first
# word of bitmaps of the page tables above those that mappings have of their own.
(
    FILES, AT, ASKS, ASKS_FILE, ASKS_AT, ANSWERED, NEXT_ADDRESS, RUNS, COPIES, SITE, COST, BEYOND_END, NOT_MAPPED, DENIED, REPLACED,
    NO_SPACE, UNSUPPORTED, HUGE, LEAVES_LARGE, LIVE, NEWEST, HOW, FILL_AT, FILL_END, LOADS_DIRTY,
    FILLS, ADVICE_AT_WORK, UPPER,
) = range(28)  # fmt: skip
UPPER_WORDS = ((1 << 17) + (1 << 8)) // 32  # a bit for each GiB below 1 << 47, then one for each 512 GiB
TABLE_WORDS = 28
ASK_NOTHING, ASK_TURN, ASK_BLOCK, ASK_SYNC, ASK_CLOSE = range(5)
REFUSED = -1  # the answer of a file system that is full; else the answer is what was asked

# Of a file: its newest mapping, the tree of what DAX has given out (region of 2 MiB -> entry, or its page of entries) as a handle
# of engine.table, whether its mappings keep it although it has lost its last name, the last page that DAX has given out,
# and how many entries of the tree are dirty.
HEAD, TREE, PINS, LAST_GIVEN, DIRTIES = 0, 1, 3, 4, 5
FILE_WORDS = 6

# Of a mapping: SLOTS is a word for each 2 MiB of addresses; NEXT: the one before it of the same file, OLDER: of all; ADVICE:
# the first range of what madvise said of huge pages.
FILE, FIRST, PAGES, START, FLAGS, THREAD, NEXT, SLOTS, SLOTS_ORDER, OLDER, ADVICE = range(11)
ADVISED, ADVISED_AGAINST = 1, 2
MAPPING_ORDER = 4

# An entry: address on the device (or of the frame) and flags, 0: none.  A word of SLOTS, or of the tree, that is neither 0 nor
# PRESENT is the arena offset of FAN entries << 12.
PRESENT, WRITABLE, DIRTY, ZERO, COPIED, LARGE = 1, 2, 4, 8, 16, 32
CONTIGUOUS = 64  # the 16 entries around it, aligned, map 64 KiB of one folio with the same rights
GROUP = 16  # of such entries: Arm's contiguous bit with pages of 4 KiB (CONT_PTES)
FLAG_BITS = PAGE - 1

# What a family says of a page (hooks.place): 0: a hole; UNWRITTEN: it has a block without content; else its address.
UNWRITTEN = 1

BEYOND, ASK = (
    2,
    3,
)  # outcomes of a fault besides those of engine.operations: SIGBUS; the file system has something to do first

# How a page that a fault wants came (hooks.read_in): it was there, or came alone; it was read, with others; its huge page came.
WAS_THERE, WAS_READ, CAME_WHOLE = 0, 1, 2

# What a MAP event (space USER) says in `width`.
FAULT, WRITES, PROTECTED, MAJOR = 1, 2, 4, 8
ASKED = 16  # besides these in HOW: no page table for small pages was there, so the fault asks for 2 MiB first

AREA, AREA_END = 1 << 46, 1 << 47  # of mappings in the program's address space
ZERO_PAGE = 1 << 12  # physical addresses of DRAM, as those of kernel objects (fs/linux/recipes.py)
ANONYMOUS, PAGE_TABLES = 5 << 40, 6 << 40
UPPER_TABLES = 1 << 39  # behind PAGE_TABLES
