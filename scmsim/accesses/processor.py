"""Write virtual addresses for simulators of processors and TLBs: one access for each 64-byte line of a run.

A flush is written as a load, because it translates its address too.  Sources of the formats: ChampSim inc/trace_instruction.h
(input_instr); `scmsim.mmu.accesses` for .u64.
"""

from typing import IO

import numpy as np

from scmsim.accesses.rows import DATA, Rows, lines
from scmsim.core.records import FETCH, NTSTORE, STORE

INSTRUCTION = np.dtype(
    [("ip", "<u8"), ("branch", "u1", (2,)), ("registers", "u1", (6,)), ("stores", "<u8", (2,)), ("loads", "<u8", (4,))]
)


class Addresses:
    """Writer of the addresses of data accesses, one per cache line; it does not distinguish loads from stores."""

    def __init__(self, out: IO[bytes]) -> None:
        self.out, self.counts = out, {"addresses": 0}

    def add(self, rows: Rows) -> None:
        rows = rows.of(~rows.setup & np.isin(rows.kind, DATA))
        for _, address in lines(rows.virtual, rows.length):
            self.counts["addresses"] += len(address)
            self.out.write(address.astype("<i8").tobytes())


class Champsim:
    """Writer of ChampSim's instructions: one without data for each fetch of code, and one for each line of data.

    An instruction with data has the instruction pointer of the latest fetch, so it fetches no further line of code.
    """

    def __init__(self, out: IO[bytes]) -> None:
        self.out, self.counts = out, {"fetches": 0, "loads": 0, "stores": 0}
        self.pointer = 0

    def add(self, rows: Rows) -> None:
        rows = rows.of(~rows.setup & np.isin(rows.kind, (*DATA, FETCH)))
        fetches, stores = rows.kind == FETCH, np.isin(rows.kind, (STORE, NTSTORE))
        latest = np.maximum.accumulate(np.where(fetches, np.arange(len(fetches)), -1))
        pointers = np.where(latest < 0, self.pointer, rows.virtual[latest])
        self.pointer = int(pointers[-1]) if len(pointers) else self.pointer
        for run, address in lines(rows.virtual, rows.length):
            table = np.zeros(len(run), INSTRUCTION)
            table["ip"] = pointers[run].view(np.uint64)
            fetch, store = fetches[run], stores[run]
            table["stores"][:, 0] = np.where(store, address, 0).view(np.uint64)
            table["loads"][:, 0] = np.where(fetch | store, 0, address).view(np.uint64)
            for name, count in (("fetches", fetch), ("stores", store), ("loads", ~(fetch | store))):
                self.counts[name] += int(np.count_nonzero(count))
            self.out.write(table.tobytes())
