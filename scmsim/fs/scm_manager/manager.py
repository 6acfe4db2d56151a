"""Model the SCM manager: a file's data objects come from the buddy system one by one and are chained; nothing is cached.

A directory is a file of 8-byte entries, each with the index of a metadata object (which holds the name) and a hash of
the name. The paper does not describe directories; if a look-up loaded the names themselves from SCM, Postmark would not
be faster than on FAT, as Table 4 of the paper shows.
Source: SCM manager paper, section 4.2; a reconstruction.
"""

from scmsim.alloc import buddy
from scmsim.core.records import Files
from scmsim.fs.engine import calls, operations
from scmsim.fs.engine.events import State, emit_template
from scmsim.fs.scm_manager import cache, data, index, inodes, names, objects, state, templates, units
from scmsim.fs.scm_manager import operations as shared
from scmsim.fs.scm_manager.objects import DATA_ORDER, META_ORDER
from scmsim.jit import subroutine
from scmsim.jit.binding import bind

CHUNK = 1 << buddy.LARGEST_SHIFT


# The buddy system.


@subroutine
def ready(s, arena, units):
    """Grow the bitmaps of the buddy system, if needed, for the next objects; return False if the arena must grow first."""
    return buddy.ready(s, arena, 2)


@subroutine
def available(s):
    """Return how many data objects can be allocated."""
    s.free_blocks = buddy.room(s, DATA_ORDER)
    return s.free_blocks


@subroutine
def take(s, arena, want):
    """Allocate one data object and return its device offset."""
    s.got = 1
    return buddy.allocate(s, arena, DATA_ORDER)


@subroutine
def give(s, arena, row, i):
    """Free a file's data object in the buddy system; a short object is freed in its own size."""
    short = arena[row + state.SHORT] if i == 0 else 0
    buddy.release(s, arena, index.place(arena, row, i), short - 1 if short > 0 else DATA_ORDER)
    if short > 0:
        arena[row + state.SHORT] = 0


@subroutine
def missing(arena, row, first, stop):
    """Return how many data objects must be allocated for the file to reach `stop`, including one that replaces a short one."""
    return max(stop - arena[row + state.UNIT_COUNT], 0) + (arena[row + state.SHORT] > 0)


@subroutine
def number(s, at):
    """Return the number of a data object's entry in the chain table, which has an entry per 512 bytes from its own start on."""
    return (at - s.table_at) >> s.shift


# Metadata objects and first data objects.


@subroutine
def make_inode(s, arena, row):
    """Allocate a metadata object for a new file."""
    if arena[row + state.META] == 0:
        arena[row + state.META] = buddy.allocate(s, arena, META_ORDER)


@subroutine
def inode_changed(s, arena, out, row):
    """Store the changed metadata object."""
    s.reg[templates.META] = arena[row + state.META]
    emit_template(s, out, templates.INODE_STORE)


@subroutine
def free_inode(s, arena, row):
    """Free the metadata object."""
    if arena[row + state.META] != 0:
        buddy.release(s, arena, arena[row + state.META], META_ORDER)


@subroutine
def units_at_first(s, is_dir):
    """Return how many data objects a new file gets at once; a directory gets none."""
    return s.first_objects * (not is_dir)


# Nothing is cached.


@subroutine
def mark(s, arena, row, first, count):
    """Do nothing: stored data is on the medium at once."""


@subroutine
def note_entries(s, arena, out, unit, count, words):
    """Do nothing: stored entries of the chain table are on the medium at once."""


@subroutine
def fill_cache(s, arena, out, row, first, stop, cold):
    """Do nothing: loads come from the medium."""


@subroutine
def write_back(s, arena, out, row):
    """Return True: there is nothing to write back."""
    return True


@subroutine
def leave(s, out):
    """Update the count of free objects for the space report."""
    available(s)


emit = bind(
    "scm_manager",
    operations,
    {
        operations: {**shared.HOOKS[operations], "filter_operation": objects.filter_operation, "leave": leave},
        calls: {**shared.HOOKS[calls], "any_step": objects.any_step},
        cache: {"mark": mark, "note_entries": note_entries, "fill_cache": fill_cache, "write_back": write_back},
        data: {"widen": objects.widen},
        index: {"number": number},
        inodes: {"make": make_inode, "changed": inode_changed, "free": free_inode},
        names: {"units_at_first": units_at_first},
        shared: {
            "adopts": objects.adopts,
            "missing": missing,
            "own_units": objects.units_for_names,
            "own_begin": objects.admit,
        },
        units: {"ready": ready, "available": available, "take": take, "give": give},
    },
).emit


def start(params: dict, files: Files) -> State:
    """Return the state of an empty SCM: the driver's areas, the chain table (4 bytes per data object), the buddy system."""
    made = templates.calls() | templates.direct() | templates.objects()
    built = state.build(params, files, "scm-manager", made, shift=9, entry=8, inode=templates.OBJECT)
    record = built.record[0]
    record.first_objects = params["first_objects"]
    at, capacity = int(record.table_at), int(record.capacity)
    record.table_bytes = state.up((capacity - at) // templates.SECTOR * templates.WORD, templates.SECTOR)
    origin = state.up(at + int(record.table_bytes), CHUNK)
    buddy.attach(built, origin, (capacity - origin) // CHUNK * CHUNK)
    return built
