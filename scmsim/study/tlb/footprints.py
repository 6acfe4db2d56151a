"""Footprints from streams of the lab: the first touches of each call, beside what the model says that the call did.

Of every window of a call's page runs each page counts once, loads and stores apart, in the order of first touches.  That keeps
first-level misses within 7 % on TLBs of 64 entries and within 15 % on one of 16 (docs/validation-tlb.md).  Calls that the model
sees alike (kind and mechanisms) are put in order of their instructions; a few at even distances stand for all, each the one of
median length among its neighbours.
"""

import functools
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from scmsim import footprint
from scmsim.core.errors import UsageError
from scmsim.core.records import OPS, SETUP, WORK, Source
from scmsim.footprint.interleave import ENTRY, TOUCH
from scmsim.fs.engine.model import Model
from scmsim.lab import regions
from scmsim.lab.stream import SUFFIX, Kept
from scmsim.pipeline.arguments import Progress, model_params, opened
from scmsim.pipeline.stages import Loop, Stage

WINDOW = 1000  # page runs
MOST = 6  # calls that stand for all of one kind and set of mechanisms
NEIGHBOURS = 5  # calls of which the one of median length is taken


class Call(NamedTuple):
    """A call as the model sees it: its kind, mechanisms (a bit each) and instructions (thousandths)."""

    kind: int
    sites: int
    instructions: int


def make(
    trace: str, folder: str | os.PathLike[str], names: Sequence[str], out: str | os.PathLike[str], progress: Progress
) -> list[pathlib.Path]:
    """Write the footprints of file systems from the streams in a folder of `scmsim lab tlb TRACE`; returns the files.

    Raises
    ------
    UsageError
        For a folder without a stream, or with streams of another trace.
    """
    source, _ = opened(trace)
    target = pathlib.Path(out)
    target.mkdir(parents=True, exist_ok=True)
    made = []
    for name in names:
        kept = Kept(pathlib.Path(folder) / f"{name}-1{SUFFIX}")
        model = Model(name, model_params("fs", name, {}), source.files)
        pairs = _paired(kept.kinds(), calls_of(model, source), trace)
        lists = _touches(kept, functools.partial(progress, name))
        entries, touches = _chosen([(call, lists[at]) for at, call in pairs if at in lists])
        made.append(target / f"{name}.npz")
        about = {"fs": name, "kernel": kept.header["kernel"], "sites": model.sites, "trace": source.header}
        footprint.write(made[-1], entries, touches, about)
    return made


def calls_of(model: Model, source: Source) -> list[Call]:
    """The calls of a trace in order, preparation left out."""
    seen = _Calls()
    loop = Loop(model, [seen], source.files)
    for batch in source.batches():
        loop.take(batch)
        seen.end()
    return seen.calls


class _Calls(Stage):
    """Gathers what the events of each operation say."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def begin(self, batch: np.recarray) -> None:
        self.kinds, self.counted = batch.op.copy(), (batch.flag & SETUP) == 0
        self.sites, self.instructions = np.zeros(len(batch), np.int64), np.zeros(len(batch), np.int64)

    def take(self, events: np.ndarray) -> None:
        np.bitwise_or.at(self.sites, events["op"], np.left_shift(1, events["site"].astype(np.int64)))
        work = events[events["code"] == WORK]
        np.add.at(self.instructions, work["op"], work["addr"])

    def end(self) -> None:
        """The batch is over."""
        columns = (column[self.counted].tolist() for column in (self.kinds, self.sites, self.instructions))
        self.calls += [Call(*row) for row in zip(*columns, strict=True)]


def _paired(kinds: list[str], calls: list[Call], trace: str) -> Iterator[tuple[int, Call]]:
    """(Number of a measured call, the call as the model sees it); the lab reads a directory in several calls: the first counts."""
    at = 0
    for number, kind in enumerate(kinds):
        while at < len(calls) and OPS[calls[at].kind] != kind:
            if number and kind == kinds[number - 1]:
                break
            at += 1
        else:
            if at == len(calls):
                raise UsageError(
                    f"the stream is not of {trace!r}: its call {number} is {kind}; name the trace it was made of"
                )
            yield number, calls[at]
            at += 1


def _touches(kept: Kept, progress: Callable[[int, int], None]) -> dict[int, np.ndarray]:
    """First touches of the kernel's own memory in each window of each call, as arrays of TOUCH by the call's number."""
    parts: dict[int, list[np.ndarray]] = {}
    last, before, done = -1, 0, 0  # the call that goes on in the next batch, and its runs so far
    for runs in kept.batches():
        first = np.flatnonzero(np.diff(runs.call, prepend=-2))
        place = np.arange(len(runs.call)) - np.repeat(first, np.diff(np.append(first, len(runs.call))))
        place += np.where(runs.call == last, before, 0)
        if len(place):
            last, before = int(runs.call[-1]), int(place[-1]) + 1
        touch = np.zeros(len(place), TOUCH)
        shift = runs.order.astype(np.uint64)
        touch["vaddr"] = (runs.page >> shift << shift).view(np.int64)
        touch["order"], touch["stores"] = runs.order, runs.store
        key = np.lexsort((np.arange(len(place)), touch["stores"], touch["vaddr"], place // WINDOW, runs.call))
        columns = (runs.call[key], place[key] // WINDOW, touch["vaddr"][key], touch["stores"][key])
        fresh = (
            np.any([np.diff(column, prepend=column[:1] - 1) != 0 for column in columns], axis=0)
            if len(key)
            else key > 0
        )
        keep = np.sort(key[fresh])
        keep = keep[~np.isin(runs.region[keep], (regions.PROGRAM, regions.PERSISTENT)) & (runs.call[keep] >= 0)]
        for call in np.unique(runs.call[keep]):
            parts.setdefault(int(call), []).append(touch[keep[runs.call[keep] == call]])
        done += len(place)
        progress(done, kept.runs)
    return {call: np.concatenate(found) for call, found in parts.items()}


def _chosen(measured: list[tuple[Call, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """The calls that stand for all, as arrays of ENTRY and TOUCH."""
    alike: dict[tuple[int, int], list[tuple[Call, np.ndarray]]] = {}
    for call, touches in measured:
        alike.setdefault((call.kind, call.sites), []).append((call, touches))
    rows, lists, start = [], [], 0
    for group in map(alike.__getitem__, sorted(alike)):
        group.sort(key=lambda pair: pair[0].instructions)
        for at in sorted({int(len(group) * (2 * k + 1) / (2 * MOST)) for k in range(MOST)}):
            low = max(0, min(at - NEIGHBOURS // 2, len(group) - NEIGHBOURS))
            near = sorted(group[low : low + NEIGHBOURS], key=lambda pair: len(pair[1]))
            call, touches = group[at][0], near[len(near) // 2][1]
            rows.append((*call, start, len(touches)))
            lists.append(touches)
            start += len(touches)
    return np.array(rows, ENTRY), np.concatenate(lists)
