"""Put the touches of footprints between the events of operations.

The touches of an operation are cut into chunks, which are spread evenly between its events, the first before all events.
Simplified: footprints do not record how a copy and the code around it interleave.
"""

import numpy as np

from scmsim.core.records import CREATE, KERNEL, OPEN, OPS, WORK
from scmsim.footprint.describe import NONE, OP_FEATURES
from scmsim.footprint.settle import frame_of_block, is_block, place_beside
from scmsim.jit import inlined, kernel, subroutine

MOST = 1 << 14  # first events of an operation: they select the measured call, whose touches come between them
LINE = 64  # bytes that each event adds to the amount, besides the bytes it moves

GROUP = np.dtype(
    (np.record, [("sites", "i8"), ("first", "i8"), ("end", "i8")])
)  # calls of one kind with one set of mechanisms
CALL = np.dtype(  # a measured call
    (
        np.record,
        [
            ("amount", "i8"),  # bytes that its events move, plus bytes that its file loses, plus LINE per event
            ("number", "i8"),  # in the order of measuring
            ("first", "i8"),  # chunk of its touches
            ("end", "i8"),  # end of its chunks
            ("opening", "i8"),  # number of the open file that it makes, or NONE
        ],
    )
)
NEW_PAGE = 127  # in LINES: a page that each call takes from the free memory and fills, such as a block of the journal
LAST_NEW_PAGE = 15  # largest number of a new page in its call
DIRECTORY = 126  # in LINES: the directory block that the call searches, at the address that the model gives it
OPEN_FILE = 128
PAGE = np.dtype(
    (
        np.record,
        [
            ("vaddr", "i8"),
            ("order", "u1"),
            # Not 0: number of a slab cache.  The entry is for the page there of the file's inode, or with OPEN_FILE open file.
            ("cache", "u1"),
        ],
    )
)

WINDOW = np.dtype(  # calls of one group around an amount: candidates for an operation of this kind, sites and amount
    (np.record, [("kind", "i8"), ("sites", "i8"), ("amount", "i8"), ("first", "i8"), ("end", "i8")])
)

STATE = np.dtype(
    (
        np.record,
        [
            ("groups", "i8", (len(OPS), 2)),  # first group of each kind and end of its groups; (0, 0): no calls
            ("shared", "i8"),  # mechanisms that both the footprint file and the model know
            ("entering", "i8"),  # mechanisms in the kernel: an operation without any of them does not enter the kernel
            ("alike", "i8"),  # number of calls of about the same amount; one of these calls is chosen
            ("nearest", "i8"),  # 1: these calls have the nearest amounts; 0: half of them have smaller amounts
            ("calls", "i8"),  # measured calls
            ("last", "i8"),  # number of the call chosen last
            ("inode", "i8"),  # inode of the current operation
            ("opening", "i8"),  # measured open file that represents the open file of the current operation
            ("op", "i8"),  # row of the current operation, -1: none
            ("next", "i8"),  # next chunk of touches of the current operation
            ("end", "i8"),  # end of its chunks
            ("windows", WINDOW, (64,)),  # a cache of windows
        ],
    )
)


def begin_batch(state: np.recarray) -> None:
    """Begin a new batch of operations."""
    state.op[0] = -1


@kernel
def interleave(state, book, opened, places, slices, operations, events):
    """Assign the chunks of touches to the events of a buffer in `slices` (records.SLICE); return the number of slices.

    `book` has groups and calls; `opened[file]` is the measured open file whose touches the replayed file gets (OPEN and
    CREATE set it); `operations` has one OPERATION for each row.  An operation continued from the previous buffer has
    already had its touches.  `places` are for the model's own kernel objects, see `place_beside`.
    """
    s, i, count = state[0], 0, 0
    while i < len(events):
        op, first, sites, amount, block = events[i].op, i, 0, 0, 0
        while i < min(len(events), first + MOST):
            event = events[i]
            if event.op != op:
                break
            if event.space == KERNEL:
                if block == 0 and is_block(event):
                    block = frame_of_block(event)
                place_beside(places, event)
            sites |= 1 << int(event.site)  # int(): in plain Python, shifting by a uint8 would overflow
            if event.code != WORK:
                amount += LINE + max(event.length, 0)
            i += 1
        if op != s.op:
            s.op = op
            _begin(s, book, opened, operations[op], sites, amount)
            count = _spread(s, slices, count, first, i, block)
    return count


