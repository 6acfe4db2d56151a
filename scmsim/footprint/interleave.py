"""Puts the touches of footprints between the events of operations.

The touches of an operation come in chunks, which are spread evenly between its events, the first one ahead of them all: how a copy
and the code around it mix is not kept.
"""

import numpy as np

from scmsim.core.records import CREATE, KERNEL, OPEN, OPS, WORK
from scmsim.footprint.describe import NONE, TOLD
from scmsim.footprint.settle import settle
from scmsim.jit import inlined, kernel, subroutine

MOST = 1 << 14  # events of an operation that tell what it is like; its touches come between them
LINE = 64  # bytes that an event counts for besides those it moves

GROUP = np.dtype(
    (np.record, [("sites", "i8"), ("first", "i8"), ("behind", "i8")])
)  # calls of a kind with these mechanisms
CALL = np.dtype(  # a measured call
    (
        np.record,
        [
            ("amount", "i8"),  # bytes that its events move and that its file loses, and a line an event
            ("number", "i8"),  # in the order of measuring
            ("first", "i8"),  # of the chunks of its touches
            ("behind", "i8"),
            ("opening", "i8"),  # number of the open file that it makes, NONE: none
        ],
    )
)
OPEN_FILE = 128
PAGE = np.dtype(
    (
        np.record,
        [
            ("vaddr", "i8"),
            ("order", "u1"),
            # Not 0: the page of this cache that the inode of the call's file has, or with OPEN_FILE its open file.
            ("cache", "u1"),
        ],
    )
)

WINDOW = np.dtype(  # calls of one group around an amount: those that an operation of this sort may take
    (np.record, [("kind", "i8"), ("sites", "i8"), ("amount", "i8"), ("first", "i8"), ("behind", "i8")])
)

STATE = np.dtype(
    (
        np.record,
        [
            ("groups", "i8", (len(OPS), 2)),  # first and behind the last group of each kind; none: no call
            ("shared", "i8"),  # mechanisms that file and model both know
            ("entering", "i8"),  # mechanisms of the kernel: an operation without one does not enter it
            ("alike", "i8"),  # calls of about the same amount of which one is taken
            ("calls", "i8"),  # measured calls
            ("last", "i8"),  # number of the one that was taken last
            ("inode", "i8"),  # of the operation in work
            ("opening", "i8"),  # measured open file that stands for its own
            ("op", "i8"),  # row of the operation in work, -1: none
            ("next", "i8"),  # of its chunks of touches
            ("behind", "i8"),
            ("windows", WINDOW, (64,)),  # found lately
        ],
    )
)


def begin_batch(state: np.recarray) -> None:
    """Events of another batch of operations follow."""
    state.op[0] = -1


@kernel
def interleave(state, book, opened, places, slices, operations, events):
    """Write which chunks of touches come ahead of which events of a buffer to `slices` (records.SLICE); returns how many slices.

    `book` holds groups and calls; `opened` which measured open file stands for that of each file, `operations` what is
    known of each of the batch.  An operation that goes on from the buffer before has had its touches.  `places` are those of the
    model's own kernel objects, see `settle`.
    """
    s, i, count = state[0], 0, 0
    while i < len(events):
        op, first, sites, amount = events[i].op, i, 0, 0
        while i < min(len(events), first + MOST):
            event = events[i]
            if event.op != op:
                break
            if event.space == KERNEL:
                settle(places, event)
            sites |= 1 << int(event.site)  # in plain Python a byte would overflow
            if event.code != WORK:
                amount += LINE + max(event.length, 0)
            i += 1
        if op != s.op:
            s.op = op
            _begin(s, book, opened, operations[op], sites, amount)
            count = _spread(s, slices, count, first, i)
    return count


@inlined
def _begin(s, book, opened, operation, sites, amount):
    """Find the footprint of an operation; none for one that a library serves, or a load or store without a fault."""
    s.next = s.behind
    sites, amount = sites | operation.sites, amount + operation.freed
    if sites & s.entering == 0 or s.groups[operation.kind, 1] == 0:
        return
    window = _window(s, book, operation.kind, sites & (s.shared | TOLD), amount)
    call = book.calls[_next_alike(s, book, window.first, window.behind)]
    s.last, s.next, s.behind, s.inode, s.opening = call.number, call.first, call.behind, max(operation.inode, 0), 0
    if operation.file >= 0:
        if (operation.kind == OPEN or operation.kind == CREATE) and call.opening != NONE:
            opened[operation.file] = call.opening
        s.opening = opened[operation.file]


@inlined
def _spread(s, slices, count, first, behind):
    """Put the chunks of an operation ahead of its events [first, behind), evenly; returns how many slices there are then."""
    chunks, i = s.behind - s.next, first
    while s.next < s.behind:
        upto = s.behind - chunks * (behind - 1 - i) // (behind - first)
        if upto > s.next:
            piece = slices[count]
            piece.event, piece.first, piece.behind = i, s.next, upto
            piece.objects[0], piece.objects[1] = s.inode, s.opening
            s.next = upto
            count += 1
        i += 1
    return count


@inlined
def _window(s, book, kind, sites, amount):
    """The calls that are like an operation; the answer is kept, because many operations are of few sorts."""
    mixed = sites ^ sites >> 29 ^ amount ^ amount >> 12 ^ kind << 3
    window = s.windows[(mixed ^ mixed >> 6) & s.windows.size - 1]
    if window.behind == 0 or window.kind != kind or window.sites != sites or window.amount != amount:
        window.kind, window.sites, window.amount = kind, sites, amount
        _find(s, book.groups, book.calls, window)
    return window


@subroutine
def _find(s, groups, calls, window):
    """Find the calls that are like a sort of operations."""
    group = groups[_nearest(s, groups, window.kind, window.sites)]
    among = min(s.alike, group.behind - group.first)
    first = _first_of(calls, group.first, group.behind, window.amount) - among // 2
    window.first = max(group.first, min(first, group.behind - among))
    window.behind = window.first + among


@subroutine
def _nearest(s, groups, kind, sites):
    """The group of a kind whose mechanisms differ least."""
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
def _first_of(calls, first, behind, amount):
    """The first of the calls in [first, behind), which are in the order of their amounts, that has this one or more."""
    while first < behind:
        middle = (first + behind) // 2
        if calls[middle].amount < amount:
            first = middle + 1
        else:
            behind = middle
    return first


@inlined
def _next_alike(s, book, first, behind):
    """Of the calls in [first, behind), that measured next after the one taken last.

    So what came together stays together: which objects of the slabs are in use, and how often the timer ticks.
    """
    least, calls, last = s.calls, s.calls, s.last
    for number in book.numbers[first:behind]:
        ahead = number - last - 1
        least = min(least, ahead + (calls if ahead < 0 else 0))
    number = last + 1 + least
    return book.places[number - calls if number >= calls else number]


@kernel
def lengths_of_ends(events, op):
    """How many events in front are of an operation, and how many at the end are of the last one."""
    front, end = 0, 0
    while front < len(events) and events[front].op == op:
        front += 1
    while end < len(events) and events[len(events) - 1 - end].op == events[len(events) - 1].op:
        end += 1
    return front, end
