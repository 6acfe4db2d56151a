"""Record the write-backs of the medium's model in order, in addition to counting them.

The kernel is that of `model`, bound to a `write_back` that also appends to a list in the state.  A replay without a recording
runs the unbound kernel.  Units: bytes.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from scmsim.core.records import FLUSH, NTSTORE, PM, STORE
from scmsim.jit import subroutine
from scmsim.jit.binding import bind
from scmsim.medium import model
from scmsim.medium.model import SHIFT_64
from scmsim.medium.model import write_back as count_write_back

ROOM = 1 << 18  # most write-backs that the lists of the state can hold

_PLAIN: dict[str, Any] = dict(model.STATE.fields or {})
STATE = np.dtype(
    (
        np.record,
        [
            *((name, kind) for name, (kind, *_) in _PLAIN.items()),
            ("event", "i8"),  # index of the current event in the buffer
            ("recorded", "i8"),  # write-backs in the lists below
            ("event_of", "i8", (ROOM,)),
            ("first_byte", "i8", (ROOM,)),
            ("end_byte", "i8", (ROOM,)),
        ],
    )
)


def start(kinds: list[str], buffer_bytes: int) -> np.recarray:
    """Return the empty state; see `model.start`."""
    plain, state = model.start(kinds, buffer_bytes), np.zeros(1, STATE).view(np.recarray)
    for name in _PLAIN:
        state[name] = plain[name]
    return state


@subroutine
def begin_event(m, i):
    """Set `i` as the event to which the following write-backs belong."""
    m.event = i


@subroutine
def write_back(m, c, addr, end):
    """Count the bytes [addr, end) as written back, and record them; adjacent bytes extend the latest record."""
    count_write_back(m, c, addr, end)
    k = m.recorded
    if k > 0 and m.event_of[k - 1] == m.event and m.end_byte[k - 1] == addr and addr & 63 == 0:
        m.end_byte[k - 1] = end
        return
    m.event_of[k], m.first_byte[k], m.end_byte[k] = m.event, addr, end
    m.recorded = k + 1


@subroutine
def write_back_lines(m, c, first, last):
    """Count and record the write-backs of the lines [first, last], one at a time."""
    for line in range(first, last + 1):
        write_back(m, c, line << SHIFT_64, (line + 1) << SHIFT_64)


_BOUND = bind(
    "recorded",
    model,
    {model: {"write_back": write_back, "write_back_lines": write_back_lines, "begin_event": begin_event}},
)


def simulate(
    state: np.ndarray, counters: np.ndarray, events: np.ndarray, bins: np.ndarray, room: int = ROOM
) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray]]:
    """Run `model.simulate` over slices of the events that cause at most `room` write-backs, which the lists hold.

    Yield (slice of the events, array of each write-back's event, of its first byte, of its end); the next step overwrites
    the arrays.
    """
    ends, start = np.cumsum(_most(events)), 0
    while start < len(events):
        before = ends[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + room, "right")))
        if ends[end - 1] - before > ROOM:
            raise OverflowError(f"an event may cause {ends[end - 1] - before:,} write-backs; the list holds {ROOM:,}")
        state["recorded"] = 0
        _BOUND.simulate(state, counters, events[start:end], bins[start:end], end - start)
        count = int(state["recorded"][0])
        event, first, last = (state[name][0, :count] for name in ("event_of", "first_byte", "end_byte"))
        yield slice(start, end), event, first, last
        start = end


def _most(events: np.ndarray) -> np.ndarray:
    """Return the largest number of separate write-backs of each event.

    A run displaces or cleans at most the lines that the cache holds, and then its own lines: adjacent ones, in each page of a
    strided run.
    """
    first, last = events["addr"], events["addr"] + events["length"] - 1
    lines = np.minimum((last >> 6) - (first >> 6) + 1, model.DIRTY_SLOTS)
    pages = np.where(events["negated_page_bytes"] < 0, (last >> 12) - (first >> 12) + 1, 1)
    writes = np.isin(events["code"], (STORE, NTSTORE, FLUSH)) & (events["space"] == PM) & (events["length"] > 0)
    return np.where(writes, lines + pages + 1, 0)
