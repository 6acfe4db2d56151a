"""Passes that repeat: they are replayed until the state of every stage has come back, and their counts are multiplied from there.

What a pass does follows from its operations and the state before it.  So once the state after a pass is that after an earlier
pass of the same operations, the passes between the two come again for ever and add the same counts each time: the result is
bit by bit that of a replay of every pass.  The state is compared whole, word by word.  Not part of it are
- counts that nothing depends on (a model names its own: `TALLIES`; they may be asked for being 0, so that is compared), and
- two clocks, which move on evenly: the time of the trace, and the cycles of the MMU, to which its busy walkers move along.
A model that does something because time has passed says until when it will not (`quiet_until`); no pass after that is left out.
Models without `TALLIES` are replayed pass by pass, as is every source without `parts`.

The way back to an earlier state is found with one saved state, replaced whenever the passes since then have doubled (R. P.
Brent, An improved Monte Carlo factorization algorithm, BIT 20, 1980).
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from scmsim.core.records import NEVER

TALLIES = ("seen", "failed", "failed_bytes", "failed_calls")  # of every model (fs.parts.emit.HEADER)
_CLOCKS = ("now", "free_at", "active_until")  # of the MMU
_MMU = 2  # its place among the stages


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


class Watch:
    """Looks at the state after each pass of one part of a trace."""

    def __init__(self, replay: Any) -> None:
        self.replay = replay
        self.most = self.age = 0  # passes after which the saved state is replaced, and those since it was saved
        self.saved: list[np.ndarray] = []
        self.counts: list[list[np.ndarray]] = []
        self.ended = 0

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

    def _stages(self) -> list[tuple[np.ndarray, tuple[str, ...]]]:
        """State of each stage, and the fields of it that count or hold a time; what changes soonest comes first."""
        r = self.replay
        return [
            (r.record, (*TALLIES, *r.fs.TALLIES)),
            (r.medium, ("stored",)),
            (r.mmu, _CLOCKS),
            (r.pages, ()),
            (r.state.arena, ()),
        ]

    def _save(self) -> None:
        self.saved = [state.copy() for state, _ in self._stages()]
        self.counts = [[state[name].copy() for name in names] for state, names in self._stages()]
        self.totals = [total.copy() for total in self._totals()]
        self.ended, self.most, self.age = self.replay.ended, 2 * self.most + 1, 0

    def _totals(self) -> list[np.ndarray]:
        """What is counted outside the stages, as rows of int64."""
        r = self.replay
        return [array.view(np.ndarray).view(np.int64) for array in (r.counters, r.sums, r.group_operations)]

    def _is_back(self) -> bool:
        """Whether every stage is as it was when it was saved."""
        for (now, names), then, counts in zip(self._stages(), self.saved, self.counts, strict=True):
            if now.shape != then.shape:
                return False
            for name, count in zip(names, counts, strict=True):
                if name not in _CLOCKS and ((now[name] == 0) != (count == 0)).any():
                    return False
                then[name] = now[name]
            if not np.array_equal(_words(now), _words(then)):
                return False
        return self._walkers_moved_along()

    def _walkers_moved_along(self) -> bool:
        """Whether the walkers' times lie as far from the clock as they did, or no page was walked to since then."""
        (now, free_at, active), mmu = self.counts[_MMU], self.replay.mmu[0]
        walkers = int(mmu["walkers"])
        moved = np.append((mmu["free_at"] - free_at[0])[:walkers], mmu["active_until"] - active[0])
        return not moved.any() or bool((moved == mmu["now"] - now[0]).all())

    def _periods(self, left: int) -> int:
        """How often the passes since the state was saved can be left out, out of `left` passes."""
        r = self.replay
        quiet = r.fs.quiet_until(r.state) if hasattr(r.fs, "quiet_until") else NEVER
        took = r.ended - self.ended
        return max(0, min(left // self.age, (quiet - 1 - r.ended) // took if took else left))

    def _advance(self, times: int) -> None:
        """Add `times` times what was counted since the state was saved."""
        for (state, names), before in zip(self._stages(), self.counts, strict=True):
            for name, old in zip(names, before, strict=True):
                state[name] += times * (state[name] - old)
        for total, old in zip(self._totals(), self.totals, strict=True):
            total += times * (total - old)
        self.replay.ended += times * (self.replay.ended - self.ended)


def _words(state: np.ndarray) -> np.ndarray:
    return state.view(np.int64 if state.dtype.itemsize % 8 == 0 else np.uint8)
