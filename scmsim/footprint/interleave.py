"""Puts the touches of footprints between the events of operations.

The touches of an operation are spread evenly between its events: how a copy and the code around it mix is not kept.
"""

import numpy as np

from scmsim.core.records import KERNEL, LOAD, OPS, STORE, WORK
from scmsim.jit import kernel, subroutine

ENTRY = np.dtype(  # a measured call
    (
        np.record,
        [
            ("kind", "i8"),  # number in records.OPS
            ("sites", "i8"),  # mechanisms that it used, a bit each
            ("instructions", "i8"),  # thousandths
            ("start", "i8"),  # first of its touches
            ("count", "i8"),
        ],
    )
)
TOUCH = np.dtype((np.record, [("vaddr", "i8"), ("order", "u1"), ("stores", "u1")]))

STATE = np.dtype(
    (
        np.record,
        [
            ("entries", "i8", (len(OPS), 2)),  # first and behind the last entry of each kind
            ("shared", "i8"),  # mechanisms that file and model both know
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
def interleave(state, entries, touches, kinds, events, out):
    """Copy events to `out`, each after its share of the touches; False: `out` is full, call again.

    `kinds` has the kind of each operation of the batch (int64).
    """
    s = state[0]
    s.emitted = 0
    while s.at < s.behind:
        event = events[s.at]
        if event.op != s.op:
            _begin(s, entries, kinds, events)
        done = s.at - s.first
        low, high = s.count * done // s.events, s.count * (done + 1) // s.events
        if s.emitted + high - low + 1 > len(out):
            return False
        for t in range(s.start + low, s.start + high):
            _touch(out[s.emitted], event, touches[t])
            s.emitted += 1
        out[s.emitted] = event
        s.emitted += 1
        s.at += 1
    return True


@subroutine
def _begin(s, entries, kinds, events):
    """Find the footprint of the operation that event `s.at` begins."""
    s.op, s.first, s.events = events[s.at].op, s.at, 0
    sites = instructions = 0
    for i in range(s.at, s.behind):
        event = events[i]
        if event.op != s.op:
            break
        s.events += 1
        sites |= 1 << int(event.site)  # in plain Python a byte would overflow
        if event.code == WORK:
            instructions += event.addr
    best = _nearest(s, entries, kinds[s.op], sites & s.shared, instructions)
    s.start, s.count = entries[best].start, entries[best].count


@subroutine
def _nearest(s, entries, kind, sites, instructions):
    """The measured call that is most like an operation: its mechanisms first, then its instructions."""
    best, least, nearest = 0, 65, 0
    for i in range(s.entries[kind, 0], s.entries[kind, 1]):
        entry = entries[i]
        differ, bits = 0, entry.sites ^ sites
        while bits:
            bits &= bits - 1
            differ += 1
        apart = abs(entry.instructions - instructions)
        if differ < least or (differ == least and apart < nearest):
            best, least, nearest = i, differ, apart
    return best


@subroutine
def _touch(out, event, touch):
    """A load or store of the operation's code; WORK counts the instruction."""
    out.code = STORE if touch.stores else LOAD
    out.site, out.space, out.op = event.site, KERNEL, event.op
    out.order, out.vaddr, out.addr = touch.order, touch.vaddr, touch.vaddr
    out.width, out.length = 0, 1
