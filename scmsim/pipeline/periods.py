"""Passes that repeat: they are replayed until the state of every stage has come back, and their counts are multiplied from there.

What a pass does follows from its operations and the state before it.  So once the state after a pass is that after an earlier
pass of the same operations, the passes between the two repeat without end and add the same counts each time.  The result is
bit by bit that of a replay of every pass.  The state is compared whole, word by word.  Not part of it are
- counts that nothing depends on (a model names its own: `STATISTICS`; they may be asked for being 0, so that is compared), and
- two clocks, which move on evenly: the time of the trace, and the cycles of the MMU, to which its busy walkers move along.
A model that does something because time has passed says until when it will not (`quiet_until`), given the time of the earlier
state.  No pass after that is left out.
Models without `STATISTICS` are replayed pass by pass, as is every source without `parts`.

The way back to an earlier state is found with one saved state, replaced whenever the passes since then have doubled (R. P.
Brent, An improved Monte Carlo factorization algorithm, BIT 20, 1980).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from scmsim.core.records import NEVER

STATISTICS = ("seen", "failed", "short", "failed_bytes", "failed_calls")  # of every model (fs.engine.events.HEADER)


class Watched(NamedTuple):
    """An array of a stage: what must come back of it, and what goes on counting.

    `counts` are its fields that only count, `clocks` those that hold times; `moved` takes these as they were saved, and says
    whether they have moved on evenly.
    """

    state: np.ndarray
    counts: tuple[str, ...] = ()
    clocks: tuple[str, ...] = ()
    moved: Callable[[Mapping[str, np.ndarray]], bool] | None = None

    def fields(self) -> dict[str, np.ndarray]:
        """Its counts and clocks as they are now."""
        return {name: self.state[name].copy() for name in (*self.counts, *self.clocks)}


def parts(source: Any, chunk: int) -> Iterator[tuple[Callable[[int], Iterable[np.recarray]], int]]:
    """Yield (batches of a pass by the number of its first row, how often the pass comes) for each part of a trace.

    A source that repeats itself has `parts()`, which yields (rows of a pass, how often it comes), and `timed` (see
    `workload._stream.Stream`); any other is one part that comes once.
    """
    if hasattr(source, "parts"):
        for make, times in source.parts():
            yield partial(source.timed, make, chunk), times
    else:
        yield lambda _: source.batches(chunk), 1


class PeriodDetector:
    """Looks at the state after each pass of one part of a trace.

    Parameters
    ----------
    model : Model
        The file system.
    stages : sequence of Stage
        What its events go through.
    ended : array of one number
        Trace time of the last operation, which is one of the stages' totals.
    """

    def __init__(self, model: Any, stages: Sequence[Any], ended: np.ndarray) -> None:
        self.model, self.stages, self.ended = model, stages, ended
        self.most = self.age = 0  # passes after which the saved state is replaced, and those since it was saved
        self.saved: list[np.ndarray] = []
        self.fields: list[dict[str, np.ndarray]] = []
        self.counted: list[np.ndarray] = []
        self.then = 0  # trace time at which it was saved, ns

    def skip(self, left: int) -> int:
        """How many of the `left` passes need no replay; counts and clocks have been moved on by them."""
        self.age += 1
        if self.saved and self._is_back():
            skipped = self._periods(left)
            self._advance(skipped)
            self.saved, self.most = [], 0
            return skipped * self.age
        if self.age > self.most:
            self._save()
        return 0

    def _watched(self) -> list[Watched]:
        """State of the model and of each stage; what changes soonest comes first."""
        model = self.model
        stages = [watched for stage in reversed(self.stages) for watched in stage.watched()]
        return [Watched(model.status, (*STATISTICS, *model.module.STATISTICS)), *stages, Watched(model.state.arena)]

    def _save(self) -> None:
        self.saved = [watched.state.copy() for watched in self._watched()]
        self.fields = [watched.fields() for watched in self._watched()]
        self.counted = [total.copy() for total in self._totals()]
        self.then, self.most, self.age = int(self.ended[0]), 2 * self.most + 1, 0

    def _totals(self) -> list[np.ndarray]:
        """What the stages count, as rows of int64."""
        return [total.view(np.int64) for stage in self.stages for total in stage.totals()]

    def _is_back(self) -> bool:
        """Whether every stage is as it was when it was saved."""
        for (state, counts, clocks, moved), then, fields in zip(self._watched(), self.saved, self.fields, strict=True):
            if state.shape != then.shape:
                return False
            if any(((state[name] == 0) != (fields[name] == 0)).any() for name in counts):
                return False
            for name in (*counts, *clocks):
                then[name] = state[name]
            if not np.array_equal(_words(state), _words(then)) or (moved and not moved(fields)):
                return False
        return True

    def _periods(self, left: int) -> int:
        """How often the passes since the state was saved can be left out, out of `left` passes."""
        module = self.model.module
        quiet = module.quiet_until(self.model.state, self.then) if hasattr(module, "quiet_until") else NEVER
        ended = int(self.ended[0])
        took = ended - self.then
        return max(0, min(left // self.age, (quiet - 1 - ended) // took if took else left))

    def _advance(self, times: int) -> None:
        """Add `times` times what was counted since the state was saved."""
        for watched, before in zip(self._watched(), self.fields, strict=True):
            for name, old in before.items():
                watched.state[name] += times * (watched.state[name] - old)
        for total, old in zip(self._totals(), self.counted, strict=True):
            total += times * (total - old)


def _words(state: np.ndarray) -> np.ndarray:
    return state.view(np.int64 if state.dtype.itemsize % 8 == 0 else np.uint8)
