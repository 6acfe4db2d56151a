"""Touches of a mapped file through all stages: million a second of CPU time, and of what a trace's rows cost alone.

python -m tests.bench.touches        # a minute after the kernels are compiled
"""

import time

import scmsim
from scmsim.workload.mapped import Workload

TOUCHES, RUNS = 1 << 20, 3
CASES = (("random", "2MiB"), ("random", "4KiB"), ("sequential", "4KiB"))


def rates(pattern: str, alignment: str) -> tuple[float, float]:
    """(Million touches of 8 bytes a second on ext4-dax, million rows generated a second), the best of some runs."""
    work, whole, alone = Workload(file_size=64 << 20, touches=TOUCHES, unit=8, pattern=pattern), [], []
    for _ in range(RUNS + 1):  # the first one compiles
        begin = time.process_time()
        scmsim.replay(work, "ext4-dax", params={"ext4-dax": {"data_alignment": alignment}})
        whole.append(time.process_time() - begin)
        begin = time.process_time()
        rows = sum(len(batch) for batch in work.batches())
        alone.append(time.process_time() - begin)
    return TOUCHES / min(whole[1:]) / 1e6, rows / min(alone[1:]) / 1e6


if __name__ == "__main__":
    for pattern, alignment in CASES:
        replayed, generated = rates(pattern, alignment)
        print(f"{pattern:<12}{alignment:<8}{replayed:>8.1f} M touches/s{generated:>8.1f} M rows/s generated")
