"""Directories and names: entries one after the other, looked at from the first; a new name takes the first gap.

An entry of FAT is 32 bytes, more for a name beyond 8.3 (13 characters each); one of ext2 8 bytes and the name, here in steps of 16.
The paper does not say what a directory of the SCM manager is: here a file of 8-byte entries, the index of a metadata object (which
holds the name) and a hash of the name; with the names themselves loaded from SCM, Postmark would not be faster than on FAT, as the
paper's Table 4 has it.  The units of a directory are taken as following one another in a look-up.
Source: SCM manager paper, section 4.2; Linux 2.6.24 fs/fat/dir.c, fs/vfat/namei.c, fs/ext2/dir.c.
"""

from scmsim.alloc import buddy
from scmsim.core import records as r
from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import play
from scmsim.fs.scm_manager import recipes as q
from scmsim.fs.scm_manager import state as n
from scmsim.fs.scm_manager.cache import mark, mark_inode
from scmsim.fs.scm_manager.data import free_to_end
from scmsim.fs.scm_manager.units import META_ORDER, extend, place, ready, reserve, settle, words_for
from scmsim.jit import part

NAME_UNITS = 24  # units that one more name may take: of the directory, of indirect blocks, objects


@part
def entries(s, arena, row):
    """Entries that a file's name takes in its directory."""
    length = arena[row + file_row.NAME]
    if s.kind == q.FAT:
        return 1 + (length + 12) // 13 * (length > 12)
    if s.kind == q.EXT2:
        return (8 + length + 15) >> 4
    return 1 + 0


@part
def scan(s, arena, out, directory, count):
    """Look at the first `count` entries."""
    if count <= 0 or place(arena, directory, q.ZERO) == 0:
        return
    s.reg[q.COUNT], s.reg[q.NAME_AT] = count, place(arena, directory, q.ZERO)
    s.reg[q.NAME_BYTES] = min(count * s.entry, s.capacity - s.reg[q.NAME_AT])
    play(s, out, q.SCAN)


@part
def gap(s, arena, directory, needs):
    """First entry of the first gap of `needs` entries."""
    top, found, first = arena[directory + n.TOP], 0, -1
    for i in range(arena[directory + n.GAP], top):
        if table.get(arena, directory + n.SLOTS, i) != 0:
            found = 0
            continue
        if first < 0:
            first = i
        found += 1
        if found == needs:
            arena[directory + n.GAP] = first
            return i - needs + 1
    arena[directory + n.GAP] = first if first >= 0 else top
    return top - found


@part
def words_for_name(s, arena, directory):
    """Words of arena that one more name in a directory takes at the most."""
    top = arena[directory + n.TOP] + 24
    words = table.words_to_hold(arena, directory + n.SLOTS, top)
    return words + words_for(arena, directory, (top * s.entry >> s.shift) + 2)


@part
def write_entry(s, arena, out, directory, slot, needs):
    """Store the bytes of an entry."""
    i = slot * s.entry >> s.shift
    s.reg[q.DIR_AT] = place(arena, directory, i) + (slot * s.entry & ((1 << s.shift) - 1))
    s.reg[q.DIR_BYTES] = min(needs * s.entry, ((i + 1) << s.shift) - slot * s.entry)
    play(s, out, q.DIRENT)
    last = (slot + needs) * s.entry - 1 >> s.shift
    mark(s, arena, directory, i, last - i + 1)


