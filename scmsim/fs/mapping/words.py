"""Layout of mappings in the arena: the fields of the table of mappings, of a file and of a mapping, and page-table entries.

Units: pages of 4096 bytes; addresses in bytes.  Addresses of mappings are allocated upwards and reused after 64 TiB.
"""

PAGE, HUGE_PAGE = 1 << 12, 1 << 21
FAN = 512  # entries of a page of a page table
FAN_ORDER = 9  # log2 of the arena words of a page-table page
# maximum number of arena words that a fault allocates; not counted: the file system's, and two per 2 MiB of file before its page
FAULT_WORDS = 4 * FAN + 64

# Fields of the table of mappings (field `maps` of the state record), one arena word each:
FILES = 0  # arena offset of the first file's fields
# progress of the current operation in bytes or pages (msync: the next page; ~page if its mapping has not been started)
AT = 1
REQUEST = 2  # request to the file system: ASK_...
REQUEST_FILE = 3  # file of the request
REQUEST_PAGE = 4  # page of the request
REPLY = 5  # last answer: the completed request, or REFUSED if the file system is full
NEXT_ADDRESS = 6  # address of the next mapping, bytes
RUNS = 7  # 1 + the thread whose address space is in use
COPIES = 8  # pages that private mappings have copied
SITE = 9  # site of the first mechanism
COST = 10  # first cost row of mappings
BEYOND_END = 11  # touches after the end of their file
NOT_MAPPED = 12  # touches without a mapping
DENIED = 13  # stores that the mapping does not allow
REPLACED = 14  # mappings that lost pages to a later one at the same address
NO_SPACE = 15  # stores on a full device
UNSUPPORTED = 16  # refused mappings
HUGE = 17  # 1: all pages are huge
LEAVES_LARGE = 18  # 1: a large entry stays writable when its pages are written back
LIVE = 19  # number of mappings
NEWEST = 20  # newest mapping, head of the list of all; 0: none
HOW = 21  # fault flags of the current DAX fault, with ASKED, and MAJOR if it filled a hole
FILL_AT = 22  # first page to which the current fault gives blocks
FILL_END = 23  # page after the last page to which the current fault gives blocks, 0: none
LOADS_DIRTY = 24  # 1: DAX treats a page as dirty even if a fault for a load mapped it
# 1: a store fault that may map 2 MiB gives blocks to the run of pages without blocks at the start of these 2 MiB
FILLS = 25
ADVICE_AT_WORK = 26  # advice for the page of the current fault: ADVISED, ADVISED_AGAINST, 0: none
UPPER = 27  # arena offset of the bitmaps of upper page tables, which mappings share
TABLE_WORDS = 28
UPPER_WORDS = ((1 << 17) + (1 << 8)) // 32  # a bit for each GiB below 1 << 47, then one for each 512 GiB
ASK_NOTHING, ASK_TURN, ASK_BLOCK, ASK_SYNC, ASK_CLOSE = range(5)
REFUSED = -1

# Fields of a file, one arena word each unless stated otherwise:
HEAD = 0  # newest mapping of the file; 0 if none
TREE = 1  # table (2 words): region of 2 MiB -> entry of DAX's tree, or offset of small entries
PINS = 3  # 1: mappings keep the file although it has lost its last name
LAST_GIVEN = 4  # last page that ever had an entry in the tree
DIRTIES = 5  # dirty entries of the tree
FILE_WORDS = 6

# Fields of a mapping, one arena word each:
FILE = 0  # arena offset of the fields of its file
FIRST_PAGE = 1  # page of the file at which the mapping starts
PAGE_COUNT = 2  # number of pages
START = 3  # address, bytes
FLAGS = 4  # flags of the mmap: records.PRIVATE, MAP_SYNC, ...
THREAD = 5  # thread whose own address space has the mapping; -1 for the shared address space
NEXT = 6  # next older mapping of the same file; 0 if none
SLOTS = 7  # arena offset of the slots, one for each 2 MiB of addresses
SLOTS_ORDER = 8  # log2 of the number of words of the slots
OLDER = 9  # next older mapping of any file; 0 if none
ADVICE = 10  # first range of madvise's advice on huge pages (see advice.py), 0: none
MAPPING_ORDER = 4
ADVISED, ADVISED_AGAINST = 1, 2

# An entry: address on the device (or of the frame) and flags, 0: none.  A slot of a mapping or of the tree that is
# neither 0 nor PRESENT is the arena offset of FAN small entries << 12.
PRESENT, WRITABLE, DIRTY, ZERO, COPIED, LARGE = 1, 2, 4, 8, 16, 32
CONTIGUOUS = 64  # the 16 entries around it, aligned, map 64 KiB of one folio with the same rights
GROUP = 16  # entries in a contiguous group: Arm's contiguous bit with 4 KiB pages (CONT_PTES)
FLAG_BITS = PAGE - 1

# Values of hooks.place: 0: a hole; UNWRITTEN set: the page has a block without content; else the page's address.
UNWRITTEN = 1

BEYOND, ASK = 2, 3  # more outcomes of a fault: SIGBUS; the file system must act first

# How a fault's page entered the cache (hooks.read_in): it was cached or was allocated alone; it was read with its
# neighbours; it was allocated as part of a huge page.
WAS_THERE, WAS_READ, CAME_WHOLE = 0, 1, 2

# Flags of EVENT.fault_flags.
FAULT, WRITES, PROTECTED, MAJOR = 1, 2, 4, 8
ASKED = 16  # extra flag in the field HOW: there was no table of 4 KiB entries, so the fault tries to map 2 MiB first

AREA, AREA_END = 1 << 46, 1 << 47  # addresses of mappings in the program's address space
ZERO_PAGE = 1 << 12  # physical addresses in DRAM, in the space of kernel objects (fs/linux/templates.py)
ANONYMOUS, PAGE_TABLES = 5 << 40, 6 << 40
UPPER_TABLES = 1 << 39  # offset of the upper levels' page tables from PAGE_TABLES
