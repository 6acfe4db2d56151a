"""Compute points in threads of this process, in processes, or in the workers of a Dask cluster, with the same results.

Each executor yields (key, row or None, error or None) as points finish.  When a worker dies, its points go to other
workers; a point whose workers died `TRIES` times counts as failed.
"""

import contextlib
import threading
from collections.abc import Iterator
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from scmsim.core.errors import EnvironmentProblem, ScmsimError, unknown
from scmsim.core.extras import install
from scmsim.core.processes import processes
from scmsim.sweep.point import Settings, evaluate

Outcome = tuple[str, dict[str, Any] | None, str | None]
TRIES = 3
EXECUTORS = ("threads", "processes", "dask")
_AHEAD = 2  # number of points that are submitted per worker


def run(
    name: str, points: list[tuple[str, Settings]], jobs: int, scheduler: str | None, stop: threading.Event
) -> Iterator[Outcome]:
    """Compute points; once `stop` is set, begin no more points."""
    if name not in EXECUTORS:
        raise unknown("executor", name, EXECUTORS)
    if name == "dask":
        yield from _dask(points, jobs, scheduler)
    elif name == "threads":
        with _threads(jobs) as pool:
            yield from _pooled(pool, dict(points), _AHEAD * jobs, stop)
    else:
        yield from _processes(points, jobs, stop)


def outcome(key: str, settings: Settings) -> Outcome:
    """Return (key, row, None), or (key, None, error) for any exception: a failed point must not stop the others."""
    try:
        return key, evaluate(settings), None
    except ScmsimError as error:
        return key, None, str(error)
    except Exception as error:  # a bug in one model: reported with the point
        return key, None, f"{type(error).__name__}: {error}"


def _pooled(pool: futures.Executor, points: dict[str, Settings], most: int, stop: threading.Event) -> Iterator[Outcome]:
    """Keep `most` points submitted to a pool; a submitted point is removed from `points`."""
    under_way: dict[futures.Future, tuple[str, Settings]] = {}
    try:
        yield from _finishing(pool, points, under_way, most, stop)
    finally:  # if stopped early, do not wait for points that have not begun
        for future in under_way:
            future.cancel()


def _finishing(
    pool: futures.Executor,
    points: dict[str, Settings],
    under_way: dict[futures.Future, tuple[str, Settings]],
    most: int,
    stop: threading.Event,
) -> Iterator[Outcome]:
    while points or under_way:
        while points and len(under_way) < most and not stop.is_set():
            key, settings = next(iter(points.items()))
            under_way[pool.submit(outcome, key, settings)] = key, points.pop(key)
        if not under_way:
            return
        done, _ = futures.wait(under_way, return_when=futures.FIRST_COMPLETED)
        lost = []
        for future in done:
            key, settings = under_way.pop(future)
            try:
                found = future.result()
            except BrokenProcessPool:
                lost.append((key, settings))
                continue
            yield found
        if lost:
            raise _Lost([*lost, *under_way.values()])


class _Lost(Exception):
    """Exception for a dead worker; `points` are the points that were submitted but not finished."""

    def __init__(self, points: list[tuple[str, Settings]]) -> None:
        super().__init__()
        self.points = points


@contextlib.contextmanager
def _threads(jobs: int) -> Iterator[futures.Executor]:
    """Provide a pool of worker threads for a block, without waiting for them if an error or a signal ends the block."""
    pool = futures.ThreadPoolExecutor(jobs)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _processes(points: list[tuple[str, Settings]], jobs: int, stop: threading.Event) -> Iterator[Outcome]:
    left, tries = dict(points), dict.fromkeys(dict(points), 0)
    while left and not stop.is_set():
        suspect = any(tries[key] for key in left)  # after a loss, one at a time, to identify the point that caused it
        width, most = (1, 1) if suspect else (jobs, _AHEAD * jobs)
        with processes(width) as pool:
            try:
                yield from _pooled(pool, left, most, stop)
            except _Lost as loss:
                for key, settings in loss.points:
                    tries[key] += 1
                    if tries[key] < TRIES:
                        left[key] = settings
                    else:
                        yield key, None, f"the point's worker died {TRIES} times; is there enough memory?"


def _dask(points: list[tuple[str, Settings]], jobs: int, scheduler: str | None) -> Iterator[Outcome]:
    try:
        import distributed
    except ImportError:
        raise EnvironmentProblem(
            f"the executor dask needs the package distributed; install it {install('cluster')}"
        ) from None
    with _client(distributed, jobs, scheduler) as client:
        tasks = {
            client.submit(outcome, key, settings, key=f"scmsim-{key}", retries=TRIES): key for key, settings in points
        }
        for task, found in distributed.as_completed(list(tasks), with_results=True, raise_errors=False):
            key = tasks.pop(task)  # dropping the reference lets the cluster free the row
            if task.status == "finished":
                yield found
            else:
                yield key, None, f"the point's workers died {TRIES} times, or the cluster failed: {found!r}"[:300]


def _client(distributed: Any, jobs: int, scheduler: str | None) -> Any:
    if scheduler is None:
        return distributed.Client(n_workers=jobs, threads_per_worker=1, dashboard_address=None)
    try:
        return distributed.Client(scheduler, timeout=20)
    except (OSError, ValueError) as error:
        raise EnvironmentProblem(
            f"no Dask scheduler at {scheduler!r} ({error}); start one with 'dask scheduler'"
        ) from None
