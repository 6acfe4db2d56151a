"""Apply a page-size policy: files grow, shrink, close and are deleted, and hold pages of one or more sizes.

A policy (a file of `alloc/policies`) is a record of rules, so one kernel serves all policies.  A file is a stack of runs of equal
pages; its length determines its pages (a hole counts as data).  Growth without enough space is undone completely: the operation
fails.

Unit: frames of 4096 bytes.  Source of the mechanisms: each policy's file.
"""

import numpy as np

from scmsim.alloc import frames
from scmsim.alloc.frames import GIANT, give, take_page, take_run
from scmsim.core.records import CLOSE, CREATE, FALLOCATE, KEEP_SIZE, LINK, PUNCH_HOLE, RENAME, TRUNCATE, UNLINK, WRITE
from scmsim.jit import kernel, subroutine

NO_SUPER = -1  # super_order of a policy with one page size
SIZING = (
    "fixed",
    "exact",
    "doubling",
)  # pages of one order; powers of two that waste no frame; powers of two that double the file
FIXED, EXACT, DOUBLING = range(len(SIZING))

RULES = [
    ("order", "i8"),  # log2 of the frames of a page
    ("super_order", "i8"),  # order of the pages of a file above the threshold, or NO_SUPER
    ("threshold", "i8"),  # largest file on the smaller pages, frames
    ("super_zone", "i8"),  # 1: the large pages have a zone of their own
    ("sizing", "i8"),  # see SIZING
    ("pieces", "i8"),  # 1: single frames may replace a page if no whole page is free; the tail is freed at close
]
COUNTS = [
    ("seen", "i8"),  # operations replayed
    ("failed", "i8"),  # operations that failed for lack of space
    ("first_failed", "i8"),  # index of the first failed operation; -1 if none
    ("refused_although_free", "i8"),  # failed operations although enough frames were free
    ("missing_pages", "i8"),  # requests for a page larger than a frame when no such page was free
    ("missing_although_free", "i8"),  # requests counted in `missing_pages` although the zone had enough free frames
    ("migrated_frames", "i8"),  # frames copied from small to large pages
    ("migrations", "i8"),
    ("spilled", "i8"),  # files with small pages in the zone of large pages, because their own zone was full
]
STATE = np.dtype((np.record, [*frames.FIELDS, *RULES, *COUNTS, ("free_nodes", "i8"), ("free_node", "i8")]))

# A file's row, one column each:
SIZE = 0  # bytes; -1 if the file does not exist
HELD = 1  # frames that are allocated to the file
TOP = 2  # node of the last run of pages; NONE if there is none
SUPER = 3  # 1: the file is on large pages
KEPT = 4  # frames that fallocate keeps beyond the length
NAMES = 5  # number of names
SPILLED = 6  # 1: the file was counted as spilled
FILE_WORDS = 7
# A run of pages, one column each:
START = 0  # first frame
COUNT = 1  # frames
ORDER = 2  # log2 of the frames of a page
BELOW = 3  # run below it, or next free node; NONE: no run
NONE = -1


@kernel
def replay(s, room, rows, i):
    """Replay operations from row `i` on; return the row that needs more nodes than are free, or the number of rows."""
    bits, files, nodes = room
    while i < rows.size:
        f = rows[i].file
        if f >= 0:
            size, kept = _wanted(files[f], rows[i])
            # Every run takes a node; in the worst case, each added frame is a run of its own.
            if s.free_nodes < 8 + min(_frames(size, kept), s.free[0] + s.free[1]):
                return i
            _apply(s, room, rows[i], size, kept)
        s.seen += 1
        i += 1
    return i


@subroutine
def _frames(size, kept):
    """Return the number of frames that a file needs; 0 for a file that does not exist."""
    return max((size + 4095) >> 12, kept) if size >= 0 else 0


@subroutine
def _wanted(row, op):
    """Return (bytes, frames kept by fallocate) of a file after an operation; `row` is the file's row before it."""
    size, kept = row[SIZE], row[KEPT]
    end = op.offset + op.length
    if op.op == WRITE and op.length > 0:
        size = max(size, end)
    elif op.op == TRUNCATE:
        size, kept = op.new_size, 0
    elif op.op == CREATE:
        size, kept = 0, 0
    elif op.op == FALLOCATE and op.flag & PUNCH_HOLE == 0:
        if op.flag & KEEP_SIZE:
            kept = kept if size < 0 else max(kept, (end + 4095) >> 12)
        else:
            size = max(size, end)
    elif op.op == UNLINK and row[NAMES] <= 1:
        size, kept = -1, 0
    return size, kept


