"""End a process that a signal cannot reach, because a thread is inside a compiled kernel that does not return.

Python runs a signal's handler only after the main thread returns from compiled code, and waits for the threads of a pool.  A
kernel may work on a chunk of a trace for long.  So a separate thread reads the signal from Python's wakeup descriptor, and checks
whether the other threads make progress.
"""

import os
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Callable

_PACKAGE = str(pathlib.Path(__file__).parents[1])
_GRACE_S = 1.5  # time for a kernel to return and for Python to clean up, s
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def watch(leave: Callable[[int], None], package: str = _PACKAGE) -> None:
    """Call `leave` with 128 + the signal's number if, after a signal, a thread stays in a kernel called by `package`."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def look() -> None:
        while number := os.read(reading, 1):
            if number[0] not in _ENDING:
                continue
            before = _positions(package)
            time.sleep(_GRACE_S)
            if before & _positions(package):
                leave(128 + number[0])

    threading.Thread(target=look, daemon=True, name="stuck").start()


def _positions(package: str) -> set[tuple[int, int, int]]:
    """Return the position of each thread whose innermost Python frame is in `package`: it may be in compiled code."""
    own = threading.get_ident()
    return {
        (thread, id(frame), frame.f_lasti)
        for thread, frame in sys._current_frames().items()
        if thread != own and frame.f_code.co_filename.startswith(package)
    }
