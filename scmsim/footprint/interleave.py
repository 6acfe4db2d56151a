"""Puts the touches of footprints between the events of operations.

The touches of an operation are spread evenly between its events: how a copy and the code around it mix is not kept.
"""

import numpy as np

from scmsim.core.records import CREATE, KERNEL, LOAD, OPEN, OPS, STORE, WORK
from scmsim.footprint.describe import NONE, TOLD
from scmsim.jit import kernel, subroutine

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
            ("start", "i8"),  # first of its touches
            ("count", "i8"),
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
            ("groups", "i8", (len(OPS), 2)),  # first and behind the last group of each kind
            ("shared", "i8"),  # mechanisms that file and model both know
            ("alike", "i8"),  # calls of about the same amount of which one is taken
            ("calls", "i8"),  # measured calls
            ("last", "i8"),  # number of the one that was taken last
            ("inode", "i8"),  # of the operation in work
            ("opening", "i8"),  # measured open file that stands for its own
            ("op", "i8"),  # row of the operation in work, -1: none
            ("at", "i8"),  # next event
            ("behind", "i8"),  # number of events
            ("first", "i8"),  # first event of the operation in work
            ("events", "i8"),  # events of it
            ("start", "i8"),  # its touches
            ("count", "i8"),
            ("emitted", "i8"),  # events in `out`
        ],
    )
)


def begin_batch(state: np.recarray) -> None:
    """Events of another batch of operations follow."""
    state.op[0] = -1


def begin_events(state: np.recarray, count: int) -> None:
    """Another buffer with `count` events follows; an operation that goes on in it has had its touches."""
    state.at[0], state.behind[0], state.first[0], state.events[0], state.count[0] = 0, count, 0, 1, 0


@kernel
def interleave(state, book, opened, out, operations, events):
    """Copy events to `out`, each after its share of the touches; False: `out` is full, call again.

    `book` holds groups, calls, touches (number of the page << 1 | whether it is a store), pages, and which page of each cache
    inodes and open files have; `opened` which measured open file stands for that of each file, `operations` what is known of
    each of the batch.
    """
    s, touches = state[0], book[2]
    s.emitted = 0
    while s.at < s.behind:
        event = events[s.at]
        if event.op != s.op:
            _begin(s, book, opened, operations, events)
        done = s.at - s.first
        low, high = s.count * done // s.events, s.count * (done + 1) // s.events
        if s.emitted + high - low + 1 > len(out):
            return False
        for t in range(s.start + low, s.start + high):
            _touch(out[s.emitted], event, _page(s, book[3], book[4], touches[t] >> 1), touches[t] & 1)
            s.emitted += 1
        out[s.emitted] = event
        if event.space == KERNEL:
            out[s.emitted].vaddr += (event.addr >> AREA) << LARGE
        s.emitted += 1
        s.at += 1
    return True


@subroutine
def _begin(s, book, opened, operations, events):
    """Find the footprint of the operation that event `s.at` begins."""
    s.op, s.first, s.events = events[s.at].op, s.at, 0
    operation = operations[s.op]
    sites, amount = operation.sites, operation.freed
    for i in range(s.at, s.behind):
        event = events[i]
        if event.op != s.op:
            break
        s.events += 1
        sites |= 1 << int(event.site)  # in plain Python a byte would overflow
        if event.code != WORK:
            amount += LINE + max(event.length, 0)
    group = book[0][_nearest(s, book[0], operation.kind, sites & (s.shared | TOLD))]
    call = book[1][_next_alike(s, book[1], group.first, group.behind, amount)]
    s.last, s.start, s.count, s.inode, s.opening = call.number, call.start, call.count, operation.inode, 0
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
        ahead = (calls[i].number - s.last - 1) % s.calls
        if ahead < least:
            best, least = i, ahead
    return best


@subroutine
def _page(s, pages, inodes, number):
    """The page that a touch goes to; the last of a cache holds all further objects."""
    page = pages[number]
    if page.cache == 0:
        return page
    which = s.opening if page.cache & OPEN_FILE else s.inode
    return pages[inodes[(page.cache & (OPEN_FILE - 1)) - 1, max(0, min(which, inodes.shape[1] - 1))]]


@subroutine
def _touch(out, event, page, stores):
    """A load or store of the operation's code; WORK counts the instruction."""
    out.code = STORE if stores else LOAD
    out.site, out.space, out.op = event.site, KERNEL, event.op
    out.order, out.vaddr, out.addr = page.order, page.vaddr, page.vaddr
    out.width, out.length = 0, 1
