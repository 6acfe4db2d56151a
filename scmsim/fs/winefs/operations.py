"""Run WineFS's operations: those of PMFS, with aligned extents, a journal per CPU and directories indexed in DRAM.

Source: WineFS fs/winefs/{balloc,journal,dir,namei,inode}.c.
"""

from scmsim.alloc import aligned_holes
from scmsim.fs.engine import calls, file_row, operations, table
from scmsim.fs.engine.events import emit_template
from scmsim.fs.pmfs import copy, dirs, names, tree
from scmsim.fs.pmfs import operations as pmfs_operations
from scmsim.fs.pmfs import state as pmfs_state
from scmsim.fs.pmfs import templates as tpl
from scmsim.fs.winefs import blocks, data, templates
from scmsim.jit import subroutine
from scmsim.jit.binding import bind


@subroutine
def filled_whole(arena, row):
    """Mark a file as aligned after 512 of its blocks were allocated and cleared at once."""
    arena[row + pmfs_state.ALIGNED] = 1


@subroutine
def counted(fresh, calls):
    """Return `calls`: one call serves a run and stores the block count once, and once more if it replaces blocks."""
    return calls


@subroutine
def pointed(s, taken, replaced):
    """Return how many block pointers are stored: a relaxed overwrite keeps the pointers of existing blocks."""
    return taken if s.strict else taken - replaced


@subroutine
def adopted(s, arena, row):
    """Mark a file that existed before the trace as read since its last change."""
    arena[row + file_row.STATUS] |= data.WAS_READ


@subroutine
def scan(s, arena, out, directory, stop, within, match):
    """Emit the look-up of a name in the directory's search tree, which is modelled as balanced."""
    s.reg[tpl.COUNT] = 1 + tree_depth(arena[directory + pmfs_state.DIRENTS])
    emit_template(s, out, templates.SEARCH)


@subroutine
def tree_depth(names):
    """Return how many levels a balanced tree of `names` names has below its root."""
    depth = 0
    while names >> depth > 1:
        depth += 1
    return depth


@subroutine
def find_gap(s, arena, directory, needs):
    """Return the indices of the last block and of its last record; the record is -1 if it has under `needs` spare bytes.

    mkdir sets no last_dentry, so the first name of a directory takes a second block; a mount sets the root's.
    """
    last = arena[directory + pmfs_state.DIRCOUNT] - 1
    made = directory != s.files + (s.file_count - pmfs_state.UNNAMED) * pmfs_state.FILE_WORDS
    if last < made:
        return last, -1
    place = table.get(arena, directory + pmfs_state.DIRBLOCKS, last)
    k = arena[place + pmfs_state.DIR_RECORDS] - 1
    word = arena[place + pmfs_state.DIR_FIRST + k]
    fits = (word & dirs.BYTES) - ((word >> dirs.NEEDS) & dirs.BYTES) >= needs
    return last, k if fits else -1


@subroutine
def read_directory(s, arena, out, row):
    """Model getdents, which sets the access time like a read."""
    data.touch(s, arena, out, row)
    pmfs_operations.read_directory(s, arena, out, row)


@subroutine
def run_on(s, thread):
    """Switch to the journal of the CPU on which `thread` runs."""
    cpu = thread % s.cpus
    if cpu == s.cpu:
        return
    s.tails[s.cpu], s.used[s.cpu] = s.reg[tpl.JOURNAL], s.uncleaned
    s.journal_at = templates.JOURNAL_AT + cpu * s.journal_blocks * tpl.BLOCK
    s.reg[tpl.JOURNAL], s.uncleaned = max(s.tails[cpu], s.journal_at), s.used[cpu]
    s.cpu = cpu


emit = bind(
    "winefs",
    operations,
    {
        tree: {
            "take_run": aligned_holes.allocate,
            "give_run": aligned_holes.release,
            "filled_whole": filled_whole,
            "counted": counted,
            "put_block": blocks.put_block,
            "pointed": pointed,
            "wanted": blocks.wanted,
            "free_slots": blocks.free_slots,
        },
        copy: {"PAGE_BY_PAGE": False},
        names: {
            "INODE_FIELDS": templates.LOGGED_INODE,
            "adopted": adopted,
            "can_free": blocks.can_free,
            "reserved": blocks.reserved,
            "cuts": blocks.cuts,
            "truncated": blocks.truncated,
        },
        dirs: {"KILLS": 1, "scan": scan, "find_gap": find_gap},
        operations: pmfs_operations.HOOKS[operations],
        calls: {
            **pmfs_operations.HOOKS[calls],
            "write": data.write_file,
            "read": data.read_file,
            "read_directory": read_directory,
        },
        pmfs_operations: {"run_on": run_on, "is_ready": blocks.is_ready, "missing": blocks.missing},
    },
).emit
