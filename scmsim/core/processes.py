"""Worker processes that end with the program that started them."""

import contextlib
import ctypes
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent import futures

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG, an option of prctl


@contextlib.contextmanager
def processes(jobs: int, start: Callable[[], None] | None = None) -> Iterator[futures.Executor]:
    """Yield a pool of worker processes that call `start` first; an error or a signal in the block kills the workers at once."""
    context = multiprocessing.get_context("spawn")  # kernels may be compiling on another thread of this process
    pool = futures.ProcessPoolExecutor(jobs, context, initializer=_begin, initargs=(start,))
    try:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the parent handles Ctrl-C
        try:
            pool.submit(int)  # starts all workers, which inherit the blocked signals
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield pool
    except BaseException:
        for worker in list((pool._processes or {}).values()):
            worker.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(start: Callable[[], None] | None) -> None:
    """Make a worker die with its parent, then call `start`."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if start:
        start()
