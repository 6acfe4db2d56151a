"""Skip repeating passes: replay until the state of every stage recurs, then multiply the counts.

The operations of a pass and the state before the pass determine what it does.  So once the state after a pass equals the state
after an earlier pass of the same operations, the passes between the two states repeat forever and add the same counts each time.
The result equals that of a replay of every pass bit for bit.  The whole state is compared, except for
- counts that nothing depends on (a model lists its own in `STATISTICS`; only whether each is 0 is compared),
- two clocks that advance evenly: the time of the trace, and the MMU's cycles, with which the times of its busy walkers move, and
- the versions of the MMU's sets, which only save look-ups.
A model that acts on the passing of time reports until when it stays quiet (`quiet_until`), given the time of the earlier
state.  No pass after that time is skipped.
Models without `STATISTICS` are replayed pass by pass, as is every source without `parts`.

A recurring state is detected with one saved state, replaced whenever the number of passes since then has doubled (R. P.
Brent, An improved Monte Carlo factorization algorithm, BIT 20, 1980).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from scmsim.core.records import NEVER

STATISTICS = ("seen", "failed", "short", "failed_bytes", "failed_calls")  # of every model (fs.engine.events.HEADER)


class Watched(NamedTuple):
    """A state array of a stage, with the names of the fields that need not recur.

    `counts` are fields that only count, `clocks` fields that hold times, `hints` fields that save work but change no result.
    `moved` takes the saved counts and clocks and returns whether the clocks have advanced evenly since then.
    """

    state: np.ndarray
    counts: tuple[str, ...] = ()
    clocks: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    moved: Callable[[Mapping[str, np.ndarray]], bool] | None = None

    def fields(self) -> dict[str, np.ndarray]:
        """Return a copy of the counts and clocks."""
        return {name: self.state[name].copy() for name in (*self.counts, *self.clocks)}


def parts(source: Any, chunk: int) -> Iterator[tuple[Callable[[int], Iterable[np.recarray]], int]]:
    """Yield (function that returns a pass's batches, given its first row number; number of passes) per part of a trace.

    A source that repeats has `parts()`, which yields (rows of a pass, number of passes), and `timed` (see
    `workload._stream.Stream`); any other source is one part with one pass.
    """
    if hasattr(source, "parts"):
        for make, times in source.parts():
            yield partial(source.timed, make, chunk), times
    else:
        yield lambda _: source.batches(chunk), 1


class PeriodDetector:
    """Detector of a state that recurs between the passes over one repeated part of a trace.

    `stages` are those that the model's events pass through; `ended` has the trace time of the last operation, one of their totals.
    """

    def __init__(self, model: Any, stages: Sequence[Any], ended: np.ndarray) -> None:
        self.model, self.stages, self.ended = model, stages, ended
        self.most = self.age = 0  # passes after which to replace the saved state, and passes since it was saved
        self.saved: list[np.ndarray] = []
        self.fields: list[dict[str, np.ndarray]] = []
        self.counted: list[np.ndarray] = []
        self.then = 0  # trace time of the saved state, ns

    def skip(self, left: int) -> int:
        """Advance counts and clocks by the passes that can be skipped, of `left` passes; return the number of these passes."""
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
        """Return the state of the model and of each stage, the fastest-changing first."""
        model = self.model
        stages = [watched for stage in reversed(self.stages) for watched in stage.watched()]
        return [Watched(model.status, (*STATISTICS, *model.module.STATISTICS)), *stages, Watched(model.state.arena)]

    def _save(self) -> None:
        self.saved = [watched.state.copy() for watched in self._watched()]
        self.fields = [watched.fields() for watched in self._watched()]
        self.counted = [total.copy() for total in self._totals()]
        self.then, self.most, self.age = int(self.ended[0]), 2 * self.most + 1, 0

    def _totals(self) -> list[np.ndarray]:
        """Return the counts of the stages, as rows of int64."""
        return [total.view(np.int64) for stage in self.stages for total in stage.totals()]

    def _is_back(self) -> bool:
        """Return whether every stage's state equals the saved state."""
        for (state, counts, clocks, hints, moved), then, fields in zip(
            self._watched(), self.saved, self.fields, strict=True
        ):
            if state.shape != then.shape:
                return False
            if any(((state[name] == 0) != (fields[name] == 0)).any() for name in counts):
                return False
            for name in (*counts, *clocks, *hints):
                then[name] = state[name]
            if not np.array_equal(_words(state), _words(then)) or (moved and not moved(fields)):
                return False
        return True

    def _periods(self, left: int) -> int:
        """Return how many periods, of `age` passes each, can be skipped out of `left` passes."""
        module = self.model.module
        quiet = module.quiet_until(self.model.state, self.then) if hasattr(module, "quiet_until") else NEVER
        ended = int(self.ended[0])
        took = ended - self.then
        return max(0, min(left // self.age, (quiet - 1 - ended) // took if took else left))

    def _advance(self, times: int) -> None:
        """Add `times` times the counts since the state was saved."""
        for watched, before in zip(self._watched(), self.fields, strict=True):
            for name, old in before.items():
                watched.state[name] += times * (watched.state[name] - old)
        for total, old in zip(self._totals(), self.counted, strict=True):
            total += times * (total - old)


def _words(state: np.ndarray) -> np.ndarray:
    return state.view(np.int64 if state.dtype.itemsize % 8 == 0 else np.uint8)
