"""Operations per CPU second of whole replays, and of the file system's part of them alone, on a mix of 4 KiB calls; every model.

Run: python -m tests.bench.mix [FS | FS:PAGING ...]    all models unless some are named; the least of --runs runs counts

Whole replays are timed without and with footprints.

One file of 16 MiB; of 200,000 calls half read and 40 % overwrite it at random, 10 % append to it; no fsync.  A first time
compiles the models, 10 to 15 s each.
"""

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np

import scmsim
from scmsim import pipeline
from scmsim.core import registry
from scmsim.core.records import CREATE, OP, READ, SETUP, WRITE, Files

UNIT, FILE = 4096, 16 << 20
READS, OVERWRITES = 0.5, 0.4


class Mix:
    """The trace (a records.Source)."""

    def __init__(self, calls: int, file_bytes: int = FILE) -> None:
        pages = file_bytes // UNIT
        rng = np.random.default_rng(1)
        kind = np.searchsorted([READS, READS + OVERWRITES], rng.random(calls), side="right")
        appended = kind == 2
        at = np.where(appended, pages + np.cumsum(appended) - appended, rng.integers(0, pages, calls))
        ops = np.zeros(1 + pages + calls, OP).view(np.recarray)
        ops.op, ops.file, ops.file2 = WRITE, 1, -1
        ops.op[0], ops.file2[0], ops.flag[: 1 + pages] = CREATE, 0, SETUP
        ops.op[1 + pages :][kind == 0] = READ
        ops.offset[1:], ops.length[1:] = UNIT * np.concatenate([np.arange(pages), at]), UNIT
        ops.time_ns = 1000 * np.arange(len(ops))
        self._ops, self.rows, self.header = ops, len(ops), {"tool": "bench"}
        self.files = Files(["/bench", "/bench/file"], np.array([0, -1]), np.array([True, False]))

    def batches(self, chunk: int = 1 << 14) -> Iterator[np.recarray]:
        """Yield the operations in record arrays of at most `chunk` rows."""
        for first in range(0, self.rows, chunk):
            yield self._ops[first : first + chunk]


def least(runs: int, action: Callable[[], object]) -> float:
    """Least CPU seconds of some runs."""
    found = []
    for _ in range(runs):
        start = time.process_time()
        action()
        found.append(time.process_time() - start)
    return min(found)


def main() -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fs", nargs="*", help="file systems, each with :PAGING if not on the default one")
    parser.add_argument("--calls", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    small, mix = Mix(100, 1 << 20), Mix(options.calls)
    print(f"{'million operations/s':<30}  whole   with footprints   file system alone")
    for name in options.fs or registry.names("fs"):
        fs, _, paging = name.partition(":")
        place = {"paging": paging or pipeline.DEFAULTS["paging"]}
        took = []
        for footprints in ("none", None):
            given = {**place, "footprints": footprints}
            scmsim.replay(small, fs, **given)  # compiles, or loads what is compiled
            took.append(least(options.runs, lambda fs=fs, given=given: scmsim.replay(mix, fs, **given)))
        took.append(least(options.runs, lambda fs=fs: pipeline.place(mix, fs, {})))
        rates = [
            count / seconds / 1e6 for count, seconds in zip((options.calls, options.calls, mix.rows), took, strict=True)
        ]
        print(
            f"{name:<30}" + "".join(f"{rate:>{width}.2f}" for rate, width in zip(rates, (7, 18, 15), strict=True)),
            flush=True,
        )


if __name__ == "__main__":
    main()
