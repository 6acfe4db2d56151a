"""Hooks by which a family of file systems describes the pages of its files to mappings (see `scmsim.jit.binding`).

`f` is the model's row of a file; 0 if the file does not exist.
"""

from scmsim.core import records as r
from scmsim.fs.engine.operations import DONE
from scmsim.fs.mapping.words import FAN, WAS_THERE
from scmsim.jit import subroutine

SPACE = r.PM  # address space of the files' pages
MAY_BE_LARGE = False  # whether a fault may map 2 MiB at once
KEEPS_CLEAN = True  # whether a page is protected by its write-back, so that the next store to it faults
DAX = True  # True: DAX's xarray of the file records dirty pages; False: the page cache does
BY_REQUEST = False  # whether a fault leaves the allocation of a page's block to the file system
UNMAPS_ALL = False  # whether truncate and hole punching unmap the whole file (dax_layout_busy_page)
ALLOCATION_UNMAPS = False  # whether any other fallocate unmaps the whole file
GROWTH_SYNCS = False  # whether a truncate that extends a file writes back its partial last page
WHOLE_BLOCKS = False  # whether a block requested by a fault has at least 2 MiB and can be mapped at once
SYNCS = False  # whether the file system supports MAP_SYNC
COUNTS_USES = False  # whether the removal of an entry marks its page as accessed (mark_page_accessed)
ORDER = 0  # log2 of the bytes of every entry if the family maps pages of one size; else 0
HUGETLB = False  # whether, with ORDER, mmap rounds a length up to whole pages, and populating counts no faults
AROUND = 1  # pages that a fault for a load maps (fault_around_bytes)


@subroutine
def begin(s, op):
    """Prepare the state record for the events of an operation; by default do nothing."""


@subroutine
def has_background_work(s):
    """Return whether the file system's own threads have work to do before metadata change."""
    return False


@subroutine
def find(s, arena, file):
    """Return the model's row of a file."""
    return 0


@subroutine
def length(s, arena, f):
    """Return the file's length in bytes."""
    return 0


@subroutine
def place(s, arena, f, page):
    """Return the address of a file's page; 0 for a hole; with UNWRITTEN set, the block has no content."""
    return 0


@subroutine
def look_up(s, arena, out, f, page):
    """DAX: emit the search for a page's block in a fault, if the family counts it apart from the fault; see `look_up_events`."""


@subroutine
def look_up_events(s):
    """Return the maximum number of events that `look_up` emits."""
    return 0


@subroutine
def is_long_hole(s, arena, f, page):
    """Return whether the file system reports the 2 MiB from a page on, which are all holes, as one hole."""
    return True


@subroutine
def hole_at_once(s, arena, f, page):
    """Return how many of the holes from `page` on get blocks when the blocks of 2 MiB are requested."""
    return FAN


@subroutine
def give_blocks(s, arena, out, f, page, count):
    """Give cleared blocks to up to `count` pages, all of them holes or all unwritten; return (outcome, pages that got blocks)."""
    return DONE, count


@subroutine
def read_in(s, arena, out, f, page):
    """Page cache: read or allocate a page, with readahead; return (outcome, WAS_THERE, WAS_READ or CAME_WHOLE)."""
    return DONE, WAS_THERE


@subroutine
def make_dirty(s, arena, out, f, page):
    """Page cache: make a page dirty before a store; return the outcome."""
    return DONE


@subroutine
def note_use(s, arena, f, page):
    """COUNTS_USES: note the use of a page through a removed entry; return whether the page had been used exactly once."""
    return False


@subroutine
def charge_uses(s, arena, out, count):
    """COUNTS_USES: charge the second use of `count` pages; emits at most 2 events."""


@subroutine
def folio(s, arena, f, page):
    """Page cache: return the folio of a page as (first page, pages)."""
    return page, 1


@subroutine
def unmapped_by(s, arena, op, f):
    """Return the additional pages [first, stop) that a truncation or hole unmaps in all mappings, except private copies."""
    return 0, 0


@subroutine
def is_dirty(s, arena, f, page):
    """Page cache: return whether a page is dirty; a clean page is protected."""
    return True


@subroutine
def note_write(s, arena, out, f):
    """Set the file's times at a fault for a store; emits at most 4 events."""


@subroutine
def note_access(s, arena, out, f):
    """Set the file's access time at mmap, if the family keeps it (file_accessed); emits at most 3 events."""


@subroutine
def must_sync(s, arena, f):
    """Return whether the metadata that leads to a file's blocks is not stored yet (MAP_SYNC)."""
    return False


@subroutine
def pin(s, arena, f, change):
    """Note a file's first mapping (1) or the loss of its last mapping (-1); return whether the file must be freed."""
    return False
