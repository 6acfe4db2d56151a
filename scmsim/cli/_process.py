"""What a shell hands to a process and expects of it: signals, and standard streams that may be closed."""

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
from scmsim.core.errors import EnvironmentProblem

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(SystemExit):
    """SIGTERM or SIGHUP: raised where the work is, so that everything is cleaned up on the way out."""

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number  # as a shell reports it
        self.name = signal.Signals(number).name
        super().__init__(self.exit_code)


def run(command_line: Callable[[], Any]) -> None:
    """Run the command line as a process of its own, and end."""
    _open_streams()
    caught = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]  # others: nohup
    for number in caught:
        signal.signal(number, _stop)
    sys.unraisablehook = _lost
    if caught:
        _stuck.watch(_abandon)
    try:
        command_line()
    except SystemExit as end:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)  # nothing is left to clean up
        if end.code and any(not each.daemon for each in threading.enumerate() if each is not threading.main_thread()):
            _leave(end.code)  # its threads work on what nobody wants any more
        raise


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise Stopped(number)


def _lost(report: Any) -> None:
    """Python drops what is raised in a destructor or in a callback of C code (LLVM's, on loading a kernel): raise an end again."""
    if isinstance(report.exc_value, Exception) or not hasattr(signal, "setitimer"):
        sys.__unraisablehook__(report)
        return

    def again(number: int, frame: FrameType | None) -> None:
        raise report.exc_value

    signal.signal(signal.SIGALRM, again)
    signal.setitimer(signal.ITIMER_REAL, 0.001)  # seconds: when the callback has returned


def _abandon(code: int) -> None:
    """End the process while a kernel is at work: results are written whole at the end, so that none is cut."""
    with contextlib.suppress(OSError, ValueError):
        print(f"\nstopped by {signal.Signals(code - 128).name}; nothing is kept", file=sys.stderr)
    _leave(code)


def _leave(code: Any) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


class _Closed:
    """A stdout that was closed before the start (`>&-`): only a command whose result goes to a file may do without it."""

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
    """Give each closed stream a descriptor, or the next file that is opened gets its number, and all output with it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")
