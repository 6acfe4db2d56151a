"""Replay rows of events on an MMU, and describe plain machines."""

import numpy as np

from scmsim import mmu
from scmsim.core.counters import COUNTERS
from scmsim.core.records import EVENT
from scmsim.mmu import presets
from scmsim.mmu.replay import replay

PAGE_4K, PAGE_2M, PAGE_1G = 12, 21, 30


def run(rows, machine="i7-8700k", first=None):
    """Return the non-zero counters of events (code, vaddr, length, order, width, addr) as a dict."""
    batch = np.zeros(len(rows), EVENT).view(np.recarray)
    for i, row in enumerate(rows):
        code, vaddr, length, order, width, addr = (*row, 0, 0)[:6]
        batch.code[i], batch.vaddr[i], batch.length[i] = code, vaddr, length
        batch.order[i], batch.width[i], batch.addr[i] = order, width, addr
    counters = np.zeros(1, COUNTERS).view(np.recarray)
    replay(mmu.machine(machine) if first is None else first, counters, batch, np.zeros(len(rows), np.int64), len(rows))
    return {field: int(counters[field][0]) for field in COUNTERS.names if counters[field][0]}


def plain_machine(**more):
    """Return the table of a machine with two levels; `more` replaces parts of it."""
    table = presets.plain("64x4", "1536x12")
    table["walk"].update(more.pop("walk", {}))
    return {**table, **more}
