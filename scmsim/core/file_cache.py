"""Cache the results of functions that read files; a result is kept until its file, bundled or a user's, changes."""

import functools
import os
import pickle
import stat
import time
from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple, cast

_COARSEST_NS = 2_000_000_000  # coarsest resolution of the times of a file system (FAT)

Ts = TypeVarTuple("Ts")
R = TypeVar("R")


def per_file(most: int = 1024) -> Callable[[Callable[[Any, *Ts], R]], Callable[[Any, *Ts], R]]:
    """Return a decorator for functions of a file and further hashable arguments, so that an unchanged file is read only once.

    Each caller gets its own copy.  At most `most` results are kept; errors are not kept.
    """

    def decorate(read: Callable[[Any, *Ts], R]) -> Callable[[Any, *Ts], R]:
        @functools.lru_cache(most)
        def kept(file: Any, version: tuple[int, ...], *args: Any) -> bytes:
            return pickle.dumps(read(file, *args), pickle.HIGHEST_PROTOCOL)

        @functools.wraps(read)
        def cached(file: Any, *args: *Ts) -> R:
            version = _version(file)
            if version is None:
                return read(file, *args)
            return cast(R, pickle.loads(kept(file, version, *args)))

        return cached

    return decorate


def _version(file: str | os.PathLike[str]) -> tuple[int, ...] | None:
    """Return numbers that change whenever a file changes; None for a file that cannot be cached."""
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return None  # the function reports the error
    # A file that changed a moment ago may change again within the same tick of its file system's clock.
    settled = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _COARSEST_NS
    if not (settled and stat.S_ISREG(status.st_mode)):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
