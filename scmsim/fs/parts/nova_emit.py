"""NOVA's operations one by one: room check, then dispatch.  Shared by nova-cow, nova-inplace and nova-fast16."""

from scmsim import records as r
from scmsim._jit import kernel, part
from scmsim.fs.parts import nova_names as names
from scmsim.fs.parts import nova_recipes as q
from scmsim.fs.parts import nova_state as n
from scmsim.fs.parts import table
from scmsim.fs.parts.emit import play
from scmsim.fs.parts.nova_data import read_file, write_file


@part
def log_growth(s, arena, row, entries):
    """Log pages that appending `entries` entries may take (0 while the tail page has room for them)."""
    count = arena[row + n.LOG_COUNT]
    if count == 0 and entries <= 40:
        return 1
    if count > 0:
        page = arena[arena[row + n.LOG] + arena[row + n.TAIL_PAGE]]
        if entries < s.slots - (arena[page + n.PAGE_COUNTS] & n.ENTRIES_MASK):
            if arena[row + n.TAIL_BYTES] + 64 * entries <= n.LOG_BYTES:
                return 0
        if (count - arena[row + n.TAIL_PAGE] - 2) * 40 > entries:
            return 0
    return 4 * (entries // 40) + min(2 * arena[row + n.LOG_SIZE], 512) + 4  # extensions double a short log


@part
def missing_pages(s, arena, op, row):
    """Blocks that a write or fallocate needs; in place only its holes."""
    first, last = op.offset >> 12, (op.offset + op.length - 1) >> 12
    if not s.inplace:
        return last - first + 1
    missing = 0
    for page in range(first, last + 1):
        missing += table.get(arena, row + n.PAGES, page) == 0
    return missing


@part
def room(s, arena, op, out, row, parent):
    """Whether the operation surely fits: 1 yes, 0 no (needs noted in the state), -1 the device is full."""
    code, pages, grown, adopted, entries = op.op, 2, 0, 0, 2
    if code == r.WRITE or code == r.READ or code == r.FALLOCATE:
        length = op.length
        if code == r.READ:
            length = max(min(length, max(arena[row + n.SIZE], arena[row + n.FIRST]) - op.offset), 0)
        pages = (((op.offset & 4095) + length + 4095) >> 12) + 1
        if code != r.READ and pages - 2 > s.blocks:
            return -1  # longer than the device
    elif code == r.TRUNCATE or code == r.UNLINK or code == r.RENAME:
        pages = 2 + arena[row + n.TOP_PAGE]
    if code == r.WRITE or code == r.FALLOCATE:
        grown = table.words_to_hold(arena, row + n.PAGES, (op.offset + op.length + 4095) >> 12)
        entries = pages
    if not arena[row + n.STATUS] & n.EXISTS and arena[row + n.FIRST] > 0:
        adopted = (arena[row + n.FIRST] + 4094) >> 12
        grown += table.words_to_hold(arena, row + n.PAGES, adopted + pages) * 2
    log_pages, logs = 0, arena[row + n.LOG_COUNT]
    if adopted > 0 or code == r.CREATE or code == r.WRITE or r.TRUNCATE <= code <= r.RMDIR:  # appends to its log
        log_pages = log_growth(s, arena, row, entries + adopted)
    if code == r.CREATE or r.RENAME <= code <= r.MKDIR:  # a dentry goes to the parent's log
        log_pages += log_growth(s, arena, parent, q.ONE + q.ONE)
        logs += arena[parent + n.LOG_COUNT]
    events = 160 + 48 * pages
    if log_pages > 0:
        events += 8 * (log_pages + logs)
        grown += (log_pages << s.page_order) + 8 * (logs + log_pages)
    if s.emitted + events > out.size:
        s.need_events = events
        return 0
    if s.arena_top + grown > arena.size:
        s.need_words = grown
        return 0
    if s.free_blocks < log_pages + pages + adopted:
        need = log_pages + adopted
        if code == r.WRITE or code == r.FALLOCATE:
            need += missing_pages(s, arena, op, row)
        if need > s.free_blocks:
            return -1
    return 1


@part
def plain_call(s, out, code):
    """Operations whose cost does not depend on the file; fsync and close fence once."""
    if code == r.FSYNC or code == r.MSYNC:
        play(s, out, q.FSYNC)
    elif code == r.CLOSE:
        play(s, out, q.CLOSE)
    elif code == r.OPEN or code == r.CREATE or code == r.MKDIR:
        play(s, out, q.OPEN)
    elif code == r.STAT:
        play(s, out, q.STAT)
    elif code == r.READDIR:
        play(s, out, q.READDIR)
    elif code == r.MMAP or code == r.MUNMAP:
        play(s, out, q.MAP)
    else:
        play(s, out, q.OTHER)


@part
def step(s, arena, out, op, row, parent):
    """One operation that `room` has made sure of."""
    code = op.op
    exists = arena[row + n.STATUS] & n.EXISTS
    if not exists and (arena[row + n.FIRST] > 0 or (code != r.CREATE and code != r.MKDIR)):
        names.adopt(s, arena, out, row)
        exists = n.EXISTS
    if code == r.WRITE and op.length > 0:
        table.reserve(s, arena, row + n.PAGES, (op.offset + op.length + 4095) >> 12)
        write_file(s, arena, out, op, row)
        if op.flag & r.SYNCHRONOUS:
            play(s, out, q.FSYNC)
    elif code == r.READ:
        read_file(s, arena, out, op, row)
    elif code == r.TRUNCATE:
        names.truncate(s, arena, out, row, op.offset)
    elif code == r.FALLOCATE and not op.flag & r.PUNCH_HOLE:
        play(s, out, q.WRITE)
        names.fill_holes(s, arena, out, row, (op.offset >> 12, (op.offset + op.length + 4095) >> 12), q.ONE)
        if not op.flag & r.KEEP_SIZE:
            arena[row + n.SIZE] = max(arena[row + n.SIZE], op.offset + op.length)
    elif r.UNLINK <= code <= r.RMDIR and code != r.MKDIR or (not exists and (code == r.CREATE or code == r.MKDIR)):
        names.change_names(s, arena, out, op, row, parent)
    else:
        plain_call(s, out, code)


@kernel
def emit(state, arena, ops, i, out):
    """Turn operations from `ops[i]` on into events while they fit; returns the index of the first one not done."""
    s = state[0]
    s.emitted, s.need_events, s.need_words = 0, 0, 0
    while i < ops.size and s.need_collect == 0:
        op = ops[i]
        s.op = i
        fits = 1
        if op.op <= r.CLOSE and op.file >= 0:
            row = s.files + op.file * n.FILE_WORDS
            parent = s.files + (s.file_count - 1) * n.FILE_WORDS
            if op.op != r.RENAME and 0 <= op.file2 < s.file_count - 1:
                parent = s.files + op.file2 * n.FILE_WORDS
            fits = room(s, arena, op, out, row, parent)
            if fits > 0:
                step(s, arena, out, op, row, parent)
        if fits == 0:
            break
        if fits < 0:
            s.failed += 1
            if s.first_failed < 0:
                s.first_failed = s.seen
        s.seen += 1
        i += 1
    return i