@subroutine
def _apply(s, room, op, size, kept):
    """Apply an operation after which its file has the length `size` and `kept` frames from fallocate."""
    files = room[1]
    f, code = op.file, op.op
    if code == LINK:
        files[f, NAMES] += 1
    elif code == UNLINK:
        files[f, NAMES] -= 1
    elif code == RENAME and op.replaced >= 0 and op.replaced != f:
        _resize(s, room, op.replaced, -1, 0)  # the rename deletes the file that it replaces
    elif code == CLOSE and s.pieces and files[f, SIZE] >= 0:
        _shrink(s, room, f, _frames(files[f, SIZE], files[f, KEPT]))
    if code == CREATE or files[f, SIZE] < 0:  # a write creates a file whose creation is not in the trace
        files[f, NAMES] = 1
    if size != files[f, SIZE] or kept != files[f, KEPT]:
        _resize(s, room, f, size, kept)


@subroutine
def _resize(s, room, f, size, kept):
    """Set the length of file `f` and adapt its pages; if space is missing, count a failure and change nothing."""
    files = room[1]
    want, held = _frames(size, kept), files[f, HELD]
    if want > held and not _grow(s, room, f, want):
        s.failed += 1
        if s.first_failed < 0:
            s.first_failed = s.seen
        s.refused_although_free += want - held <= s.free[0] + s.free[1]
        return
    if want < held:
        tail = (1 << s.order) - 1 if s.pieces else 0  # keep the tail of the last page until close
        _shrink(s, room, f, (want + tail) & ~tail)
    files[f, SIZE], files[f, KEPT] = size, kept
    if size < 0:
        files[f, SUPER] = files[f, SPILLED] = 0


@subroutine
def _grow(s, room, f, want):
    """Grow file `f` to `want` frames; return False, with the file unchanged, if space is missing."""
    files = room[1]
    held = files[f, HELD]
    if want - held > s.free[0] + s.free[1]:
        return False
    above = s.super_order != NO_SUPER and want > s.threshold and files[f, SUPER] == 0
    if above and _migrate(s, room, f, want):
        return True
    if _extend(s, room, f, want, True):
        return True
    _shrink(s, room, f, held)
    return False


@subroutine
def _extend(s, room, f, want, mixed):
    """Add pages until file `f` has `want` frames; return False, possibly after adding some, if space is missing.

    Without a free large page, and with `mixed`, a file on large pages gets small pages up to the next large-page boundary.
    """
    files = room[1]
    order = s.super_order if files[f, SUPER] else s.order
    zone = s.super_zone if files[f, SUPER] else 0
    while files[f, HELD] < want:
        held = files[f, HELD]
        largest = order if s.sizing == FIXED else _power(s, held, want - held)
        begins = held & ((1 << largest) - 1) == 0  # False: the page's tail was freed, or is on small pages
        if largest > 0 and begins and _add_page(s, room, f, zone, largest):
            continue
        if largest > 0 and begins and not (mixed and files[f, SUPER]):
            return False
        span = order if s.sizing == FIXED else 0
        upto = want if s.sizing == FIXED and order == 0 else min(want, (held | ((1 << span) - 1)) + 1)
        if not _add_frames(s, room, f, 0, upto - held):
            return False
    return True


@subroutine
def _power(s, held, missing):
    """Return the order (log2 of frames) of the next page of a file that holds `held` frames and lacks `missing`.

    The page is aligned to its size in the file.  It has at most `missing` frames, or more with DOUBLING, to double the file.
    """
    order = 0
    while order < GIANT and held & ((2 << order) - 1) == 0 and (2 << order) <= missing:
        order += 1
    if s.sizing == DOUBLING:
        while order < GIANT and held & ((2 << order) - 1) == 0 and (1 << order) < max(missing, held):
            order += 1
    return order


@subroutine
def _add_page(s, room, f, zone, order):
    """Add a page of 2**`order` frames; if none is free, a smaller page or single frames, as the policy allows."""
    bits = room[0]
    start = take_page(s, bits, zone, order)
    if start < 0:
        s.missing_pages += 1
        s.missing_although_free += s.free[zone] >= 1 << order
        if s.pieces:
            return _add_frames(s, room, f, zone, 1 << order)
        if s.sizing == FIXED:
            return False
        while start < 0 and order > 0:
            order -= 1
            start = take_page(s, bits, zone, order)
        if start < 0:
            return False
    _push(s, room, f, start, 1 << order, order)
    return True


