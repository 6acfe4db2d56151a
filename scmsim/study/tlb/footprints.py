"""Footprints from what the lab saw calls touch, beside what the model says that the calls did.

Calls that the model sees alike (kind and mechanisms) are put in order of their instructions.  A few at even distances stand for
all, each the one of median length among its neighbours.
"""

import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from scmsim import footprint
from scmsim.core.errors import UsageError
from scmsim.core.records import OPS, SETUP, WORK, Source
from scmsim.footprint.interleave import ENTRY, TOUCH
from scmsim.fs.engine.model import Model
from scmsim.lab import touches
from scmsim.lab.regions import PERSISTENT, PROGRAM, REGIONS
from scmsim.pipeline.arguments import Progress, model_params, open_source
from scmsim.pipeline.stages import Loop, Stage

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
    """Write the footprints of file systems from a folder of `scmsim lab touches TRACE`; returns the files.

    Raises
    ------
    UsageError
        For a folder without touches, or with those of another trace.
    """
    source, _ = open_source(trace)
    target = pathlib.Path(out)
    target.mkdir(parents=True, exist_ok=True)
    made = []
    for number, name in enumerate(names):
        progress(name, number, len(names))
        header, table = touches.load(pathlib.Path(folder) / f"{name}-1{touches.SUFFIX}")
        model = Model(name, model_params("fs", name, {}), source.files)
        lists, kinds = _touches(table), _kinds(table)
        pairs = _paired(kinds, calls_of(model, source), trace)
        entries, chosen = _chosen([(call, lists[at]) for at, call in pairs if at in lists])
        made.append(target / f"{name}.npz")
        about = {"fs": name, "kernel": header["kernel"], "sites": model.sites, "trace": source.header}
        footprint.write(made[-1], entries, chosen, about)
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


def _kinds(table: Any) -> list[str]:
    """The kind of each measured call, by its number; empty for one without touches."""
    call = table.column("call").to_numpy()
    at, first = np.unique(call[call >= 0], return_index=True)
    names = table.column("kind").to_pylist()
    found = [""] * (int(at[-1]) + 1 if len(at) else 0)
    offset = int((call < 0).sum())
    for number, row in zip(at.tolist(), first.tolist(), strict=True):
        found[number] = names[offset + row]
    return found


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
                    f"the touches are not of {trace!r}: its call {number} is {kind}; name the trace they were made of"
                )
            yield number, calls[at]
            at += 1


def _touches(table: Any) -> dict[int, np.ndarray]:
    """Touches of the kernel's own memory in each call, as arrays of TOUCH by the call's number."""
    call, address, order, store = (table.column(name).to_numpy() for name in ("call", "address", "order", "store"))
    region = np.array(table.column("region").to_pylist())
    touch = np.zeros(len(call), TOUCH)
    shift = order.astype(np.uint64)
    touch["vaddr"] = (address >> shift << shift).view(np.int64)
    touch["order"], touch["stores"] = order, store
    own = np.flatnonzero((region != REGIONS[PROGRAM]) & (region != REGIONS[PERSISTENT]) & (call >= 0))
    starts = np.flatnonzero(np.diff(call[own], prepend=-1))
    return {int(call[part[0]]): touch[part] for part in np.split(own, starts[1:]) if len(part)}


def _chosen(measured: list[tuple[Call, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """The calls that stand for all, as arrays of ENTRY and TOUCH."""
    alike: dict[tuple[int, int], list[tuple[Call, np.ndarray]]] = {}
    for call, touched in measured:
        alike.setdefault((call.kind, call.sites), []).append((call, touched))
    rows, lists, start = [], [], 0
    for group in map(alike.__getitem__, sorted(alike)):
        group.sort(key=lambda pair: pair[0].instructions)
        for at in sorted({int(len(group) * (2 * k + 1) / (2 * MOST)) for k in range(MOST)}):
            low = max(0, min(at - NEIGHBOURS // 2, len(group) - NEIGHBOURS))
            l1 = sorted(group[low : low + NEIGHBOURS], key=lambda pair: len(pair[1]))
            call, touched = group[at][0], l1[len(l1) // 2][1]
            rows.append((*call, start, len(touched)))
            lists.append(touched)
            start += len(touched)
    return np.array(rows, ENTRY), np.concatenate(lists)
