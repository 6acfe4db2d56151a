"""Write requests to persistent memory for memory simulators: a line of text for each 64 bytes loaded or written back.

Loads are the loads of the model's events, for which no CPU cache is simulated.  Writes are the lines that leave the CPU's
caches and streaming stores, as the counter `lines_written_back` counts them.  Addresses are offsets in the device.  Sources
of the formats: Ramulator 2.1 src/ramulator/frontend/impl/memory_trace/loadstore_trace.cpp; DRAMsim3 src/common.cc
(`operator>>` of Transaction) and src/cpu.cc (TraceBasedCPU).
"""

from typing import IO

import numpy as np

from scmsim.accesses.rows import WRITE_BACK, Rows, lines
from scmsim.core.records import FETCH, LOAD, MILLI, STORE

_WORD = 8  # bytes that are moved per cycle


def _cycles(rows: Rows) -> np.ndarray:
    """Return the cycles that each row takes, in thousandths: one cycle per instruction of code and per word moved.

    The words of a streaming store are counted at the write-back that follows it.  If all lines of a run had the same cycle,
    DRAMsim3 could hang: it waits forever if its write buffer is full when a line that it has not read yet is written.
    """
    words = np.isin(rows.kind, (LOAD, STORE, WRITE_BACK)) * -(-rows.length // _WORD) * MILLI
    return np.where(rows.kind == FETCH, rows.instructions, words)


class Requests:
    """Base class of the writers of both formats; writes the rows that reach the device, cut into lines."""

    words = ("", "")  # words for a read and for a write

    def __init__(self, out: IO[bytes]) -> None:
        self.out, self.counts = out, {"reads": 0, "writes": 0}
        self.cycle = 0  # cycle of the next row, thousandths

    def add(self, rows: Rows) -> None:
        rows = rows.of(~rows.setup)
        after = self.cycle + np.cumsum(_cycles(rows))
        start, self.cycle = np.append(self.cycle, after[:-1]), int(after[-1]) if len(after) else self.cycle
        reaches = (rows.device >= 0) & ((rows.kind == LOAD) | (rows.kind == WRITE_BACK))
        start, rows = start[: len(reaches)][reaches] // MILLI, rows.of(reaches)
        words = np.array(self.words)[(rows.kind == WRITE_BACK).astype(np.int64)]
        for run, address in lines(rows.device, rows.length):
            writes = int(np.count_nonzero(rows.kind[run] == WRITE_BACK))
            self.counts["writes"] += writes
            self.counts["reads"] += len(run) - writes
            cycles = start[run] + (address - rows.device[run]) // _WORD
            found = self.text(words[run].tolist(), (address >> 6 << 6).tolist(), cycles.tolist())
            self.out.write(found.encode())

    def text(self, words: list[str], addresses: list[int], cycles: list[int]) -> str:
        """Return the text of some requests, one line each."""
        raise NotImplementedError


class Ramulator(Requests):
    """Writer of Ramulator 2's lines: `LD 0x1f40` or `ST 0x1f40`."""

    words = ("LD", "ST")

    def text(self, words: list[str], addresses: list[int], cycles: list[int]) -> str:
        return "".join([f"{word} 0x{address:x}\n" for word, address in zip(words, addresses, strict=True)])


class Dramsim3(Requests):
    """Writer of DRAMsim3's lines: `0x1f40 READ 120`, with the earliest cycle of the request (see `_cycles`)."""

    words = ("READ", "WRITE")

    def text(self, words: list[str], addresses: list[int], cycles: list[int]) -> str:
        columns = zip(words, addresses, cycles, strict=True)
        return "".join([f"0x{address:x} {word} {cycle}\n" for word, address, cycle in columns])
