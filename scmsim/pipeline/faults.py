"""Count page faults of mapped files, from the MAP events in the program's address space."""

import numpy as np

from scmsim.core.counters import SCHEMA
from scmsim.core.records import MAP, ORDER, USER
from scmsim.fs.mapping.words import FAULT, MAJOR, PROTECTED
from scmsim.jit import kernel
from scmsim.mmu.columns import ROW

_NAMES = list(SCHEMA)
# In SCHEMA, the counters for 2 MiB and 1 GiB follow each of these two 4 KiB counters.
FAULTS, MAPPED_BYTES = _NAMES.index("page_faults_pte"), _NAMES.index("mapped_bytes_4k")
PROTECTION_FAULTS, MAJOR_FAULTS = _NAMES.index("page_faults_write_protect"), _NAMES.index("page_faults_major")


def count_faults(counters: np.ndarray, events: np.ndarray, bins: np.ndarray, n: int) -> None:
    """Add the faults of the first `n` events to the rows `bins` of `counters` (counters.COUNTERS)."""
    _count(counters.view(np.ndarray).view(ROW), events, bins, n)


@kernel
def _count(counts, events, bins, n):
    """Add the faults of the first `n` events; a file's mapping in the program's space emits one MAP event per entry."""
    for i in range(n):
        e = events[i]
        if e.code == MAP and e.space == USER:
            at = counts[bins[i]].at
            level = ((e.order & ORDER) - 12) // 9
            at[FAULTS + level] += e.fault_flags & FAULT != 0  # not set: pages that mmap or madvise mapped uncounted
            at[MAPPED_BYTES + level] += e.length
            at[PROTECTION_FAULTS] += e.fault_flags & PROTECTED != 0
            at[MAJOR_FAULTS] += e.fault_flags & MAJOR != 0