@subroutine
def _add_frames(s, room, f, zone, count):
    """Add `count` single frames from a zone, or from the zone of large pages if that zone is full; return whether it worked."""
    files = room[1]
    while count > 0:
        start = take_run(s, room[0], zone, count)
        if start < 0 and s.super_zone > zone:
            zone = s.super_zone
            start = take_run(s, room[0], zone, count)  # succeeds: `_grow` checked the free frames of both zones
            s.spilled += files[f, SPILLED] == 0
            files[f, SPILLED] = 1
        if start < 0:
            return False
        _push(s, room, f, start, s.got, 0)
        count -= s.got
    return True


@subroutine
def _push(s, room, f, start, count, order):
    """Add a run of pages at the end of a file; extend the last run if the new one continues it."""
    bits, files, nodes = room
    top = files[f, TOP]
    files[f, HELD] += count
    joins = top >= 0 and nodes[top, ORDER] == order and nodes[top, START] + nodes[top, COUNT] == start
    if joins and start != s.first[1] << 6:  # a run must not cross into the second zone
        nodes[top, COUNT] += count
        return
    node = s.free_node
    s.free_node = nodes[node, BELOW]
    s.free_nodes -= 1
    nodes[node, START], nodes[node, COUNT], nodes[node, ORDER], nodes[node, BELOW] = start, count, order, top
    files[f, TOP] = node


@subroutine
def _pop(s, room, f):
    """Unlink the last run of a file without freeing its frames; return the run's node."""
    files, nodes = room[1], room[2]
    node = files[f, TOP]
    files[f, TOP] = nodes[node, BELOW]
    files[f, HELD] -= nodes[node, COUNT]
    nodes[node, BELOW] = s.free_node
    s.free_node = node
    s.free_nodes += 1
    return node


@subroutine
def _shrink(s, room, f, keep):
    """Free pages at the end of a file down to `keep` frames.

    A page that is needed only in part is kept whole, or split into frames if the policy allows that (`pieces`).
    """
    bits, files, nodes = room
    while files[f, HELD] > keep:
        node, held = files[f, TOP], files[f, HELD]
        start, count, order = nodes[node, START], nodes[node, COUNT], nodes[node, ORDER]
        drop = min(count, held - keep)
        whole = drop if s.pieces else drop >> order << order
        if whole == 0:
            return
        give(s, bits, start + count - whole, whole)
        _pop(s, room, f)
        left = count - whole
        uncut = left >> order << order
        if uncut:
            _push(s, room, f, start, uncut, order)
        if left > uncut:
            _push(s, room, f, start + uncut, left - uncut, 0)


@subroutine
def _migrate(s, room, f, want):
    """Move a file to large pages; return False, with nothing changed, if there are too few."""
    bits, files, nodes = room
    old, held = files[f, TOP], files[f, HELD]
    files[f, TOP], files[f, HELD], files[f, SUPER] = NONE, 0, 1
    if not _extend(s, room, f, want, False):
        _shrink(s, room, f, 0)
        files[f, TOP], files[f, HELD], files[f, SUPER] = old, held, 0
        return False
    new, now = files[f, TOP], files[f, HELD]
    files[f, TOP], files[f, HELD] = old, held
    while files[f, TOP] >= 0:
        node = _pop(s, room, f)
        give(s, bits, nodes[node, START], nodes[node, COUNT])
    files[f, TOP], files[f, HELD] = new, now
    s.migrations += held > 0
    s.migrated_frames += held
    return True


@kernel
def totals(s, files, nodes, pages):
    """Count the pages of each file by order in pages[file, order]; return the number of runs of all files."""
    runs = 0
    for f in range(files.shape[0]):
        node, end = files[f, TOP], files[f, HELD]
        while node >= 0:
            start, count, order = nodes[node, START], nodes[node, COUNT], nodes[node, ORDER]
            node = nodes[node, BELOW]
            while s.sizing != FIXED and node >= 0 and nodes[node, START] + nodes[node, COUNT] == start:
                start, count = nodes[node, START], count + nodes[node, COUNT]
                node = nodes[node, BELOW]
            end -= count
            runs += 1
            if s.sizing == FIXED:
                pages[f, order] += count >> order
            else:
                _cut(start, end, count, pages[f])
    return runs


@subroutine
def _cut(start, offset, count, pages):
    """Add to pages[order] the fewest power-of-two pages, aligned on the device and in the file, that cover a run."""
    while count > 0:
        order = 0
        while order < GIANT and (start | offset) & ((2 << order) - 1) == 0 and (2 << order) <= count:
            order += 1
        pages[order] += 1
        start, offset, count = start + (1 << order), offset + (1 << order), count - (1 << order)
