"""Puts the touches of footprints between the events of operations.

The touches of an operation come in chunks, which are spread evenly between its events, the first one ahead of them all: how a copy
and the code around it mix is not kept.
"""

import numpy as np

from scmsim.core.records import CREATE, KERNEL, OPEN, OPS, WORK
from scmsim.footprint.describe import NONE, TOLD
from scmsim.jit import kernel, subroutine

MOST = 1 << 14  # events of an operation that tell what it is like; its touches come between them
LINE = 64  # bytes that an event counts for besides those it moves
# A model's objects lie in areas that begin at multiples of 1 TiB, and so in one set of a TLB, as no page allocator places them.
# Beside measured addresses each area is moved by one large page more (log2 of bytes).
AREA, LARGE = 40, 21

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
            ("first", "i8"),  # first event of the operation in work
            ("events", "i8"),  # events of it
            ("next", "i8"),  # of its chunks of touches
            ("behind", "i8"),
            ("chunks", "i8"),
        ],
    )
)


def begin_batch(state: np.recarray) -> None:
    """Events of another batch of operations follow."""
    state.op[0] = -1


@kernel
def interleave(state, book, opened, slices, operations, events):
    """Say which chunks of touches come ahead of each event of a buffer: slices[i], a records.SLICE.

    `book` holds groups and calls; `opened` which measured open file stands for that of each file, `operations` what is
    known of each of the batch.  An operation that goes on from the buffer before has had its touches.
    """
    s = state[0]
    s.next = s.behind
    for i in range(len(events)):
        event = events[i]
        if event.op != s.op:
            if s.groups[operations[event.op].kind, 1]:
                _begin(s, book, opened, operations, events, i)
            else:  # no call, such as most loads and stores of a program
                s.op, s.next = event.op, s.behind
        piece = slices[i]
        piece.first = s.next
        if s.next < s.behind:
            s.next = s.behind - s.chunks * (s.first + s.events - 1 - i) // s.events
            piece.objects[0], piece.objects[1] = s.inode, s.opening
        piece.behind = s.next
        if event.space == KERNEL:
            event.vaddr += (event.addr >> AREA) << LARGE


@kernel
def length_of_one(events, op, at, step):
    """How many events from number `at` on, by a step of 1 or -1, are of operation `op`."""
    length = 0
    while 0 <= at < len(events) and events[at].op == op:
        length, at = length + 1, at + step
    return length


@subroutine
def _begin(s, book, opened, operations, events, first):
    """Find the footprint of the operation that event `first` begins; none for one that a library serves."""
    s.op, s.first, s.events = events[first].op, first, 0
    operation = operations[s.op]
    sites, amount = operation.sites, operation.freed
    for i in range(first, min(len(events), first + MOST)):
        event = events[i]
        if event.op != s.op:
            break
        s.events += 1
        sites |= 1 << int(event.site)  # in plain Python a byte would overflow
        if event.code != WORK:
            amount += LINE + max(event.length, 0)
    if sites & s.entering == 0:
        s.next = s.behind
        return
    group = book[0][_nearest(s, book[0], operation.kind, sites & (s.shared | TOLD))]
    call = book[1][_next_alike(s, book[1], group.first, group.behind, amount)]
    s.last, s.next, s.behind, s.inode, s.opening = call.number, call.first, call.behind, max(operation.inode, 0), 0
    s.chunks = call.behind - call.first
    if operation.file >= 0:
        if (operation.kind == OPEN or operation.kind == CREATE) and call.opening != NONE:
            opened[operation.file] = call.opening
        s.opening = opened[operation.file]


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
def _next_alike(s, calls, first, behind, amount):
    """Of the `alike` calls in [first, behind) around an amount, by which they are in order, that measured next after the last one.

    So what came together stays together: which objects of the slabs are in use, and how often the timer ticks.
    """
    low, high = first, behind
    while low < high:
        middle = (low + high) // 2
        if calls[middle].amount < amount:
            low = middle + 1
        else:
            high = middle
    among = min(s.alike, behind - first)
    low = max(first, min(low - among // 2, behind - among))
    best, least = low, s.calls
    for i in range(low, low + among):
        ahead = calls[i].number - s.last - 1
        ahead += s.calls if ahead < 0 else 0
        if ahead < least:
            best, least = i, ahead
    return best
