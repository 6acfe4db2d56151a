"""Replays random traces, with plain and wild values, on all models until the time is over; prints what happened.

Run: python tests/fuzz/models.py --seconds 60 [--seed N] [--fs NAMES] [--models N] [--trace N]
Ends with 1 if a model crashed, took too long or too much memory, or returned figures that break a law.  Draws a seed unless
one is given, and prints it.  `--trace N` replays one trace of a seed again; `--models N` draws N models by the seed, as each takes
up to a minute to compile.  The time counts from the first replay that has its kernels.  With NUMBA_DISABLE_JIT=1 the models run
alone, as plain Python: no counters are looked at.
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

from scmsim.core import records, registry  # noqa: E402
from scmsim.core.errors import ScmsimError  # noqa: E402
from scmsim.core.records import OP, OPS  # noqa: E402
from scmsim.fs.engine import events  # noqa: E402
from scmsim.pipeline import CHUNK, DEFAULTS, compile_ahead  # noqa: E402
from scmsim.pipeline.failing_calls import LARGEST_FILE  # noqa: E402
from scmsim.pipeline.run import Replay  # noqa: E402
from scmsim.pipeline.stages import Loop  # noqa: E402
from scmsim.trace import rules  # noqa: E402
from tests.conftest import NO_JIT  # noqa: E402
from tests.fs import drive  # noqa: E402
from tests.golden.options import LARGER, OTHERWISE, SMALL, THIRD, VARIED  # noqa: E402

events.MOST_WORDS = 1 << 27  # a sparse file's dense table is refused from 1 GiB on
FILES = 6  # row 0 is a directory, rows 4 and 5 existed before the trace
SECONDS = 60  # of CPU time, which one replay may take, compiled or not
MEMORY = 3 << 20  # KiB that a process may hold at most
EDGES = (4096, 1 << 16, 1 << 21, 1 << 30, 1 << 31, 1 << 32, 1 << 41, 1 << 44, 1 << 60, 1 << 62)
FLAGS = (0, 0, 0, records.SYNCHRONOUS, records.DATA_ONLY, records.KEEP_SIZE, records.PUNCH_HOLE, records.APPENDS)
MAP_END = 1 << 32 if NO_JIT else rules.FILE_END  # of a mapping: each 2 MiB of it take a step, and plain Python is slow
REFUSE = ("daxfs", "device-dax", "famfs", "hugetlbfs")  # refuse calls also for which there is room, as Linux does
# (part, wholes): the figures of which the first is never above the sum of the others.
PARTS = (
    ("live_bytes", ("allocated_bytes",)),
    ("live_bytes", ("file_bytes", "memory_object_bytes")),
    ("allocated_bytes", ("capacity_bytes",)),
)


def value(draw: random.Random, wild: bool) -> int:
    """Return an offset or a length: a plain one, or one at the edge of a type, a page or a limit."""
    if wild and draw.random() < 0.3:
        return max(0, draw.choice((draw.choice(EDGES), LARGEST_FILE)) + draw.choice((-4096, -1, 0, 1, 4096)))
    return draw.choice((0, 1, 100, 4095, 4096, 4097, 5000, 65_536, draw.randrange(300_000), draw.randrange(1 << 21)))


def parameters(draw: random.Random, fs: str) -> dict:
    """Return parameters of a model: other values in most traces, a small device in every second."""
    params = dict(draw.choice(({}, {}, OTHERWISE, VARIED, THIRD)).get(fs, {}))
    if draw.random() < 0.5 or NO_JIT:  # plain Python is too slow for large devices
        params["capacity"] = draw.choice((SMALL, SMALL, LARGER)).get(fs, SMALL[fs])
    return params


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
    now, fills = 0, draw.random() < 0.3
    for row in rows:
        name = draw.choice(names)
        now += draw.choice((0, 1000, 1_000_000, 700_000_000))
        row.time_ns, row.op, row.thread = now, OPS.index(name), draw.randrange(3)
        row.file, row.file2 = draw.randrange(FILES), draw.choice((-1, 0, draw.randrange(FILES)))
        row.offset, row.length = value(draw, wild), value(draw, wild)
        if fills and name in ("write", "fallocate"):
            row.offset, row.length = draw.randrange(1 << 21), draw.randrange(1 << 21)
        row.flag = draw.choice(FLAGS)
        if row.op in rules.MAPS and draw.random() < 0.99:  # nearly all end where a file may
            row.offset, row.length = min(row.offset, MAP_END // 2), min(row.length, MAP_END // 2)
        row.offset = min(row.offset, 1 << 62)
        row.length = min(row.length, (1 << 62) - row.offset)
    if wild and draw.random() < 0.1:
        draw.choice(rows)[draw.choice(("file", "file2", "offset", "length"))] = -1
    return drive.source(drive.files(*first, dirs=[0]), rows)


def laws(run: drive.Any) -> list[str]:
    """Return which laws of the counters a run breaks: no figure is negative, and parts add up."""
    found = [f"{kind}.{name} is {figure}" for kind, name, figure in _figures(run) if figure < 0]
    if run.calls > run.operations:
        found.append(f"{run.calls} calls of {run.operations} operations")
    for site, counts in (("all", run.counters), *run.sites.items()):
        for side in ("dtlb_load", "dtlb_store"):
            parts = (f"{side}_l1_hit", f"{side}_misses_stlb_hit", f"{side}_misses_walk_completed")
            if counts.get(f"{side}_lookups", 0) != sum(counts.get(part, 0) for part in parts):
                found.append(f"{side} of {site}: look-ups are not hits and walks")
    return found


def laws_of_space(space: dict[str, int]) -> list[str]:
    """Return which laws a space report breaks: no figure is negative, and none is above what it is part of."""
    found = [f"{name} is {figure}" for name, figure in space.items() if figure < 0]
    for part, wholes in PARTS:
        if space.get(part, 0) > sum(space.get(whole, 0) for whole in wholes):
            found.append(f"{part} is above {' and '.join(wholes)}")
    return found


def laws_of_data(model: drive.Any, counting: drive.Any, rows: np.ndarray) -> list[str]:
    """Return which laws of data a replay of one batch breaks: what found no room was neither written nor can be read."""
    found, status, sums = [], model.status[0], counting.sums[0]
    refused, asked = np.array(model.refused, np.int64), rows["length"]
    if len(set(model.refused) & set(model.short)):
        found.append("a write is short, and refused")
    failed = int(status["failed"])
    if len(set(model.refused)) != len(refused) or (
        failed > len(refused) if model.fs in REFUSE else failed != len(refused)
    ):
        found.append(f"{failed} operations failed, which are the rows {model.refused}")
    lost = sum(int(asked[row]) for row in refused if rows["op"][row] == records.WRITE)
    short = sum(int(asked[row]) - length for row, length in model.short.items())
    if int(status["failed_bytes"]) != lost + short:
        found.append(f"failed_bytes is {int(status['failed_bytes'])}, of refused writes {lost}, of short ones {short}")
    most = int(asked[rows["op"] == records.READ].sum())
    if not 0 <= int(sums["read"]) <= most or not 0 <= int(status["failed_bytes"]) <= int(sums["written"]):
        found.append(f"of {most} bytes {int(sums['read'])} are read, of {int(sums['written'])} {lost} are lost")
    return found + laws_of_sizes(model, counting, rows)


def laws_of_sizes(model: drive.Any, counting: drive.Any, rows: np.ndarray) -> list[str]:
    """Return which files have another length for the model than for those who count what reads find."""
    if not hasattr(model.module, "by_file") or model.fs == "device-dax":  # its one file has the length of the device
        return []
    gone = np.isin(rows["op"], (records.UNLINK, records.RMDIR, records.MKDIR)) | (rows["op"] >= records.MALLOC)
    ids = {*rows["file"][gone].tolist(), *rows["file2"][rows["op"] == records.RENAME].tolist()}
    short = rows[np.array(model.refused, np.int64)]  # ext4 keeps what an fallocate got before the device was full
    ids |= set(short["file"][short["op"] == records.FALLOCATE].tolist())
    if model.fs == "famfs":  # the call that makes a file gives it its length
        ids |= set(rows["file"][(rows["op"] == records.FALLOCATE) & (rows["flag"] & records.KEEP_SIZE != 0)].tolist())
    if model.fs == "hugetlbfs":  # a writable mapping lengthens its file
        ids |= set(rows["file"][rows["op"] == records.MMAP].tolist())
    table = model.module.by_file(model.state)
    pairs = zip(table["file"].tolist(), table["file_bytes"].tolist(), strict=True)
    return [
        f"file {file} has {size} bytes, of which reads find {counting.sizes[file]}"
        for file, size in pairs
        if file not in ids and file < len(counting.sizes) and size != max(counting.sizes[file], 0)
    ]


def _figures(run: drive.Any) -> list[tuple[str, str, float]]:
    """Return every figure of a run with where it is."""
    tables = {"counters": run.counters, "stored": run.stored_bytes, "payload": run.payload}
    tables |= {"metrics": run.metrics, "errors": run.errors, **{f"sites {site}": run.sites[site] for site in run.sites}}
    found = [(kind, name, figure) for kind, table in tables.items() for name, figure in table.items()]
    return [row for row in found if isinstance(row[2], int | float)]


def judge(fs: str, source: drive.Any, params: dict) -> str:
    """Replay a trace; return how it ended, or raise AssertionError with what is wrong."""
    start = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        replay = replay_of(fs, source, {fs: params})
        model, counting = replay.model, replay.counting
        rows = next(source.batches(CHUNK))
        if NO_JIT:  # the model alone: what follows takes minutes in plain Python
            Loop(model, [counting], source.files).take(rows)
            broken, space = [], model.space()
        else:
            run = replay.run(False, None)
            broken, space = laws(run), run.space
        broken += laws_of_space(space)
        broken += laws_of_data(model, counting, Loop(model, [], source.files).failing.replace(rows))
    except ScmsimError as error:
        message = str(error)
        assert "\n" not in message and len(message) <= 400, f"an error of several lines or too long: {message!r}"
        return "refused"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    assert not broken, "; ".join(broken[:6])
    assert getrusage(RUSAGE_SELF).ru_maxrss < MEMORY, f"{getrusage(RUSAGE_SELF).ru_maxrss >> 10} MiB of memory"
    return "replayed" if time.process_time() - start < SECONDS / 2 else "slow"


def replay_of(fs: str, source: drive.Any, params: dict) -> Replay:
    """Return a replay that has not begun, without footprints."""
    return Replay(source, fs, DEFAULTS["machine"], None, DEFAULTS["medium"], params, "site", None, CHUNK)


def warm_up(fs: str) -> None:
    """Compile what replays of a model may need."""
    compile_ahead.build(fs, (), OPS)
    batch, side = compile_ahead.few_operations(OPS)
    for params in ({}, OTHERWISE, VARIED, THIRD):  # some values have kernels of their own
        replay_of(fs, drive.source(side, batch), {fs: dict(params.get(fs, {}))}).run(False, None)


def _late(_: int, frame: FrameType | None) -> None:
    at = "".join(traceback.format_stack(frame, 4)[:2])
    raise AssertionError(f"not done after {SECONDS} s\n{at}")


def main() -> int:
    """Fuzz; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--fs", default="all")
    parser.add_argument("--models", type=int)
    parser.add_argument("--trace", type=int)
    options = parser.parse_args()
    signal.signal(signal.SIGPROF, _late)
    names = [name for name in registry.select("fs", options.fs) if name in SMALL]
    if options.models:
        names = sorted(random.Random(options.seed).sample(names, options.models))
    print(f"--seed {options.seed} --fs {','.join(names)}", flush=True)
    for fs in () if NO_JIT else names:
        warm_up(fs)
    seen: Counter[tuple[str, str]] = Counter()
    end, number, failed = time.monotonic() + options.seconds, options.trace or 0, 0
    while time.monotonic() < end and failed <= 50:
        for fs in names:
            draw = random.Random(f"{options.seed}:{number}:{fs}")
            wild, params = draw.random() < 0.6, parameters(draw, fs)
            try:
                seen[fs, judge(fs, trace(draw, wild), params)] += 1
            except Exception as error:
                seen[fs, "FAILED"] += 1
                failed += 1
                where = traceback.format_exc() if not isinstance(error, AssertionError) else str(error)
                print(f"{fs}, --seed {options.seed} --trace {number}, wild {wild}, {params}: {where}", flush=True)
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
