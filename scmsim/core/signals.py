"""Handle signals that end a long job: the job stops where it can be resumed, and cleans up before it exits."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

from scmsim.core.errors import ScmsimError

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(ScmsimError):
    """Error of a job that a signal ended; `pieces` names the finished pieces that are kept, "" if nothing is kept."""

    def __init__(self, number: int, pieces: str) -> None:
        name = signal.Signals(number).name
        kept = f"finished {pieces} are kept, run the same command to go on" if pieces else "nothing is kept"
        super().__init__(f"stopped by {name}; {kept}")
        self.exit_code = 128 + number


@contextlib.contextmanager
def stopping(pieces: str, first: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP call `first` and then raise Stopped while the block runs.

    An ignored signal (nohup, cron) stays ignored.  Outside of the main thread nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)  # a second signal must not interrupt the cleaning
        first()
        raise Stopped(number, pieces)

    found = {number: signal.getsignal(number) for number in _ENDING}
    before = {number: handler for number, handler in found.items() if handler is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
