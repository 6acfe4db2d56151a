"""Run the operations of hugetlbfs and device-dax one by one.

Neither has write(), and device-dax has no read() either (drivers/dax/device.c: dax_fops): these calls fail with EINVAL
and copy nothing.  With writes = ported, the program copies through a mapping of its own instead, and files grow as needed.
Source: Linux 6.1 fs/hugetlbfs/inode.c, drivers/dax/device.c.
"""

from scmsim.core import records as r
from scmsim.fs.engine import calls, file_row, operations, table
from scmsim.fs.engine.events import emit_template, note_refused, reserve_events
from scmsim.fs.engine.operations import DONE, NO_ROOM
from scmsim.fs.hugetlbfs import pages, state, templates
from scmsim.fs.linux import cached_names, memory_operations
from scmsim.fs.linux import templates as q
from scmsim.jit import subroutine
from scmsim.jit.binding import bind

EVENTS = 16  # maximum number of events of a call, without those of its pages


@subroutine
def is_stranger(s, arena, row):
    """Return whether the model is device-dax and the file is not the device, its only file."""
    is_dir = arena[row + file_row.STATUS] & file_row.IS_DIR
    return s.is_device and not s.ported and not is_dir and s.owner != row


@subroutine
def own(s, arena, row):
    """Make a file the device (device-dax) unless another file already is."""
    if s.is_device and not s.ported and s.owner == 0 and not arena[row + file_row.STATUS] & file_row.IS_DIR:
        s.owner, s.used = row, s.blocks
        arena[row + file_row.SIZE], arena[row + file_row.MAPPED] = s.blocks << s.shift, s.blocks


@subroutine
def adopt(s, arena, out, row):
    """Create a file or directory from before the trace, without events; return the outcome."""
    is_dir = arena[row + file_row.STATUS] & file_row.IS_DIR
    length = 0 if is_dir or (s.is_device and not s.ported) else max(arena[row + file_row.INITIAL_SIZE] - 1, 0)
    stop = length + (1 << s.shift) - 1 >> s.shift
    outcome = pages.can_take(s, arena, row, 0, stop) if stop else DONE
    if outcome != DONE or not reserve_events(s, out, EVENTS):
        return outcome if outcome != DONE else NO_ROOM
    emitted = s.emitted
    for page in range(stop):
        pages.take(s, arena, out, row, page)
        s.emitted = emitted
    arena[row + file_row.STATUS] |= file_row.EXISTS
    arena[row + file_row.LINKS], arena[row + file_row.SIZE], arena[row + file_row.INITIAL_SIZE] = 1, length, 0
    own(s, arena, row)
    return DONE


@subroutine
def is_refused(s, arena, op, row):
    """Return whether Linux refuses a call: writes, reads of a device, and lengths that are not multiples of the page."""
    if arena[row + file_row.STATUS] & file_row.IS_DIR:
        return False
    if op.op == r.TRUNCATE:
        return not s.ported and (s.is_device != 0 or op.new_size & (1 << s.shift) - 1 != 0)
    if op.op == r.FALLOCATE:
        return s.is_device != 0 and not s.ported
    return op.length > 0 and not s.ported and (op.op == r.WRITE or (op.op == r.READ and s.is_device != 0))


@subroutine
def refuse(s, op):
    """Count a refused call, which copies nothing and changes no length."""
    s.unwritable += op.op == r.WRITE or op.op == r.READ
    s.fixed_lengths += op.op == r.TRUNCATE or op.op == r.FALLOCATE
    if op.op == r.WRITE and not op.flag & r.SETUP:
        s.failed_bytes += op.length
    note_refused(s)


@subroutine
def admit(s, arena, out, op, row):
    """Prepare a new operation: adopt its file, and check that the pool has enough pages for it; return its outcome."""
    if not reserve_events(s, out, EVENTS + 4):
        return NO_ROOM
    if calls.adopts(arena, op, row):
        outcome = adopt(s, arena, out, row)
        if outcome != DONE:
            return outcome
    if is_stranger(s, arena, row) and s.owner and arena[row + file_row.STATUS] & file_row.EXISTS:
        s.strangers += 1
    if is_refused(s, arena, op, row):
        refuse(s, op)
        return DONE
    if calls.allocates(op):
        return pages.can_take(s, arena, row, op.offset >> s.shift, (op.offset + op.length - 1 >> s.shift) + 1)
    if op.op == r.MMAP and op.length > 0 and not s.is_device and not op.flag & r.CONTINUES:
        first, stop = op.offset >> s.shift, (op.offset + op.length - 1 >> s.shift) + 1
        outcome = pages.promise(s, arena, out, row, first, stop)
        if outcome == DONE and op.flag & r.WRITABLE_SHARED:  # hugetlbfs_file_mmap: a writable mapping extends its file
            arena[row + file_row.SIZE] = max(arena[row + file_row.SIZE], stop << s.shift)
        return outcome
    return DONE


@subroutine
def create(s, arena, out, op, row, parent):
    """Run create and mkdir."""
    cached_names.make(s, arena, out, op, row)
    own(s, arena, row)


@subroutine
def truncate(s, arena, out, row, new_size):
    """Run hugetlb_vmtruncate: free the pages after the new end (growth allocates none); return True (done)."""
    emit_template(s, out, templates.OTHER)
    if new_size < arena[row + file_row.SIZE]:
        pages.free_pages(s, arena, out, row, new_size + (1 << s.shift) - 1 >> s.shift, r.NEVER >> 12)
    arena[row + file_row.SIZE] = new_size
    return True


@subroutine
def fallocate(s, arena, out, op, row):
    """Run fallocate."""
    return pages.fallocate(s, arena, out, op, row, op.flag & r.KEEP_SIZE != 0)


@subroutine
def evict(s, arena, out, row):
    """Free a file without a name, and its reservations."""
    if not reserve_events(s, out, EVENTS):
        return False
    memory_operations.set_file(s, row)
    emit_template(s, out, q.REMOVE)
    if row == s.owner:
        s.owner, s.used = 0, 0
    elif not (s.is_device and not s.ported):
        pages.free_pages(s, arena, out, row, 0, r.NEVER >> 12)
    table.drop(s, arena, row + state.PAGES)
    for word in (file_row.SIZE, file_row.OPENS, file_row.MAPPED):
        arena[row + word] = 0
    arena[row + file_row.STATUS] &= ~file_row.EXISTS
    return True


HOOKS = {
    operations: memory_operations.HOOKS,
    memory_operations: {
        "state": state,
        "EVENTS": EVENTS,
        "admit": admit,
        "is_refused": is_refused,
        "punch": pages.punch,
    },
    calls: {
        "state": state,
        "templates": templates,
        **memory_operations.CALLS,
        "write": pages.write,
        "read": pages.read,
        "fallocate": fallocate,
        "truncate": truncate,
        "create": create,
        "unlink": cached_names.unlink,
        "link": cached_names.link,
        "rename": cached_names.rename,
        "read_directory": cached_names.read_directory,
        "evict": evict,
    },
}
emit = bind("hugetlbfs", operations, HOOKS).emit
