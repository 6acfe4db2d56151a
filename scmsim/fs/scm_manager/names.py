"""Model directories and names: a search starts at the first entry, and a new name goes into the first large enough gap.

A look-up treats the units of a directory as contiguous.
Source: SCM manager paper, section 4.2; Linux 2.6.24 fs/fat/dir.c, fs/vfat/namei.c, fs/ext2/dir.c.
"""

from scmsim.core import records
from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_template
from scmsim.fs.scm_manager import cache, index, inodes, state, templates, units
from scmsim.fs.scm_manager.data import free_to_end
from scmsim.fs.scm_manager.index import place
from scmsim.fs.scm_manager.units import extend, place_old_units
from scmsim.jit import subroutine

NAME_UNITS = 24  # maximum number of units for one more name: of the directory, of indirect blocks, of objects


@subroutine
def entries(length):
    """Return how many directory entries a name of `length` characters takes."""
    return 1


@subroutine
def scan(s, arena, out, directory, count):
    """Load the first `count` entries of a directory."""
    if count <= 0 or place(arena, directory, 0) == 0:
        return
    s.reg[templates.COUNT], s.reg[templates.NAME_AT] = count, place(arena, directory, 0)
    s.reg[templates.NAME_BYTES] = min(count * s.entry, s.capacity - s.reg[templates.NAME_AT])
    emit_template(s, out, templates.SCAN)


@subroutine
def gap(s, arena, directory, needs):
    """Return the first entry of the first gap of `needs` entries, at the directory's end if no earlier gap is long enough."""
    top, found, first = arena[directory + state.TOP], 0, -1
    # GAP is a lower bound: no entry before it is free.
    for i in range(arena[directory + state.GAP], top):
        if table.get(arena, directory + state.SLOTS, i) != 0:
            found = 0
            continue
        if first < 0:
            first = i
        found += 1
        if found == needs:
            arena[directory + state.GAP] = first
            return i - needs + 1
    arena[directory + state.GAP] = first if first >= 0 else top
    return top - found


@subroutine
def words_for_name(s, arena, directory):
    """Return how many arena words one more name in a directory needs at most."""
    top = arena[directory + state.TOP] + 24
    words = table.words_to_hold(arena, directory + state.SLOTS, top)
    return words + index.words_for(arena, directory, (top * s.entry >> s.shift) + 2)


@subroutine
def write_entry(s, arena, out, directory, slot, needs):
    """Store the `needs` entries of a name from `slot` on."""
    i = slot * s.entry >> s.shift
    s.reg[templates.DIR_AT] = place(arena, directory, i) + (slot * s.entry & ((1 << s.shift) - 1))
    s.reg[templates.DIR_BYTES] = min(needs * s.entry, ((i + 1) << s.shift) - slot * s.entry)
    emit_template(s, out, templates.DIRENT)
    last = (slot + needs) * s.entry - 1 >> s.shift
    cache.mark(s, arena, directory, i, last - i + 1)


