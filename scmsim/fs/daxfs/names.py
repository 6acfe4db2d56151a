"""Names: inode entries, directory entries with tombstones, and the list of each directory.

A name is identified by the first file that has its path.  The trace does not have the new name of a rename that
replaces no file, so the entry of that name is never found again.
Source: daxfs/dir.c (daxfs_create, daxfs_unlink, daxfs_rename, daxfs_iterate), daxfs/overlay.c (daxfs_overlay_create_dirent,
daxfs_overlay_delete_dirent, overlay_dirlist_prepend).  Simplified: names of one hash do not share a bucket.
"""

from scmsim.core import records as r
from scmsim.fs.daxfs import data, overlay, state, templates
from scmsim.fs.engine import file_row
from scmsim.fs.engine.events import emit_template
from scmsim.fs.linux import templates as q
from scmsim.jit import subroutine

# Maximum number of bytes that a new name allocates: an inode entry, a directory entry and the head of a directory's list.
ROOM = templates.INODE_BYTES + templates.DIRENT_BYTES + templates.LIST_BYTES
KEYS = 3


@subroutine
def parent_row(s, arena, row):
    """Give a directory whose entries a call changes an inode number if it has none; return its row."""
    if arena[row + state.INO] == 0:
        arena[row + state.INO] = s.next_ino
        s.next_ino += 1
    return row


@subroutine
def home_of(s, arena, row):
    """Return the home bucket of the name that a file has now."""
    return overlay.home_of_name(s, arena[row + state.NAMED])


@subroutine
def read_entry(s, arena, out, row, at):
    """Emit the comparison of an entry with a name; emits at most 2 events."""
    s.reg[templates.AT], s.reg[q.BYTES] = at, templates.DIRENT_HEAD + arena[row + file_row.NAME]
    emit_template(s, out, templates.READ_ENTRY)


@subroutine
def prepend(s, arena, out, directory, at):
    """Emit overlay_dirlist_prepend: add an entry to a directory's list, created with the first entry; at most 24 events."""
    home = overlay.home_of(s, arena[directory + state.INO], overlay.LIST_KEY)
    if arena[directory + state.LIST] == 0:
        overlay.miss(s, arena, out, home)
        place = overlay.take_entry(s, out, templates.LIST_BYTES)
        s.reg[templates.AT] = place
        emit_template(s, out, templates.FILL_LIST)
        arena[directory + state.LIST] = place + 1
        arena[directory + state.LIST_DISTANCE] = overlay.insert(s, arena, out, home)
    else:
        overlay.probe(s, out, home, arena[directory + state.LIST_DISTANCE])
    s.reg[templates.AT], s.reg[q.TO] = at, arena[directory + state.LIST] - 1
    emit_template(s, out, templates.LINK_LIST)
    arena[directory + state.LISTED] += 1


@subroutine
def name(s, arena, out, row, parent, number):
    """Emit daxfs_overlay_create_dirent for the name `number` (first row with its path, or -1); at most 44 events.

    Returns the place of the entry.
    """
    first = s.files + number * state.FILE_WORDS
    known = number >= 0 and arena[first + state.OF_NAME] > 0
    if number < 0:
        s.unknown_names += 1
    # names that the trace does not have get their own numbers
    home = overlay.home_of_name(s, number if number >= 0 else s.file_count + s.unknown_names)
    if known:
        at = arena[first + state.OF_NAME] - 1
        overlay.probe(s, out, home, arena[first + state.NAME_DISTANCE])
        read_entry(s, arena, out, row, at)
        s.reg[templates.AT] = at
        emit_template(s, out, templates.REVIVE)
        return at
    overlay.miss(s, arena, out, home)
    at = overlay.take_entry(s, out, templates.DIRENT_BYTES)
    s.reg[templates.AT], s.reg[q.BYTES] = at, arena[row + file_row.NAME]
    emit_template(s, out, templates.FILL_DIRENT)
    distance = overlay.insert(s, arena, out, home)
    if number >= 0:
        arena[first + state.OF_NAME], arena[first + state.NAME_DISTANCE] = at + 1, distance
    prepend(s, arena, out, parent_row(s, arena, parent), at)
    return at


@subroutine
def bury(s, arena, out, row):
    """Emit daxfs_overlay_delete_dirent, which marks the entry that names a file as deleted (tombstone); at most 8 events."""
    if arena[row + state.DIRENT] == 0:
        return
    at, number = arena[row + state.DIRENT] - 1, arena[row + state.NAMED]
    if number >= 0:
        overlay.probe(s, out, home_of(s, arena, row), arena[s.files + number * state.FILE_WORDS + state.NAME_DISTANCE])
    read_entry(s, arena, out, row, at)
    s.reg[templates.AT] = at
    emit_template(s, out, templates.TOMBSTONE)
    arena[row + state.DIRENT] = 0


