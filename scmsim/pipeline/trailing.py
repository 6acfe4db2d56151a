"""Run stages whose results no other stage needs on a separate thread, some buffers of events later than the model.

Kernels run without Python's global lock, so a replay of one model uses two CPUs.  Each stage receives the same calls in the same
order as on one thread, and no two stages share what they change, so results are equal.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue

import numpy as np

from scmsim.pipeline.at_once import SecondCpu
from scmsim.pipeline.periods import Watched
from scmsim.pipeline.stages import EVENTS_PER_OPERATION, Loop, Stage

# Operations of a batch on two threads, so that the events on their way from one CPU to the other fit in its caches: with 1 << 16,
# nova-cow on two CPUs was 1.3 times as fast as on one, with 1 << 14 1.5 to 1.7 times.
CHUNK = 1 << 14
# Buffers of events that wait or are being processed, besides the one that the model fills; with 2, a CPU waits between batches.
_BUFFERS = 4
_Buffers = tuple[np.ndarray, np.ndarray]  # events of the model, and rows of the counters


class Trailing(Stage):
    """Stages that run on a separate thread; `close` ends the thread."""

    def __init__(self, loop: Loop, stages: Sequence[Stage]) -> None:
        self.loop, self.stages = loop, stages
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._free: SimpleQueue[_Buffers] = SimpleQueue()
        self._error: BaseException | None = None
        room = min(len(loop.model.out), EVENTS_PER_OPERATION * CHUNK)
        for _ in range(_BUFFERS):
            self._free.put((loop.model.buffer(room), np.zeros(room, np.int64)))
        loop.model.out, loop.bins = loop.model.buffer(room), np.zeros(room, np.int64)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def _each(self, name: str, *arguments: np.ndarray) -> None:
        """Call a method of each stage, unless a stage has failed before."""
        try:
            for stage in self.stages if self._error is None else ():
                getattr(stage, name)(*arguments)
        except BaseException as error:
            self._error = error

    def begin(self, batch: np.recarray) -> None:
        self._calls.put(partial(self._each, "begin", batch.copy()))

    def take(self, events: np.ndarray, bins: np.ndarray) -> None:
        """Pass the model's buffers to the thread and give the model other buffers; raise the error of a stage that has failed."""
        self._calls.put(partial(self._take, events, bins, (self.loop.model.out, self.loop.bins)))
        self.loop.model.out, self.loop.bins = self._free.get()
        if self._error is not None:
            raise self._error

    def _take(self, events: np.ndarray, bins: np.ndarray, buffers: _Buffers) -> None:
        self._each("take", events, bins)
        self._free.put(buffers)

    def done(self, batch: np.recarray) -> None:
        self._calls.put(partial(self._each, "done", batch.copy()))

    def end(self) -> None:
        self._calls.put(partial(self._each, "end"))

    def settle(self) -> None:
        """Wait until the stages have processed everything that they received; raise the error of a stage that has failed."""
        settled = threading.Event()
        self._calls.put(settled.set)
        settled.wait()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the thread; drop the work that is left."""
        self._error = self._error or EOFError()
        self._calls.put(None)
        self._thread.join()

    def watched(self) -> list[Watched]:
        return [watched for stage in self.stages for watched in stage.watched()]

    def totals(self) -> list[np.ndarray]:
        return [total for stage in self.stages for total in stage.totals()]


@contextmanager
def trailing(loop: Loop, second_cpu: SecondCpu) -> Iterator[Callable[[np.recarray], None]]:
    """Yield a function that replays a batch as `loop.take` does.

    It calls `second_cpu` before each batch.  From the first True until the end of the block, the loop's stages that set `trails`
    run on a separate thread.
    """
    stages, late = loop.stages, None

    def take(batch: np.recarray) -> None:
        nonlocal late
        if late is None and second_cpu():
            late = Trailing(loop, [stage for stage in stages if stage.trails])
            loop.stages = [*(stage for stage in stages if not stage.trails), late]
        if late is None:
            loop.take(batch)
        else:
            for at in range(0, len(batch), CHUNK):
                loop.take(batch[at : at + CHUNK].view(np.recarray))

    try:
        yield take
        loop.settle()
    finally:
        if late:
            late.close()
        loop.stages = stages
