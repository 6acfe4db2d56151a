"""Wall time of a replay of one model on one thread and on two, on the mix of 4 KiB calls of `tests.bench.mix`, with footprints.

Run: python -m tests.bench.threads [FS ...] [--calls 2000000] [--runs 3]    the least of the runs counts
"""

import argparse
import time

import scmsim
from tests.bench.mix import Mix


def seconds(source: Mix, fs: str, jobs: int) -> tuple[float, float]:
    """Return wall and CPU seconds of a replay."""
    wall, cpu = time.perf_counter(), time.process_time()
    scmsim.replay(source, fs, jobs=jobs)
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fs", nargs="*", default=["nova-cow", "ext4-dax", "xfs-dax", "ext4", "tmpfs"])
    parser.add_argument("--calls", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    source = Mix(options.calls)
    print("fs            1: wall  2: wall     CPU  times as fast")
    for fs in options.fs:
        seconds(source, fs, 1)  # compiles
        (one, _), (two, cpu) = (min(seconds(source, fs, jobs) for _ in range(options.runs)) for jobs in (1, 2))
        print(f"{fs:14}{one:7.2f} {two:8.2f} {cpu:7.2f} {one / two:14.2f}", flush=True)


if __name__ == "__main__":
    main()