@inlined
def _begin(s, book, opened, operation, sites, amount):
    """Choose the footprint of an operation; none if the operation does not enter the kernel or no call resembles it."""
    s.next = s.end
    sites, amount = sites | operation.sites, amount + operation.freed
    if sites & s.entering == 0 or s.groups[operation.kind, 1] == 0:
        return
    window = _window(s, book, operation.kind, sites & (s.shared | OP_FEATURES), amount)
    call = book.calls[_next_alike(s, book, window.first, window.end)]
    s.last, s.next, s.end, s.inode, s.opening = call.number, call.first, call.end, max(operation.inode, 0), 0
    if operation.file >= 0:
        if (operation.kind == OPEN or operation.kind == CREATE) and call.opening != NONE:
            opened[operation.file] = call.opening
        s.opening = opened[operation.file]


@inlined
def _spread(s, slices, count, first, end, block):
    """Spread an operation's chunks evenly before its events `[first, end)`; return the new number of slices.

    `block` is the address of the first metadata block that the operation reads, 0 if it reads none.
    """
    chunks, i = s.end - s.next, first
    while s.next < s.end:
        stop = s.end - chunks * (end - 1 - i) // (end - first)
        if stop > s.next:
            piece = slices[count]
            piece.event, piece.first, piece.end = i, s.next, stop
            piece.objects[0], piece.objects[1], piece.block = s.inode, s.opening, block
            s.next = stop
            count += 1
        i += 1
    return count


@inlined
def _window(s, book, kind, sites, amount):
    """Return the window of similar calls, from a cache: operations share few combinations of these arguments."""
    mixed = sites ^ sites >> 29 ^ amount ^ amount >> 12 ^ kind << 3
    window = s.windows[(mixed ^ mixed >> 6) & s.windows.size - 1]
    if window.end == 0 or window.kind != kind or window.sites != sites or window.amount != amount:
        window.kind, window.sites, window.amount = kind, sites, amount
        _find(s, book.groups, book.calls, window)
    return window


@subroutine
def _find(s, groups, calls, window):
    """Find the measured calls that resemble operations of a window's kind, sites and amount."""
    group = groups[_nearest(s, groups, window.kind, window.sites)]
    among = min(s.alike, group.end - group.first)
    if s.nearest:
        first = _first_nearest(calls, group.first, group.end, window.amount, among)
    else:
        first = _first_of(calls, group.first, group.end, window.amount) - among // 2
    window.first = max(group.first, min(first, group.end - among))
    window.end = window.first + among


@subroutine
def _nearest(s, groups, kind, sites):
    """Return the group of a kind whose set of mechanisms differs least."""
    best, least = 0, 65
    for i in range(s.groups[kind, 0], s.groups[kind, 1]):
        differ, bits = 0, groups[i].sites ^ sites
        while bits:
            bits &= bits - 1
            differ += 1
        if differ < least:
            best, least = i, differ
    return best


@subroutine
def _first_of(calls, first, end, amount):
    """Return the first call in `[first, end)`, sorted by amount, with at least this amount (binary search)."""
    while first < end:
        middle = (first + end) // 2
        if calls[middle].amount < amount:
            first = middle + 1
        else:
            end = middle
    return first


@subroutine
def _first_nearest(calls, first, end, amount, count):
    """Return the first of the `count` calls in `[first, end)`, sorted by amount, whose amounts are nearest (binary search).

    A window around the amount would mix two kinds of work: an fsync that writes to the log, and one that has nothing to write.
    """
    end -= count
    while first < end:
        middle = (first + end) // 2
        if calls[middle].amount + calls[middle + count].amount < 2 * amount:  # the later of the two is nearer
            first = middle + 1
        else:
            end = middle
    return first


@inlined
def _next_alike(s, book, first, end):
    """Return the call in `[first, end)` that was measured next after the call chosen last.

    So calls measured one after another stay together, with the slab objects then in use and the rate of timer ticks.
    """
    least, calls, last = s.calls, s.calls, s.last
    for number in book.numbers[first:end]:
        ahead = number - last - 1
        least = min(least, ahead + (calls if ahead < 0 else 0))
    number = last + 1 + least
    return book.places[number - calls if number >= calls else number]


@kernel
def lengths_of_ends(events, op):
    """Return (number of events of operation `op` at the front, number of events of the last operation at the end)."""
    front, end = 0, 0
    while front < len(events) and events[front].op == op:
        front += 1
    while end < len(events) and events[len(events) - 1 - end].op == events[len(events) - 1].op:
        end += 1
    return front, end
