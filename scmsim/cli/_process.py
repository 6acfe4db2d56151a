"""Handle signals, and standard streams that may be closed, like a well-behaved shell command."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import click

from scmsim.cli import _stuck
from scmsim.core import signals
from scmsim.core.errors import EnvironmentProblem

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(SystemExit):
    """SIGTERM or SIGHUP, raised in the working thread, so that clean-up code runs on the way out."""

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number  # like in a shell
        self.name = signal.Signals(number).name
        super().__init__(self.exit_code)


def run(command_line: Callable[[], Any]) -> None:
    """Run the command line as the whole process, with signal handlers, and exit."""
    _open_streams()
    # a signal that is ignored, as SIGHUP is under nohup, stays ignored
    caught = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in caught:
        signal.signal(number, _stop)
    sys.unraisablehook = _lost
    if caught:
        _stuck.watch(_abandon)
    try:
        command_line()
    except SystemExit as end:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)  # clean-up is done
        if end.code and any(not each.daemon for each in threading.enumerate() if each is not threading.main_thread()):
            _leave(end.code)  # do not wait for worker threads: their results are no longer needed
        raise


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)  # a second signal ends the process at once
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise Stopped(number)


def _lost(report: Any) -> None:
    """Raise a signal's exception again after Python dropped it.

    Python drops exceptions raised in a destructor, in a callback of C code (LLVM's, while a kernel is loaded) or in a callback of
    fork (`logging` has one).
    """
    is_error = isinstance(report.exc_value, Exception) and not isinstance(report.exc_value, signals.Stopped)
    if is_error or not hasattr(signal, "setitimer"):
        sys.__unraisablehook__(report)
        return

    def again(number: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise report.exc_value

    signal.signal(signal.SIGALRM, again)
    # after 1 ms the callback has returned; repeat every 50 ms, as Python misses a signal that comes just before a blocking call
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.05)


def _abandon(code: int) -> None:
    """End the process while a kernel is running: results are written as a whole at the end, so none is truncated."""
    with contextlib.suppress(OSError, ValueError):
        print(f"\nstopped by {signal.Signals(code - 128).name}; nothing is kept", file=sys.stderr)
    _leave(code)


def _leave(code: Any) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


class _Closed:
    """A stdout that was closed before the start (`>&-`): only a command that writes its result to a file can run."""

    encoding, errors, closed = "utf-8", "replace", False

    def write(self, text: str) -> int:
        context = click.get_current_context(silent=True)
        if not (context and context.params.get("out")):
            raise EnvironmentProblem("stdout is closed, so the result cannot be printed; redirect it to a file")
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return 1


def _open_streams() -> None:
    """Open /dev/null for each closed standard stream; else the next file opened would get its descriptor, and its output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")