@subroutine
def new_inode(s, arena, out, row):
    """Emit daxfs_overlay_alloc_ino and daxfs_overlay_set_inode; emits at most 16 events."""
    emit_template(s, out, templates.NUMBER)
    if arena[row + state.INO] == 0 or arena[row + state.ENTRY]:
        arena[row + state.INO] = s.next_ino
        s.next_ino += 1
    at = overlay.take_entry(s, out, templates.INODE_BYTES)
    s.reg[templates.AT] = at
    emit_template(s, out, templates.FILL_INODE)
    home = overlay.home_of(s, arena[row + state.INO], overlay.INODE_KEY)
    arena[row + state.ENTRY], arena[row + state.ENTRY_DISTANCE] = at + 1, overlay.insert(s, arena, out, home)


@subroutine
def make(s, arena, out, op, row, parent):
    """Run daxfs_create and daxfs_mkdir, after the kernel's look-up of the name."""
    is_dir = op.op == r.MKDIR
    first = s.files + arena[row + state.NAMED] * state.FILE_WORDS
    home = overlay.home_of_name(s, arena[row + state.NAMED])
    if arena[first + state.OF_NAME]:
        overlay.probe(s, out, home, arena[first + state.NAME_DISTANCE])
        read_entry(s, arena, out, row, arena[first + state.OF_NAME] - 1)
    else:
        overlay.miss(s, arena, out, home)
    new_inode(s, arena, out, row)
    arena[row + state.DIRENT] = name(s, arena, out, row, parent, arena[row + state.NAMED]) + 1
    data.find_entry(s, arena, out, row)  # daxfs_iget
    arena[row + file_row.STATUS] = file_row.EXISTS | file_row.IS_DIR * is_dir
    arena[row + file_row.LINKS], arena[row + file_row.OPENS] = 1, not is_dir
    emit_template(s, out, q.MKDIR if is_dir else q.CREATE)


@subroutine
def adopt(s, arena, row, parent):
    """Give a file from before the trace its entries, without events."""
    if arena[row + state.INO] == 0:
        arena[row + state.INO] = s.next_ino
        s.next_ino += 1
    arena[row + state.ENTRY] = overlay.take_bytes(s, templates.INODE_BYTES) + 1
    home = overlay.home_of(s, arena[row + state.INO], overlay.INODE_KEY)
    arena[row + state.ENTRY_DISTANCE] = overlay.claim(s, arena, home)
    first = s.files + arena[row + state.NAMED] * state.FILE_WORDS
    if arena[first + state.OF_NAME] == 0:
        arena[first + state.OF_NAME] = overlay.take_bytes(s, templates.DIRENT_BYTES) + 1
        arena[first + state.NAME_DISTANCE] = overlay.claim(s, arena, home_of(s, arena, row))
    arena[row + state.DIRENT] = arena[first + state.OF_NAME]
    if arena[parent + state.LIST] == 0:
        parent_row(s, arena, parent)
        arena[parent + state.LIST] = overlay.take_bytes(s, templates.LIST_BYTES) + 1
        home = overlay.home_of(s, arena[parent + state.INO], overlay.LIST_KEY)
        arena[parent + state.LIST_DISTANCE] = overlay.claim(s, arena, home)
    arena[parent + state.LISTED] += 1


@subroutine
def unlink(s, arena, out, op, row, parent):
    """Run daxfs_unlink and daxfs_rmdir."""
    arena[row + file_row.LINKS] -= 1
    emit_template(s, out, q.RMDIR if op.op == r.RMDIR else q.UNLINK)
    bury(s, arena, out, row)


@subroutine
def link(s, arena, out, op, row, parent):
    """Run link with gaps = filled: one more directory entry."""
    emit_template(s, out, q.LINK)
    if s.filled:
        arena[row + file_row.LINKS] += 1
        name(s, arena, out, row, parent, -1)


@subroutine
def rename(s, arena, out, row, parent, replaced):
    """Run daxfs_rename: delete the replaced name, create the new name's entry, then delete the old name (tombstones)."""
    emit_template(s, out, q.RENAME)
    number = -1
    if replaced:
        arena[replaced + file_row.LINKS] -= 1
        number = arena[replaced + state.NAMED]
        bury(s, arena, out, replaced)
    at = name(s, arena, out, row, parent, number)
    bury(s, arena, out, row)
    arena[row + state.DIRENT], arena[row + state.NAMED] = at + 1, number


@subroutine
def read_directory(s, arena, out, row):
    """Run daxfs_iterate: read all entries on the directory's list, including tombstones."""
    count = arena[row + state.LISTED]
    s.reg[q.COUNT] = count
    s.reg[templates.AT] = max(arena[row + state.LIST] - 1, 0)
    left = s.pool_at + s.pool_size - s.reg[templates.AT]
    s.reg[q.BYTES] = min(count * templates.DIRENT_HEAD, left)
    emit_template(s, out, q.LIST)
