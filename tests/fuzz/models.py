"""Replays random traces, with plain and wild values, on all models until the time is over; prints what happened.

Run: python tests/fuzz/models.py --seconds 60 [--seed N] [--fs NAMES] [--models N] [--trace N]
Ends with 1 if a model crashed, took too long or too much memory, or returned figures that break a law.  `--trace N` replays one
trace of a seed again; `--models N` draws N models by the seed, as each takes minutes to compile.  The time counts from the first
replay that has its kernels.  With NUMBA_DISABLE_JIT=1 the models run alone, as plain Python, and only their space is looked at.
"""

import argparse
import pathlib
import random
import signal
import sys
import time
import traceback
from collections import Counter
from resource import RUSAGE_SELF, getrusage
from types import FrameType

import numpy as np

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import scmsim  # noqa: E402
from scmsim.core import records, registry  # noqa: E402
from scmsim.core.errors import ScmsimError  # noqa: E402
from scmsim.core.records import OP, OPS  # noqa: E402
from scmsim.fs.engine import events  # noqa: E402
from scmsim.pipeline import place  # noqa: E402
from scmsim.pipeline.failing_calls import LARGEST_FILE  # noqa: E402
from scmsim.trace import rules  # noqa: E402
from tests.conftest import NO_JIT  # noqa: E402
from tests.fs import drive  # noqa: E402
from tests.golden.options import SMALL  # noqa: E402

events.MOST_WORDS = 1 << 27  # a sparse file's dense table is refused from 1 GiB on
FILES = 6  # row 0 is a directory, rows 4 and 5 existed before the trace
SECONDS = 60  # of one replay, compiled kernels or not
MEMORY = 3 << 20  # KiB that a process may hold at most
EDGES = (4096, 1 << 16, 1 << 21, 1 << 30, 1 << 31, 1 << 32, 1 << 41, 1 << 44, 1 << 60, 1 << 62)
FLAGS = (0, 0, 0, records.SYNCHRONOUS, records.DATA_ONLY, records.KEEP_SIZE, records.PUNCH_HOLE, records.APPENDS)
# (part, whole): figures of which one is never above the other.
PARTS = (("live_bytes", "allocated_bytes"),)


def value(draw: random.Random, wild: bool) -> int:
    """Return an offset or a length: a plain one, or one at the edge of a type, a page or a limit."""
    if wild and draw.random() < 0.3:
        return max(0, draw.choice((draw.choice(EDGES), LARGEST_FILE)) + draw.choice((-4096, -1, 0, 1, 4096)))
    return draw.choice((0, 1, 100, 4095, 4096, 4097, 5000, 65_536, draw.randrange(300_000), draw.randrange(1 << 21)))


