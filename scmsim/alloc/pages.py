"""Carries out a page-size policy: files grow, shrink, close and go, and hold pages of one or more sizes.

A policy (a file of `alloc/policies`) is a row of rules, so one kernel serves all.  A file is a stack of runs of equal pages;
its pages follow its length (a hole counts as data).  Growth that finds no room is undone as a whole: the operation has failed.

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
)  # pages of one order; powers of two to the frame; powers of two, each as long as the rest
FIXED, EXACT, DOUBLING = range(len(SIZING))

RULES = [
    ("order", "i8"),  # log2 of the frames of a page
    ("super_order", "i8"),  # of the pages of a file above the threshold; NO_SUPER
    ("threshold", "i8"),  # frames up to which a file stays on the smaller pages
    ("super_zone", "i8"),  # 1: the large pages have a zone of their own
    ("sizing", "i8"),  # see SIZING
    ("pieces", "i8"),  # 1: a page may be made of single frames where none is whole, and its tail is freed at close
]
COUNTS = [
    ("seen", "i8"),  # operations taken
    ("failed", "i8"),  # operations that found no room
    ("first_failed", "i8"),  # the first of them, -1: none
    ("refused_although_free", "i8"),  # of them, those that as many free frames as they needed could not serve
    ("missing_pages", "i8"),  # times that a page larger than a frame was wanted and none was free
    ("missing_although_free", "i8"),  # of them, with as many free frames in the zone
    ("migrated_frames", "i8"),  # copied from small to large pages
    ("migrations", "i8"),
    ("spilled", "i8"),  # files with small pages out of the zone of large ones, because their own had run out
]
STATE = np.dtype((np.record, [*frames.FIELDS, *RULES, *COUNTS, ("free_nodes", "i8"), ("free_node", "i8")]))

# Columns of a file's row: length in bytes (-1: does not exist), frames that it holds, its last run, zone, frames that
# fallocate keeps beyond the length, names, whether it was counted as spilled.
SIZE, HELD, TOP, SUPER, KEPT, NAMES, SPILLED = range(7)
FILE_WORDS = 7
# A run of pages: first frame, frames, log2 of the frames of a page, the run below it (or the next free node).
START, COUNT, ORDER, BELOW = range(4)
NONE = -1


@kernel
def replay(s, room, rows, i):
    """Take operations from row `i` on; returns the row at which more nodes are needed, or how many rows there are."""
    bits, files, nodes = room
    while i < rows.size:
        f = rows[i].file
        if f >= 0:
            size, kept = _wanted(files[f], rows[i])
            if s.free_nodes < 8 + min(_frames(size, kept), s.free[0] + s.free[1]):
                return i
            _apply(s, room, rows[i], size, kept)
        s.seen += 1
        i += 1
    return i


@subroutine
def _frames(size, kept):
    return max((size + 4095) >> 12, kept) if size >= 0 else 0


@subroutine
def _wanted(row, op):
    """Length and kept frames of a file after an operation."""
    size, kept = row[SIZE], row[KEPT]
    end = op.offset + op.length
    if op.op == WRITE and op.length > 0:
        size = max(size, end)
    elif op.op == TRUNCATE:
        size, kept = op.offset, 0
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
    files = room[1]
    f, code = op.file, op.op
    if code == LINK:
        files[f, NAMES] += 1
    elif code == UNLINK:
        files[f, NAMES] -= 1
    elif code == RENAME and op.file2 >= 0 and op.file2 != f:
        _resize(s, room, op.file2, -1, 0)
    elif code == CLOSE and s.pieces and files[f, SIZE] >= 0:
        _shrink(s, room, f, _frames(files[f, SIZE], files[f, KEPT]))
    if code == CREATE or files[f, SIZE] < 0:  # a write to a file that the trace did not see made makes it
        files[f, NAMES] = 1
    if size != files[f, SIZE] or kept != files[f, KEPT]:
        _resize(s, room, f, size, kept)


@subroutine
def _resize(s, room, f, size, kept):
    """Give file `f` a length and the pages for it; it stays as it is where there is no room."""
    files = room[1]
    want, held = _frames(size, kept), files[f, HELD]
    if want > held and not _grow(s, room, f, want):
        s.failed += 1
        if s.first_failed < 0:
            s.first_failed = s.seen
        s.refused_although_free += want - held <= s.free[0] + s.free[1]
        return
    if want < held:
        tail = (1 << s.order) - 1 if s.pieces else 0  # freed at close
        _shrink(s, room, f, (want + tail) & ~tail)
    files[f, SIZE], files[f, KEPT] = size, kept
    if size < 0:
        files[f, SUPER] = files[f, SPILLED] = 0


@subroutine
def _grow(s, room, f, want):
    """Let file `f` hold `want` frames; False, and it holds what it did, if there is no room."""
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
    """Add pages of the file's size, or of powers of two; False if there were too few (some may have been added).

    Where a file on large pages finds none, it goes on with small ones up to the next place for a large one, if it may be mixed.
    """
    files = room[1]
    order = s.super_order if files[f, SUPER] else s.order
    zone = s.super_zone if files[f, SUPER] else 0
    while files[f, HELD] < want:
        held = files[f, HELD]
        largest = order if s.sizing == FIXED else _power(s, held, want - held)
        begins = held & ((1 << largest) - 1) == 0  # False: the page's tail was freed, or lies on small pages
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
    """log2 of the next page where pages are powers of two: aligned in the file; as long as what is held, where it doubles."""
    order = 0
    while order < GIANT and held & ((2 << order) - 1) == 0 and (2 << order) <= missing:
        order += 1
    if s.sizing == DOUBLING:
        while order < GIANT and held & ((2 << order) - 1) == 0 and (1 << order) < max(missing, held):
            order += 1
    return order


@subroutine
def _add_page(s, room, f, zone, order):
    """Add a page of 2**`order` frames; where none is free a smaller one, or its frames one by one, if the policy can."""
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
    """Add single frames; where their zone is full, out of the zone of large pages."""
    files = room[1]
    while count > 0:
        start = take_run(s, room[0], zone, count)
        if start < 0 and s.super_zone > zone:
            zone = s.super_zone
            start = take_run(s, room[0], zone, count)  # finds some: `_grow` knows how many are free in both
            s.spilled += files[f, SPILLED] == 0
            files[f, SPILLED] = 1
        if start < 0:
            return False
        _push(s, room, f, start, s.got, 0)
        count -= s.got
    return True


@subroutine
def _push(s, room, f, start, count, order):
    bits, files, nodes = room
    top = files[f, TOP]
    files[f, HELD] += count
    joins = top >= 0 and nodes[top, ORDER] == order and nodes[top, START] + nodes[top, COUNT] == start
    if joins and start != s.first[1] << 6:  # a run lies in one zone
        nodes[top, COUNT] += count
        return
    node = s.free_node
    s.free_node = nodes[node, BELOW]
    s.free_nodes -= 1
    nodes[node, START], nodes[node, COUNT], nodes[node, ORDER], nodes[node, BELOW] = start, count, order, top
    files[f, TOP] = node


@subroutine
def _pop(s, room, f):
    """Take the last run off the file; it is not freed."""
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
    """Free pages at the end of a file down to `keep` frames; a page that would be cut stays, or becomes single frames."""
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
    """Move a file to the large pages; False, and nothing has changed, if there are too few."""
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
    """Add up for each file the pages of each order -> pages[file, order], and return the runs of all files."""
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
    """Count the fewest pages of powers of two, aligned on the device and in the file, that a run makes up."""
    while count > 0:
        order = 0
        while order < GIANT and (start | offset) & ((2 << order) - 1) == 0 and (2 << order) <= count:
            order += 1
        pages[order] += 1
        start, offset, count = start + (1 << order), offset + (1 << order), count - (1 << order)
