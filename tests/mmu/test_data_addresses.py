"""The data pages that events touch, each once for each event."""

import numpy as np

from scmsim.core.records import FENCE, FETCH, FLUSH, LOAD, NTSTORE, STORE, WORK
from scmsim.mmu.data_addresses import addresses
from tests.mmu.test_properties import EVENT


def test_each_page_of_a_run_is_named_once():
    rows = [
        (LOAD, 4095, 1, 0),  # the last byte of page 0
        (STORE, 4095, 2, 0),  # pages 0 and 1
        (NTSTORE, 2 * 4096, 4096, 0),  # page 2 as a whole
        (FLUSH, -4096, 4096, 0),  # the last page of the kernel's half
        (LOAD, 1 << 40, 8193, 0),  # three pages
        (LOAD, 9 * 4096, 0, 0),  # nothing
        (LOAD, 9 * 4096, 1, 1),  # of a row that nobody counts
        (FETCH, 9 * 4096, 1, 0),
        (FENCE, 9 * 4096, 1, 0),
        (WORK, 9 * 4096, 1, 0),
        (LOAD, 9 * 4096, 1, 0),  # behind the `n` events
    ]
    events = np.zeros(len(rows), EVENT)
    for event, (code, vaddr, length, _) in zip(events, rows, strict=True):
        event["code"], event["vaddr"], event["length"] = code, vaddr, length
    found = addresses(events.view(np.recarray), np.array([row[-1] for row in rows]), len(rows) - 1, 1)
    high = 1 << 28
    assert (found >> 12).tolist() == [0, 0, 1, 2, -1, high, high + 1, high + 2] and not (found & 4095).any()
    assert not len(addresses(events.view(np.recarray), np.zeros(len(rows), np.int64), 0, 1))