def trace(draw: random.Random, wild: bool) -> drive.Any:
    """Return a source of random operations on few files."""
    first = [0, -1, -1, -1, 100_000, value(draw, wild)]
    if draw.random() < 0.95:
        first[-1] = min(first[-1], LARGEST_FILE)
    rows = np.zeros(draw.choice((5, 20, 60)), OP).view(np.recarray)
    kinds = [*OPS, *("create", "write", "read", "truncate") * 6, *("fallocate", "unlink", "rename") * 2]
    names = [
        name for name in kinds if name not in ("malloc", "free", "mm_to_file", "file_to_mm") or draw.random() < 0.2
    ]
    now = 0
    for row in rows:
        name = draw.choice(names)
        now += draw.choice((0, 1000, 1_000_000, 700_000_000))
        row.time_ns, row.op, row.thread = now, OPS.index(name), draw.randrange(3)
        row.file, row.file2 = draw.randrange(FILES), draw.choice((-1, 0, draw.randrange(FILES)))
        row.offset, row.length = value(draw, wild), value(draw, wild)
        row.flag = draw.choice(FLAGS)
        if row.op in rules.MAPS and draw.random() < 0.99:  # nearly all end where a file may
            row.offset, row.length = min(row.offset, rules.FILE_END // 2), min(row.length, rules.FILE_END // 2)
        row.offset = min(row.offset, 1 << 62)
        row.length = min(row.length, (1 << 62) - row.offset)
    if wild and draw.random() < 0.1:
        draw.choice(rows)[draw.choice(("file", "file2", "offset", "length"))] = -1
    return drive.source(drive.files(*first, dirs=[0]), rows)


def laws(run: drive.Any) -> list[str]:
    """Return what a run breaks: no figure is negative, and parts add up."""
    found = [f"{kind}.{name} is {figure}" for kind, name, figure in _figures(run) if figure < 0]
    for site, counts in (("all", run.counters), *run.sites.items()):
        for side in ("dtlb_load", "dtlb_store"):
            parts = (f"{side}_l1_hit", f"{side}_misses_stlb_hit", f"{side}_misses_walk_completed")
            if counts.get(f"{side}_lookups", 0) != sum(counts.get(part, 0) for part in parts):
                found.append(f"{side} of {site}: look-ups are not hits and walks")
    return found + above(run.space)


def above(space: dict[str, int]) -> list[str]:
    """Return which figures of a space report are above what they are part of."""
    return [f"{a} is above {b}" for a, b in PARTS if space.get(a, 0) > space.get(b, 0)]


def _figures(run: drive.Any) -> list[tuple[str, str, float]]:
    """Return every figure of a run with where it is."""
    tables = {"counters": run.counters, "space": run.space, "stored": run.stored_bytes, "payload": run.payload}
    tables |= {"metrics": run.metrics, "errors": run.errors, **{f"sites {site}": run.sites[site] for site in run.sites}}
    found = [(kind, name, figure) for kind, table in tables.items() for name, figure in table.items()]
    return [row for row in found if isinstance(row[2], int | float)]


def judge(fs: str, source: drive.Any, small: bool) -> str:
    """Replay a trace; return how it ended, or raise AssertionError with what is wrong."""
    params = {fs: {"capacity": SMALL[fs]}} if small else {}
    start = time.monotonic()
    signal.alarm(SECONDS)
    try:
        if NO_JIT:  # the models alone: what follows takes minutes in plain Python
            space = place(source, fs, params.get(fs, {}))[0]
            broken = [f"{name} is {figure}" for name, figure in space.items() if figure < 0] + above(space)
        else:
            broken = laws(scmsim.replay(source, fs, params=params, footprints="none").runs[0])
    except ScmsimError as error:
        message = str(error)
        assert "\n" not in message and len(message) <= 400, f"an error of several lines or too long: {message!r}"
        return "refused"
    finally:
        signal.alarm(0)
    assert not broken, "; ".join(broken[:6])
    assert getrusage(RUSAGE_SELF).ru_maxrss < MEMORY, f"{getrusage(RUSAGE_SELF).ru_maxrss >> 10} MiB of memory"
    return "replayed" if time.monotonic() - start < SECONDS / 2 else "slow"


def _late(_: int, frame: FrameType | None) -> None:
    at = "".join(traceback.format_stack(frame, 4)[:2])
    raise AssertionError(f"not done after {SECONDS} s\n{at}")


def main() -> int:
    """Fuzz; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fs", default="all")
    parser.add_argument("--models", type=int)
    parser.add_argument("--trace", type=int)
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _late)
    names = [name for name in registry.select("fs", options.fs) if name in SMALL]
    if options.models:
        names = sorted(random.Random(options.seed).sample(names, options.models))
    for fs in () if NO_JIT else names:
        scmsim.replay(trace(random.Random(0), False), fs, footprints="none")
    seen: Counter[tuple[str, str]] = Counter()
    end, number, failed = time.monotonic() + options.seconds, options.trace or 0, 0
    while time.monotonic() < end and failed <= 50:
        for fs in names:
            draw = random.Random(f"{options.seed}:{number}:{fs}")
            wild, small = (
                draw.random() < 0.6,
                draw.random() < 0.5 or bool(NO_JIT),
            )  # plain Python is too slow for large devices
            try:
                seen[fs, judge(fs, trace(draw, wild), small)] += 1
            except Exception as error:
                seen[fs, "FAILED"] += 1
                failed += 1
                where = traceback.format_exc() if not isinstance(error, AssertionError) else str(error)
                print(f"{fs}, --seed {options.seed} --trace {number}, wild {wild}, small {small}: {where}", flush=True)
            if time.monotonic() > end:
                break
        number += 1
        if options.trace is not None:
            break
    for fs in names:
        print(f"{fs:16}" + "".join(f"{seen[fs, how]:>8} {how}" for how in ("replayed", "refused", "slow", "FAILED")))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
