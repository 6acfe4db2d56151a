"""Choose offsets for calls of which only counters are known: how many ascend, and how many continue the previous call.

A run is a series of calls, each of which starts where the previous one ended.  A pass is a series of runs at ascending
offsets; the next pass begins at or below the end of the previous one.  So the numbers of consecutive and of ascending calls
equal the counters, if the file is large enough.  Which bytes a call touches is an assumption: if the file is larger than all
calls together, no byte is touched twice; else a run may start anywhere.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Order(NamedTuple):
    """Counters of a file: calls that begin at or after the end of the previous call, calls that begin exactly there, furthest end.

    The first call counts as if a call before it had ended at byte 0, as in Darshan.  A counter that was not recorded is -1.
    """

    ascending: int = -1
    consecutive: int = -1
    end: int = -1


def offsets(lengths: np.ndarray, order: Order, seed: int) -> np.ndarray:
    """Return the offsets of calls of these lengths as an int64 array; equal arguments give equal offsets."""
    count, total = len(lengths), int(lengths.sum())
    if not count:
        return np.empty(0, np.int64)
    end = max(order.end, int(lengths.max()))
    if not 0 <= order.consecutive <= order.ascending <= count:
        return _wrapped(lengths, end if order.end >= 0 else total)
    plan = _plan(count, order, fits=total <= end)
    runs = _Runs(lengths, plan, end)
    starts = runs.apart(seed) if plan.apart else runs.anywhere(seed)
    inside = np.cumsum(lengths) - lengths
    return np.clip(starts[runs.of] + inside - inside[runs.first][runs.of], 0, end - lengths)


def _wrapped(lengths: np.ndarray, end: int) -> np.ndarray:
    """Return the offsets of calls that follow each other without gaps, and restart at byte 0 at the end of the file."""
    return np.minimum((np.cumsum(lengths) - lengths) % max(end, 1), end - lengths)


class _Plan(NamedTuple):
    """Numbers of passes, jumps ahead and consecutive calls; whether no byte is touched twice; whether the first pass is at 0."""

    passes: int
    jumps: int
    consecutive: int
    apart: bool
    from_zero: bool


def _plan(count: int, order: Order, *, fits: bool) -> _Plan:
    """Return a plan with as many ascending and consecutive calls as were counted."""
    back = count - order.ascending
    jumps = order.ascending - order.consecutive
    if fits and jumps < back and jumps:  # more jumps back than ahead: the passes descend, and the first starts above 0
        return _Plan(back + 1, jumps - 1, order.consecutive, True, False)
    if not back:
        return _Plan(1, max(jumps - 1, 0), min(order.consecutive, count - 1), True, jumps == 0)
    return _Plan(back, jumps, order.consecutive, fits and (jumps > 0 or back == 1), True)


@dataclass
class _Runs:
    """The runs of a plan: for each call its run (`of`), for each run its first call and its bytes."""

    lengths: np.ndarray
    plan: _Plan
    end: int

    def __post_init__(self) -> None:
        plan, count = self.plan, self.plan.passes + self.plan.jumps
        whole = int(not plan.apart and plan.passes > 1)  # the first pass covers the file, so it cannot jump
        each, more = divmod(plan.jumps, plan.passes - whole)
        runs_of_pass = 1 + each + (np.arange(plan.passes) < more + whole)
        runs_of_pass[:whole] = 1
        self.pass_of = np.repeat(np.arange(plan.passes), runs_of_pass)
        self.opens = np.concatenate(([0], np.cumsum(runs_of_pass)[:-1]))  # first run of each pass
        calls = 1 + self._consecutive(count)
        self.first = np.concatenate(([0], np.cumsum(calls)[:-1]))
        self.of = np.repeat(np.arange(count), calls)
        self.bytes = np.add.reduceat(self.lengths, self.first)
        sizes = self.lengths[self.lengths > 0]
        self.unit = int(np.gcd.reduce(sizes)) if len(sizes) else 1

    def _consecutive(self, count: int) -> np.ndarray:
        """Return the number of consecutive calls of each run; where bytes are touched twice, the first run fills the file."""
        left, first = self.plan.consecutive, 0
        if not self.plan.apart:
            first = min(left, max(int(np.searchsorted(np.cumsum(self.lengths), self.end, side="right")) - 1, 0))
        each, more = divmod(left - first, count)
        if first and count > 1:
            each, more = divmod(left - first, count - 1)
            return np.concatenate(([first], each + (np.arange(count - 1) < more)))
        return each + (np.arange(count) < more) + first

    def apart(self, seed: int) -> np.ndarray:
        """Return the start offsets of runs that touch no byte twice; the first run of each pass is below all other runs."""
        random, plan, count = np.random.default_rng(seed), self.plan, len(self.bytes)
        descends = plan.jumps < plan.passes - 1 or not plan.from_zero
        below = (
            np.arange(plan.passes)[::-1] if descends else np.concatenate(([0], 1 + random.permutation(plan.passes - 1)))
        )
        is_first = np.zeros(count, bool)
        is_first[self.opens] = True
        above = np.flatnonzero(~is_first)
        drawn = random.permutation(len(above))
        place = np.empty(count, np.int64)  # rank of the run along the file
        place[self.opens] = below
        # the runs of a pass ascend
        place[above] = plan.passes + drawn[np.lexsort((drawn, self.pass_of[above]))]
        along = np.argsort(place)
        gaps = self._gaps(count)
        ends = np.cumsum(self.bytes[along] + gaps)
        starts = np.empty(count, np.int64)
        starts[along] = ends - self.bytes[along]
        return starts

    def _gaps(self, count: int) -> np.ndarray:
        """Return the free bytes before each run, in file order; runs and free bytes together fill the file."""
        free = self.end - int(self.bytes.sum())
        before = np.arange(count) >= self.plan.from_zero  # a first pass that starts at byte 0 has no gap before it
        places = max(int(before.sum()), 1)
        each = free // places // self.unit * self.unit or free // places
        gaps = np.where(before, each, 0)
        gaps[-1] += free - int(gaps.sum()) if before[-1] else 0
        return gaps

    def anywhere(self, seed: int) -> np.ndarray:
        """Return the start offsets of runs whose passes overlap; each pass begins anywhere that the counters allow."""
        random = np.random.default_rng(seed)
        total = np.add.reduceat(self.bytes, self.opens)
        slack = np.clip(self.end - total, 0, None)
        jumps = np.diff(np.append(self.opens, len(self.bytes))) - 1
        share = slack[self.pass_of] // (1 + jumps[self.pass_of])
        gaps = self._rounded(random.integers(0, share + 1))
        lowest = np.where(share >= self.unit, self.unit, np.minimum(share, 1))
        is_first = np.zeros(len(gaps), bool)
        is_first[self.opens] = True
        gaps = np.where(is_first, gaps, np.maximum(gaps, lowest))
        inside = np.add.reduceat(np.where(is_first, 0, gaps), self.opens) + total
        gaps[0] = 0
        # begin at or below the last byte of the previous pass
        bound = np.maximum(inside[:-1] - 1, 0)
        gaps[self.opens[1:]] = self._rounded(np.minimum(gaps[self.opens[1:]], bound))
        widest = int(np.argmax(jumps))
        if jumps[widest]:
            last = self.opens[widest] + jumps[widest]
            reach = int(gaps[self.opens[widest]] + inside[widest])
            gaps[last] += self.end - reach
        starts = np.cumsum(gaps + self.bytes) - self.bytes
        begin = starts[self.opens] - gaps[self.opens]
        return starts - begin[self.pass_of]

    def _rounded(self, gaps: np.ndarray) -> np.ndarray:
        return gaps // self.unit * self.unit
