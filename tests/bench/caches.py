"""Speed of the data caches: `python tests/bench/caches.py [SECONDS]`.

Prints M lines/s of CPU time for streams of lines, and what caches add to the CPU time of replays (best of several).
"""

import sys
import time
from collections.abc import Callable

import numpy as np

from scmsim import cache
from scmsim.cache import replay as kernel
from scmsim.cache import state
from scmsim.mmu import presets
from scmsim.pipeline import replay

LINES = 1 << 20
TRACES = ("varmail", "fio", "sqlite-load", "postmark")


def best(work: Callable[[], object], seconds: float) -> float:
    """Return the least CPU time of one call, in seconds, after a first call that compiles."""
    work()
    found, end = [], time.monotonic() + seconds
    while len(found) < 3 or time.monotonic() < end:
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def streams() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {
        "random in 24 KiB": rng.integers(0, 24 << 4, LINES) << 6,
        "random in 200 KiB": rng.integers(0, 200 << 4, LINES) << 6,
        "random in 8 MiB": rng.integers(0, 8 << 14, LINES) << 6,
        "random in 1 GiB": rng.integers(0, 1 << 24, LINES) << 6,
        "8 bytes after 8 bytes": np.arange(LINES) << 3,
        "line after line": np.arange(LINES) << 6,
    }


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    for machine in ("i7-8700k", "skylake-sp", "zen4"):
        for name, addresses in streams().items():
            for share in (0, 30):
                caches, counts = cache.build(presets.read(machine)), np.zeros(1, state.ROW)
                codes = (np.random.default_rng(2).integers(0, 100, LINES) < share).astype(np.uint8)
                work = (caches.record, caches.arena, counts, codes, addresses)
                took = best(lambda: kernel.simulate_lines(*work), seconds)  # noqa: B023
                print(f"{machine:12} {name:22} {share:3} % stores {LINES / took / 1e6:6.0f} M lines/s", flush=True)
    for trace in TRACES:
        for fs in ("ext4", "ext4-dax", "nova-cow"):
            off, on = (
                best(lambda: replay(f"traces/{trace}.parquet", fs, caches=setting), seconds)  # noqa: B023
                for setting in (cache.OFF, cache.ON)
            )
            print(
                f"{trace:12} {fs:10} {off * 1e3:6.0f} ms without, {on * 1e3:6.0f} ms with caches: x{on / off:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
