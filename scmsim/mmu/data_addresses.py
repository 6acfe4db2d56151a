"""Convert events to addresses in the data pages that they touch."""

import numpy as np

from scmsim.core.records import FETCH, FLUSH
from scmsim.jit import kernel

_SHIFT = 12


def addresses(events: np.ndarray, bins: np.ndarray, n: int, trash: int) -> np.ndarray:
    """Return one int64 address in each 4 KiB page of the loads, stores and flushes among the first `n` events.

    Events whose bin is `trash` are left out.
    """
    room = np.empty(_fill(events, bins, n, trash, np.empty(0, np.int64)), np.int64)
    _fill(events, bins, n, trash, room)
    return room


@kernel
def _fill(events, bins, n, trash, room):
    """Write the addresses to `room`, unless `room` is empty; return the number of addresses."""
    count = 0
    for i in range(n):
        e = events[i]
        if e.code > FLUSH or e.code == FETCH or e.length <= 0 or bins[i] == trash:
            continue
        first, last = e.vaddr >> _SHIFT, (e.vaddr + e.length - 1) >> _SHIFT
        if room.size:
            for page in range(first, last + 1):
                room[count + page - first] = page << _SHIFT
        count += last - first + 1
    return count