@subroutine
def add_name(s, arena, out, row, directory):
    """Add a name of a file to a directory, with another unit if necessary; arena and device must have room."""
    needs = entries(arena[row + file_row.NAME])
    slot = gap(s, arena, directory, needs)
    table.reserve(s, arena, directory + state.SLOTS, slot + needs)
    stop = ((slot + needs) * s.entry - 1 >> s.shift) + 1
    index.reserve(s, arena, directory, stop)
    resume_at = s.resume_at
    s.resume_at = arena[directory + state.UNIT_COUNT]
    while s.resume_at < stop:
        extend(s, arena, out, directory, stop)
    s.resume_at = resume_at
    arena[directory + file_row.SIZE] = arena[directory + state.UNIT_COUNT] << s.shift
    for i in range(slot, slot + needs):
        table.put(arena, directory + state.SLOTS, i, (row - s.files) // state.FILE_WORDS + 1)
    arena[directory + state.TOP] = max(arena[directory + state.TOP], slot + needs)
    arena[directory + state.NAMES] += 1
    arena[row + state.PARENT], arena[row + state.SLOT] = directory, slot
    write_entry(s, arena, out, directory, slot, needs)


@subroutine
def as_directory(s, arena, row):
    """Return `row` if it is a directory, else the row of the unnamed directory, because a plain file has no entries."""
    return row if arena[row + file_row.STATUS] & file_row.IS_DIR else s.nobody


@subroutine
def find_slot(s, arena, row, directory):
    """Return the entry of a file's newest name in a directory, else the file's first entry there, or -1 if it has none."""
    number, known = (row - s.files) // state.FILE_WORDS + 1, arena[row + state.SLOT]
    if arena[row + state.PARENT] == directory and 0 <= known < arena[directory + state.TOP]:
        if table.get(arena, directory + state.SLOTS, known) == number:
            return known
    for i in range(arena[directory + state.TOP]):
        if table.get(arena, directory + state.SLOTS, i) == number:
            return i
    return -1


@subroutine
def remove_name(s, arena, out, row, directory):
    """Remove a name of a file from its directory if the directory has it."""
    slot = find_slot(s, arena, row, directory)
    if slot < 0:
        return
    needs = entries(arena[row + file_row.NAME])
    scan(s, arena, out, directory, slot + needs)
    for i in range(slot, slot + needs):
        table.put(arena, directory + state.SLOTS, i, 0)
    arena[directory + state.GAP] = min(arena[directory + state.GAP], slot)
    arena[directory + state.NAMES] -= 1
    write_entry(s, arena, out, directory, slot, needs)
    arena[row + state.SLOT] = -1


@subroutine
def new_inode(s, arena, out, row):
    """Give a new file an inode."""
    inodes.make(s, arena, row)
    s.reg[templates.META] = arena[row + state.META]
    emit_template(s, out, templates.INODE_NEW)


@subroutine
def units_at_first(s, is_dir):
    """Return how many units a new file or directory gets at once."""
    return 1 if is_dir else 0


@subroutine
def create(s, arena, out, op, row, parent):
    """Model create and mkdir."""
    is_dir = op.op == records.MKDIR
    emit_template(s, out, templates.CREATE)
    scan(s, arena, out, parent, arena[parent + state.TOP])
    arena[row + file_row.STATUS] = file_row.EXISTS | file_row.IS_DIR * is_dir
    arena[row + file_row.LINKS], arena[row + file_row.OPENS] = 1, not is_dir
    new_inode(s, arena, out, row)
    add_name(s, arena, out, row, parent)
    stop = units_at_first(s, is_dir)
    s.resume_at = 0
    while s.resume_at < stop:
        extend(s, arena, out, row, stop)
    inodes.changed(s, arena, out, row)


@subroutine
def lose_link(s, arena, out, row):
    """Subtract one name from the link count, and update the inode."""
    arena[row + file_row.LINKS] -= 1
    inodes.unnamed(s, arena, out, row)


@subroutine
def unlink(s, arena, out, op, row, parent):
    """Model unlink and rmdir."""
    emit_template(s, out, templates.UNLINK)
    remove_name(s, arena, out, row, arena[row + state.PARENT] if arena[row + state.SLOT] >= 0 else parent)
    lose_link(s, arena, out, row)


@subroutine
def rename(s, arena, out, row, parent, replaced):
    """Model rename within the file's directory; `replaced`: row of the file that loses its name, or 0."""
    directory = as_directory(s, arena, arena[row + state.PARENT])
    emit_template(s, out, templates.RENAME)
    scan(s, arena, out, directory, arena[directory + state.TOP])
    if replaced != 0:
        remove_name(s, arena, out, replaced, arena[replaced + state.PARENT])
        lose_link(s, arena, out, replaced)
    remove_name(s, arena, out, row, directory)
    add_name(s, arena, out, row, directory)
    inodes.changed(s, arena, out, row)


@subroutine
def link(s, arena, out, op, row, parent):
    """Model link, which fails, because a file has one name."""
    emit_template(s, out, templates.OTHER)


@subroutine
def evict(s, arena, out, row):
    """Free a file without names; return False if `out` or the arena must grow."""
    if not free_to_end(s, arena, out, row, 0):
        return False
    inodes.free(s, arena, row)
    for word in (state.BLOCKS, state.SLOTS, state.LEAVES, state.UPPERS):
        table.drop(s, arena, row + word)
    for word in (
        file_row.SIZE,
        file_row.OPENS,
        state.PARENT,
        state.NAMES,
        state.TOP,
        state.GAP,
        state.META,
        state.SHORT,
        file_row.LINKS,
    ):
        arena[row + word] = 0
    arena[row + file_row.STATUS] &= ~(file_row.EXISTS | state.MEMORY)
    return True


@subroutine
def adopt(s, arena, out, row, parent):
    """Create a file that existed before the trace, without events; return False if `out` or the arena must grow."""
    is_dir = arena[row + file_row.STATUS] & file_row.IS_DIR
    length = 0 if is_dir else max(arena[row + file_row.INITIAL_SIZE] - 1, 0)
    stop = (length + (1 << s.shift) - 1) >> s.shift
    emitted, synchronous = s.emitted, s.synchronous
    s.silent, s.synchronous = 1, 0
    done = False
    if has_room(s, arena, index.words_for(arena, row, stop) + words_for_name(s, arena, parent)):
        if arena[row + file_row.LINKS] == 0:  # LINKS is 1 if an earlier kernel call began the work and ran out of room
            arena[row + file_row.LINKS] = 1
            index.reserve(s, arena, row, stop)
            new_inode(s, arena, out, row)
            if row != parent:
                add_name(s, arena, out, row, parent)
            s.emitted = emitted
        done = True
        while done and arena[row + state.UNIT_COUNT] < stop:
            done = units.ready(s, arena, s.longest + 4)
            if done:
                first = arena[row + state.UNIT_COUNT]
                s.resume_at = first
                extend(s, arena, out, row, stop)
                place_old_units(s, arena, out, row, first, arena[row + state.UNIT_COUNT])
                s.emitted = emitted
    s.silent, s.synchronous = 0, synchronous
    if done:
        arena[row + file_row.STATUS] |= file_row.EXISTS
        arena[row + file_row.INITIAL_SIZE], arena[row + file_row.SIZE] = 0, max(length, arena[row + file_row.SIZE])
    return done
