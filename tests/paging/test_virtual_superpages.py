"""Virtual superpages: which entries map each page after MAP and REMAP, against sets of 2 MiB of addresses."""

import numpy as np

from scmsim.core.records import (
    CONTIGUOUS,
    EVENT,
    EVENT_COLUMNS,
    KERNEL,
    LOAD,
    MAP,
    ORDER,
    PM,
    REMAP,
    SCM_TABLE,
    STORE,
    WORK,
)
from scmsim.paging import virtual_superpages as policy
from tests.paging.test_paging import unsigned

MIB = 1 << 20


def rows():
    """(code, space, addr, length, width): maps of both sizes, exchanges of parts of 2 MiB and of all, and what is touched."""
    random = np.random.default_rng(1)
    yield MAP, PM, 0, 40 * MIB, 21
    for _ in range(200):
        code = int(random.choice([LOAD, STORE, LOAD, STORE, REMAP, MAP, WORK]))
        addr, length, width = (
            int(random.integers(0, 80 * MIB)) & ~4095,
            int(random.choice([1, 4096, 2 * MIB, 5 * MIB])),
            0,
        )
        if code in (MAP, REMAP):
            addr -= addr % (2 * MIB) if random.random() < 0.5 else 0
            length, width = max(length, 4096), int(random.choice([12, 21]))
        yield code, int(random.choice([PM, PM, PM, KERNEL])), addr, length, width


def test_entries_are_those_that_were_made_and_exchanged():
    state, large, torn = policy.start({}), set(), set()
    found, seen = np.zeros(1, EVENT).view(np.recarray), set()
    for code, space, addr, length, width in rows():
        found[[*EVENT_COLUMNS]][0] = (code, 0, space, 0, 0, width, addr, length, 0)
        policy.place(state, found, 1)
        if space != PM or code == WORK:
            continue
        pieces = range(addr // (2 * MIB), -(-(addr + length) // (2 * MIB)))
        if code == MAP:
            large = large | {*pieces} if width == 21 else large - {*pieces}
        elif code == REMAP and (addr % (2 * MIB) or length % (2 * MIB)):
            large, torn = large - {*pieces}, torn | {*pieces}
        first = addr // (2 * MIB)
        order, flags = int(found.order[0]) & ORDER, int(found.order[0]) & ~ORDER
        assert order == (21 if first in large else 12)
        if first not in large:  # no neighbours where pages were exchanged
            assert flags == SCM_TABLE | (0 if first in torn else CONTIGUOUS)
        assert found.vaddr[0] == unsigned("ffffc90000000000") + addr
        seen.add((order, first in torn))
    assert seen == {(21, False), (21, True), (12, False), (12, True)}