@part
def add_name(s, arena, out, row, directory):
    """Put a name of a file into a directory, which gets another unit if it must; the arena and the device have room."""
    needs = entries(s, arena, row)
    slot = gap(s, arena, directory, needs)
    table.reserve(s, arena, directory + n.SLOTS, slot + needs)
    stop = ((slot + needs) * s.entry - 1 >> s.shift) + 1
    reserve(s, arena, directory, stop)
    resume_at = s.resume_at
    s.resume_at = arena[directory + n.END]
    while s.resume_at < stop:
        extend(s, arena, out, directory, stop)
    s.resume_at = resume_at
    arena[directory + file_row.SIZE] = arena[directory + n.END] << s.shift
    for i in range(slot, slot + needs):
        table.put(arena, directory + n.SLOTS, i, (row - s.files) // n.FILE_WORDS + 1)
    arena[directory + n.TOP] = max(arena[directory + n.TOP], slot + needs)
    arena[directory + n.NAMES] += 1
    arena[row + n.PARENT], arena[row + n.SLOT] = directory, slot
    write_entry(s, arena, out, directory, slot, needs)


@part
def as_directory(s, arena, row):
    """Row of a directory: that of a parent that is not named for a plain file, which has no entries."""
    return row if arena[row + file_row.STATUS] & file_row.IS_DIR else s.nobody


@part
def find_slot(s, arena, row, directory):
    """First entry of a file in a directory, -1: none, as after the directory went with the names that it had."""
    number, known = (row - s.files) // n.FILE_WORDS + 1, arena[row + n.SLOT]
    if arena[row + n.PARENT] == directory and 0 <= known < arena[directory + n.TOP]:
        if table.get(arena, directory + n.SLOTS, known) == number:
            return known
    for i in range(arena[directory + n.TOP]):
        if table.get(arena, directory + n.SLOTS, i) == number:
            return i
    return q.ZERO - 1


@part
def remove_name(s, arena, out, row, directory):
    """Take a name of a file out of its directory, if it is there."""
    slot = find_slot(s, arena, row, directory)
    if slot < 0:
        return
    needs = entries(s, arena, row)
    scan(s, arena, out, directory, slot + needs)
    for i in range(slot, slot + needs):
        table.put(arena, directory + n.SLOTS, i, q.ZERO)
    arena[directory + n.GAP] = min(arena[directory + n.GAP], slot)
    arena[directory + n.NAMES] -= 1
    write_entry(s, arena, out, directory, slot, needs)
    arena[row + n.SLOT] = -1


@part
def new_inode(s, arena, out, row):
    """A metadata object of the SCM manager; the others have a place for an inode already."""
    if s.kind == q.MANAGER and arena[row + n.META] == 0:
        arena[row + n.META] = buddy.allocate(s, arena, q.ZERO + META_ORDER)
    s.reg[q.META] = arena[row + n.META]
    play(s, out, q.INODE_NEW)


@part
def create(s, arena, out, op, row, parent):
    """create, mkdir; the SCM manager gives a new file its first data objects."""
    is_dir = op.op == r.MKDIR
    play(s, out, q.CREATE)
    scan(s, arena, out, parent, arena[parent + n.TOP])
    arena[row + file_row.STATUS] = file_row.EXISTS | file_row.IS_DIR * is_dir
    arena[row + file_row.LINKS], arena[row + file_row.OPENS] = 1, not is_dir
    new_inode(s, arena, out, row)
    add_name(s, arena, out, row, parent)
    stop = s.first_objects if not is_dir else q.ZERO + (s.kind != q.MANAGER)
    s.resume_at = 0
    while s.resume_at < stop:
        extend(s, arena, out, row, stop)
    mark_inode(s, arena, out, row)


@part
def lose_link(s, arena, out, row):
    """One name less."""
    arena[row + file_row.LINKS] -= 1
    if s.kind != q.FAT:
        mark_inode(s, arena, out, row)


@part
def unlink(s, arena, out, op, row, parent):
    """unlink, rmdir."""
    play(s, out, q.UNLINK)
    remove_name(s, arena, out, row, arena[row + n.PARENT] if arena[row + n.SLOT] >= 0 else parent)
    lose_link(s, arena, out, row)


@part
def rename(s, arena, out, row, parent, replaced):
    """rename within the file's directory; `replaced`: the row of the file that loses its name, or 0."""
    directory = as_directory(s, arena, arena[row + n.PARENT])
    play(s, out, q.RENAME)
    scan(s, arena, out, directory, arena[directory + n.TOP])
    if replaced != 0:
        remove_name(s, arena, out, replaced, arena[replaced + n.PARENT])
        lose_link(s, arena, out, replaced)
    remove_name(s, arena, out, row, directory)
    add_name(s, arena, out, row, directory)
    mark_inode(s, arena, out, row)


@part
def link(s, arena, out, op, row, parent):
    """link; only ext2 has more than one name for a file, the others refuse."""
    play(s, out, q.RENAME if s.kind == q.EXT2 else q.OTHER)
    if s.kind == q.EXT2:
        scan(s, arena, out, parent, arena[parent + n.TOP])
        add_name(s, arena, out, row, parent)
        arena[row + file_row.LINKS] += 1
        mark_inode(s, arena, out, row)


@part
def evict(s, arena, out, row):
    """Free a file without names; False: no room to go on."""
    if not free_to_end(s, arena, out, row, q.ZERO):
        return False
    if arena[row + n.META] != 0:
        buddy.release(s, arena, arena[row + n.META], q.ZERO + META_ORDER)
    for word in (n.BLOCKS, n.SLOTS, n.LEAVES, n.UPPERS):
        table.drop(s, arena, row + word)
    for word in (file_row.SIZE, file_row.OPENS, n.PARENT, n.NAMES, n.TOP, n.GAP, n.META, n.SHORT, file_row.LINKS):
        arena[row + word] = 0
    arena[row + file_row.STATUS] &= ~(file_row.EXISTS | n.MEMORY)
    return True


@part
def adopt(s, arena, out, row, parent):
    """Bring a file that existed before the trace into being, silently; False: no room to go on."""
    is_dir = arena[row + file_row.STATUS] & file_row.IS_DIR
    length = 0 if is_dir else max(arena[row + file_row.FIRST] - 1, 0)
    units = (length + (1 << s.shift) - 1) >> s.shift
    emitted, synchronous = s.emitted, s.synchronous
    s.quiet, s.synchronous = 1, 0
    done = False
    if has_room(s, arena, words_for(arena, row, units) + words_for_name(s, arena, parent)):
        if not arena[row + file_row.STATUS] & file_row.EXISTS:
            arena[row + file_row.STATUS] |= file_row.EXISTS
            arena[row + file_row.LINKS] = 1
            reserve(s, arena, row, units)
            new_inode(s, arena, out, row)
            if row != parent:
                add_name(s, arena, out, row, parent)
            s.emitted = emitted
        done = True
        while done and arena[row + n.END] < units:
            done = ready(s, arena, s.longest + 4)
            if done:
                first = arena[row + n.END]
                s.resume_at = first
                extend(s, arena, out, row, units)
                settle(s, arena, out, row, first, arena[row + n.END])
                s.emitted = emitted
    s.quiet, s.synchronous = 0, synchronous
    if done:
        arena[row + file_row.FIRST], arena[row + file_row.SIZE] = 0, max(length, arena[row + file_row.SIZE])
    return done
