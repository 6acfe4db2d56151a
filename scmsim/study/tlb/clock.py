"""Estimate when, by the guest's clock, the calls of a recording happened, which decides which calls changed a file's times.

File times advance at a timer interrupt, 250 times per second.  A second call within a tick leaves the inode unchanged, and an
fsync after it commits nothing.  The recording shows the interrupts that hit a call.  Between interrupts, the time of a call is
assumed to be proportional to the number of lines that it touches.
"""

from collections.abc import Iterator

import numpy as np

from scmsim.core.records import SETUP, Source
from scmsim.pipeline import CHUNK
from scmsim.study.tlb.replay import GUEST_HZ

TICK_NS = 10**9 // GUEST_HZ
FEWEST = 3  # minimum number of interrupted calls from whose distances the length of a tick is estimated


class Timed:
    """A trace with other times: call i (without setup calls) happens at `times[i]` ns, setup before the first call at 0."""

    def __init__(self, source: Source, times: np.ndarray) -> None:
        self.source, self.times = source, times
        self.header, self.files, self.rows = source.header, source.files, source.rows

    def batches(self, chunk: int = CHUNK) -> Iterator[np.recarray]:
        """Yield the batches of the trace."""
        done, times = 0, np.append(0, self.times)
        for batch in self.source.batches(chunk):
            batch = batch.copy()
            counted = done + np.cumsum(batch.flag & SETUP == 0)
            batch.time_ns = times[np.minimum(counted, len(times) - 1)]
            done = int(counted[-1])
            yield batch


def times(lengths: np.ndarray, ticks: np.ndarray) -> np.ndarray:
    """Return the time at the end of each call, ns; `lengths` are in any unit, `ticks` are the interrupted calls.

    Interrupts between two calls are not recorded, so a gap of about n median gaps counts as n ticks.  With fewer than three
    interrupted calls the length of a tick is unknown, and all calls are put in the first tick.
    """
    if len(ticks) < FEWEST:
        return np.zeros(len(lengths), np.int64)
    ends = np.cumsum(lengths)
    gaps = np.diff(ends[ticks])
    period = float(np.median(gaps))
    passed = 1 + np.append(0, np.cumsum(np.maximum(1, np.round(gaps / period))))
    rest = float(ends[-1] - ends[ticks[-1]]) / period
    at = [0.0, *ends[ticks].tolist(), float(ends[-1]) + 1]
    number = [0.0, *passed.tolist(), float(passed[-1]) + rest]
    return np.floor(np.interp(ends, at, number) * TICK_NS + 0.5).astype(np.int64)
