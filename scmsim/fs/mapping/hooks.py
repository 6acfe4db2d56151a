"""What a family of file systems tells of the pages of its files: hooks (see `scmsim.jit.binding`).

`f` is what stands for a file in the family, 0 for one that does not exist.
"""

from scmsim.core import records as r
from scmsim.fs.engine.operations import DONE
from scmsim.fs.mapping.words import FAN, WAS_THERE
from scmsim.jit import subroutine

SPACE = r.PM  # where the pages of files lie
MAY_BE_LARGE = False  # whether a fault may map 2 MiB at once
KEEPS_CLEAN = True  # whether a page that was written back is protected, so that the next store to it is a fault
DAX = True  # whether what was stored is known by the entries of DAX, else by the page cache
BY_REQUEST = False  # whether a fault leaves it to the file system to give a page a block
UNMAPS_ALL = False  # whether truncate and the punching of a hole unmap the whole file (dax_layout_busy_page)
ALLOCATION_UNMAPS = False  # whether any other fallocate does, too
GROWTH_SYNCS = False  # whether a truncate that makes a file longer writes back its last page, if that was no whole one
WHOLE_BLOCKS = False  # whether a block that a fault gets so is of 2 MiB or more, and can be mapped at once
SYNCS = False  # whether it takes MAP_SYNC
COUNTS_USES = False  # whether a page is told that a program has used it once an entry of it goes (mark_page_accessed)
AROUND = 1  # pages that a fault for a load maps (fault_around_bytes)


@subroutine
def begin(s, op):
    """Before the events of an operation."""


@subroutine
def due(s):
    """Whether the file system's own threads have something to do before metadata change."""
    return False


@subroutine
def find(s, arena, file):
    """What stands for a file."""
    return 0


@subroutine
def length(s, arena, f):
    """Bytes of a file."""
    return 0


@subroutine
def place(s, arena, f, page):
    """Where a page of a file lies: 0: it is a hole; UNWRITTEN set: its block has no content."""
    return 0


@subroutine
def is_long_hole(s, arena, f, page):
    """Whether the file system tells the 2 MiB from a page on, all holes, as one hole."""
    return True


@subroutine
def hole_at_once(s, arena, f, page):
    """How many pages from `page` on, all holes, the file system gives blocks when it is asked for the blocks of 2 MiB."""
    return FAN


@subroutine
def give_blocks(s, arena, out, f, page, count):
    """Give the first of `count` pages, all holes or all unwritten, cleared blocks; returns (outcome, how many)."""
    return DONE, count


@subroutine
def read_in(s, arena, out, f, page):
    """Page cache: bring a page in, with those around it; returns (outcome, how it came: WAS_THERE, WAS_READ, CAME_WHOLE)."""
    return DONE, WAS_THERE


@subroutine
def make_dirty(s, arena, out, f, page):
    """Page cache: a page is about to be stored to; returns the outcome."""
    return DONE


@subroutine
def note_use(s, arena, f, page):
    """COUNTS_USES: a page was used through an entry that is about to go; returns whether it was used before, but only once."""
    return False


@subroutine
def charge_uses(s, arena, out, count):
    """COUNTS_USES: `count` pages were used for the second time; takes 2 events."""


@subroutine
def folio(s, arena, f, page):
    """Page cache: the folio that a page lies in, as (first page, pages)."""
    return page, 1


@subroutine
def unmapped_by(s, arena, f, op):
    """Pages [first, stop) that a truncation or a hole takes from all mappings besides those that go; private copies stay."""
    return 0, 0


@subroutine
def is_dirty(s, arena, f, page):
    """Page cache: whether a page is dirty; a clean one is protected."""
    return True


@subroutine
def note_write(s, arena, out, f):
    """A fault for a store: the file's times; takes 4 events."""


@subroutine
def note_access(s, arena, out, f):
    """mmap: the file's access time, where the family keeps it (file_accessed); takes 3 events."""


@subroutine
def must_sync(s, arena, f):
    """Whether what leads to a file's blocks is not stored yet (MAP_SYNC)."""
    return False


@subroutine
def pin(s, arena, f, change):
    """A file's first mapping came (1), or its last one went (-1); returns whether the file goes with it."""
    return False
