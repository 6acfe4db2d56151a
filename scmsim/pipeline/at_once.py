"""Replay several models at once, on threads: their kernels run without Python's global lock.

Each model has its own state and its own iterator over the trace, so results equal those of a sequential run.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from scmsim.pipeline.arguments import Progress

Answer = TypeVar("Answer")
_MOST_NAMES = 3  # most names that progress lists


class _Stopped(BaseException):
    """Exception that ends a thread after another thread failed or the program was interrupted."""


class _Shared:
    """Progress summed over all threads, and the flag that makes threads stop."""

    def __init__(self, names: Sequence[str], progress: Progress | None) -> None:
        self.progress, self.running, self.done = progress, list(names), dict.fromkeys(range(len(names)), 0)
        self.stop, self.lock = threading.Event(), threading.Lock()

    def of(self, k: int) -> Progress:
        """Return the progress callback of thread `k`."""

        def tell(fs: str, done: int, total: int) -> None:
            if self.stop.is_set():
                raise _Stopped
            with self.lock:
                self.done[k] = done
                if self.progress:
                    self.progress(self._label(), sum(self.done.values()), total * len(self.done))

        return tell

    def ended(self, name: str) -> None:
        with self.lock:
            self.running.remove(name)

    def _label(self) -> str:
        many = len(self.running) > _MOST_NAMES
        return f"{len(self.running)} file systems" if many else ", ".join(self.running)


def _nobody(fs: str, done: int, total: int) -> None:
    """Ignore progress."""


def at_once(
    names: Sequence[str], work: Callable[[str, Progress], Answer], jobs: int, progress: Progress | None
) -> list[Answer]:
    """Call `work(name, progress)` for every name, at most `jobs` at once; return the answers in order.

    Raise the error of the first name, in the order of `names`, that failed; the other threads end at their next batch.
    """
    if min(jobs, len(names)) == 1:
        return [work(name, progress or _nobody) for name in names]
    shared = _Shared(names, progress)

    def one(k: int) -> Answer:
        answer = work(names[k], shared.of(k))
        shared.ended(names[k])
        return answer

    with ThreadPoolExecutor(min(jobs, len(names))) as pool:
        pending = [pool.submit(one, k) for k in range(len(names))]
        try:
            return [each.result() for each in pending]
        finally:
            shared.stop.set()
            for each in pending:
                each.cancel()
