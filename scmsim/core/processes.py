"""Worker processes that end with the program that started them."""

import contextlib
import ctypes
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent import futures

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


@contextlib.contextmanager
def processes(jobs: int, start: Callable[[], None] | None = None) -> Iterator[futures.Executor]:
    """Worker processes that call `start` first, and end at once if the block is left by an error or a signal."""
    context = multiprocessing.get_context("spawn")  # kernels may be compiling on another thread of this process
    pool = futures.ProcessPoolExecutor(jobs, context, initializer=_begin, initargs=(start,))
    try:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Ctrl-C is the parent's to handle
        try:
            pool.submit(int)  # starts all of them, which inherit what is blocked
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
    """A worker must not go on after its parent was killed."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if start:
        start()
