"""Replay several models at once, on threads: their kernels run without Python's global lock.

Each model has its own state and its own iterator over the trace, so results equal those of a sequential run.  A model may take
a second CPU as soon as no other model needs it.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from scmsim.pipeline.arguments import Progress

Answer = TypeVar("Answer")
SecondCpu = Callable[[], bool]  # takes a second CPU for a model if one is free; returns whether one was
_MOST_NAMES = 3  # most names that progress lists


class _Stopped(BaseException):
    """Exception that ends a thread after another thread failed or the program was interrupted."""


class _Shared:
    """CPUs and progress of all threads, and the flag that makes threads stop."""

    def __init__(self, names: Sequence[str], jobs: int, progress: Progress | None) -> None:
        self.progress, self.running, self.done = progress, list(names), dict.fromkeys(range(len(names)), 0)
        self.jobs, self.cpus = jobs, [1] * len(names)  # CPUs that each model uses or, before it starts, waits for
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

    def second_cpu(self, k: int) -> SecondCpu:
        """Return the function by which thread `k` takes a second CPU."""

        def take() -> bool:
            with self.lock:
                free = sum(self.cpus) < self.jobs
                self.cpus[k] += free
            return free

        return take

    def ended(self, k: int, name: str) -> None:
        with self.lock:
            self.running.remove(name)
            self.cpus[k] = 0

    def _label(self) -> str:
        many = len(self.running) > _MOST_NAMES
        return f"{len(self.running)} file systems" if many else ", ".join(self.running)


def _nobody(fs: str, done: int, total: int) -> None:
    """Ignore progress."""


def at_once(
    names: Sequence[str], work: Callable[[str, Progress, SecondCpu], Answer], jobs: int, progress: Progress | None
) -> list[Answer]:
    """Call `work(name, progress, second_cpu)` for every name, at most `jobs` at once; return the answers in order.

    `second_cpu()` returns True, at most once per name, if `jobs` allows one more CPU than all unfinished names use or wait for.
    Raise the error of the first name, in the order of `names`, that failed; the other threads end at their next batch.
    """
    if min(jobs, len(names)) == 1:
        return [work(name, progress or _nobody, lambda: jobs > 1) for name in names]
    shared = _Shared(names, jobs, progress)

    def one(k: int) -> Answer:
        answer = work(names[k], shared.of(k), shared.second_cpu(k))
        shared.ended(k, names[k])
        return answer

    with ThreadPoolExecutor(min(jobs, len(names))) as pool:
        pending = [pool.submit(one, k) for k in range(len(names))]
        try:
            return [each.result() for each in pending]
        finally:
            shared.stop.set()
            for each in pending:
                each.cancel()
