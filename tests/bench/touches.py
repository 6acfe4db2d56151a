"""Touches of a mapped file through all stages: million a second of CPU time, and of what a trace's rows cost alone.

python -m tests.bench.touches        # two minutes after the kernels are compiled

A rate is that of touches more: what a replay takes besides (its start, a first fault for each page) is told apart.
"""

import time

import scmsim
from scmsim.workload.mapped import Workload

SOME, MORE, RUNS = 1 << 19, 1 << 22, 3  # touches
CASES = (("random", "2MiB"), ("random", "4KiB"), ("sequential", "4KiB"))


def took(work: Workload, alignment: str, footprints: str | None) -> float:
    """CPU seconds of a replay on ext4-dax, the least of some runs; the first one compiles."""
    found = []
    for _ in range(RUNS + 1):
        begin = time.process_time()
        scmsim.replay(work, "ext4-dax", params={"ext4-dax": {"data_alignment": alignment}}, footprints=footprints)
        found.append(time.process_time() - begin)
    return min(found[1:])


def rates(pattern: str, alignment: str, footprints: str | None) -> tuple[float, float]:
    """(Million touches of 8 bytes more a second, seconds of a replay without a touch)."""
    some, more = (
        took(Workload(file_size=64 << 20, touches=touches, unit=8, pattern=pattern), alignment, footprints)
        for touches in (SOME, MORE)
    )
    each = (more - some) / (MORE - SOME)
    return 1e-6 / each, some - SOME * each


def rows(pattern: str) -> float:
    """Million rows generated a second."""
    work, found = Workload(file_size=64 << 20, touches=MORE, unit=8, pattern=pattern), []
    for _ in range(RUNS):
        begin = time.process_time()
        made = sum(len(batch) for batch in work.batches())
        found.append(time.process_time() - begin)
    return made / min(found) / 1e6


if __name__ == "__main__":
    for pattern, alignment in CASES:
        (plain, _), (whole, start) = rates(pattern, alignment, "none"), rates(pattern, alignment, None)
        print(
            f"{pattern:<12}{alignment:<6}{whole:>6.1f} M touches/s, {plain:.1f} without footprints; {start:.2f} s besides; "
            f"{rows(pattern):.0f} M rows/s generated"
        )
