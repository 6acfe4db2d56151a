"""Where the time of a replay goes, stage by stage, for any model and trace.

Run: python -m tests.bench.profile [FS ...] [--trace FILE]      or: make profile FS="nova-cow ext4" TRACE=FILE
Without a trace: appends of 4 KiB to a file that begins anew after 64 MiB, and the mix of `tests.bench.mix`.  Each figure is the
least CPU time of --runs runs, kernels compiled before.  `footprints` is finding and placing those of each call; the MMU looks
their touches up.  `start and end` is what a replay takes besides its stages.  --footprints none leaves footprints out.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import scmsim
from scmsim import pipeline
from scmsim.core.records import CREATE, OP, SETUP, WRITE, Files, Source
from scmsim.pipeline.footprints import FootprintStage
from scmsim.pipeline.kernels import choose
from scmsim.pipeline.run import Replay
from scmsim.pipeline.stages import Stage
from tests.bench.mix import UNIT, Mix

_WRAP = 64 << 20  # bytes of the file that appends go to


class Appends(Mix):
    """A trace of appends, where `Mix` has several kinds of calls."""

    def __init__(self, calls: int) -> None:
        ops = np.zeros(1 + calls, OP).view(np.recarray)
        ops.op, ops.file, ops.file2 = WRITE, 1, -1
        ops.op[0], ops.file2[0], ops.flag[0] = CREATE, 0, SETUP
        ops.offset[1:], ops.length[1:] = UNIT * np.arange(calls) % _WRAP, UNIT
        ops.time_ns = 1000 * np.arange(len(ops))
        self._ops, self.rows, self.header = ops, len(ops), {"tool": "bench"}
        self.files = Files(["/bench", "/bench/file"], np.array([0, -1]), np.array([True, False]))


def stages(source: Source, fs: str, footprints: str | None) -> tuple[dict[str, float], int]:
    """Seconds of each stage of a replay, without those that it calls itself, and the number of events."""
    took: dict[str, float] = defaultdict(float)
    began, events, called = time.process_time(), 0, 0.0

    def timed(name: str, action: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            nonlocal called
            start, before, called = time.process_time(), called, 0.0
            result = action(*args)
            whole = time.process_time() - start
            took[name] += whole - called
            called = before + whole
            return result

        return call

    def watch(stage: Stage, name: str, *actions: str) -> None:
        for action in actions:
            setattr(stage, action, timed(name, getattr(stage, action)))

    chosen = choose(None, [fs], {}, footprints)
    replay = Replay(
        source,
        fs,
        pipeline.DEFAULTS["machine"],
        None,
        pipeline.DEFAULTS["medium"],
        {},
        "site",
        chosen.footprints,
        pipeline.CHUNK,
    )
    emit = replay.model.events

    def emitted(batch: np.recarray) -> Iterator[np.ndarray]:
        nonlocal events
        found = emit(batch)
        ask = timed("emission", lambda: next(found, None))
        while (part := ask()) is not None:
            events += len(part)
            yield part

    replay.model.events = emitted  # type: ignore[method-assign]
    for stage in replay.loop.stages:
        if isinstance(stage, FootprintStage):
            watch(stage.mmu, "mmu", "count")
            watch(stage, "footprints", "begin", "take", "end")
        else:
            watch(stage, type(stage).__name__.lower(), "begin", "take")
    replay.run(False, None)
    whole = time.process_time() - began
    took["start and end"] = whole - sum(took.values())
    return took, events


def least(runs: int, source: Source, fs: str, footprints: str | None) -> tuple[dict[str, float], int]:
    """As `stages`, of each stage the least of some runs."""
    found = [stages(source, fs, footprints) for _ in range(runs)]
    return {name: min(took[name] for took, _ in found) for name in found[0][0]}, found[0][1]


def main() -> None:
    """Print a table for each model and trace."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fs", nargs="*", default=["nova-cow"], help="file systems")
    parser.add_argument("--trace", help="a stored trace (scmsim trace convert makes one)")
    parser.add_argument("--calls", type=int, default=300_000, help="calls of the traces that are made here")
    parser.add_argument("--footprints", help="as of a replay")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    if options.trace:
        from scmsim.trace import open_trace

        sources: dict[str, Source] = {options.trace: open_trace(options.trace)}
    else:
        sources = {"4 KiB appends": Appends(options.calls), "4 KiB mix": Mix(options.calls)}
    for fs in options.fs:
        for name, source in sources.items():
            scmsim.replay(source, fs, footprints=options.footprints)  # compiles, or loads what is compiled
            took, events = least(options.runs, source, fs, options.footprints)
            whole, rows = sum(took.values()), source.rows
            print(f"{fs}, {name}: {rows:,} operations, {events / rows:.1f} events each, {rows / whole / 1e6:.2f} M/s")
            for stage, seconds in took.items():
                share, each = 100 * seconds / whole, 1e9 * seconds / rows
                print(f"  {stage:<16}{share:>5.1f} %{each:>9.1f} ns/operation{1e9 * seconds / events:>8.2f} ns/event")


if __name__ == "__main__":
    main()
