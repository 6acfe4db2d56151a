"""Show progress on stderr: on a terminal, one line that is redrawn; elsewhere, only messages on compilation."""

import functools
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import click

from scmsim.core import compiling

INTERVAL = 0.3  # seconds between two updates
_MEASURED = 1.0  # seconds before a rate is shown
_SAID_AFTER = 1.0  # seconds of compilation before a message if stderr is not a terminal

_quiet = False
_lock = threading.Lock()
_drawn = False
_subject = ""  # the latest `what` of `Progress`: what is being worked on


def start(quiet: bool) -> None:
    """Set whether a command shows progress, and begin to watch its compilation."""
    global _quiet, _subject
    _quiet, _subject = quiet, ""
    compiling.watcher = Compiling()


def starter() -> Callable[[], None]:
    """Return a picklable function with which a worker process inherits --quiet and starts its progress."""
    return functools.partial(start, _quiet)


def is_quiet() -> bool:
    """Return whether --quiet was given."""
    return _quiet


def on_terminal() -> bool:
    """Return whether to draw progress: stderr is a terminal and --quiet was not given."""
    return not _quiet and sys.stderr.isatty()


def draw(text: str) -> None:
    """Redraw the progress line with this text."""
    global _drawn
    sys.stderr.write(f"\r\x1b[K{text}")
    sys.stderr.flush()
    _drawn = True


def wipe() -> None:
    """Erase the progress line if it is drawn."""
    global _drawn
    if _drawn:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
    _drawn = False


class Progress:
    """Progress line: a call (what, done, total) draws a percentage and, after a second, a rate in `unit`; the end erases it."""

    def __init__(self, unit: str = "operations") -> None:
        self.unit = unit
        self.last = 0.0
        self.began: tuple[float, int] | None = None  # time of the first progress, and `done` at that time
        self.done = self.total = 0

    def __enter__(self) -> "Progress":
        return self

    def __call__(self, what: str, done: int, total: int) -> None:
        global _subject
        now, _subject = time.monotonic(), what
        if total != self.total or done < self.done:
            self.began = None
        self.done, self.total = done, total
        if self.began is None and done:
            self.began = now, done
        if on_terminal() and now - self.last >= INTERVAL:
            self.last = now
            with _lock:
                draw(f"{what}: {self._share()}{self._rate(now)}")

    def _share(self) -> str:
        return f"{100 * self.done / self.total:3.0f} %" if self.total else f"{self.done:,} {self.unit}"

    def _rate(self, now: float) -> str:
        """Return the rate and the time left, measured from the first progress, because the time before includes compilation."""
        if self.began is None:
            return ""
        seconds, done = now - self.began[0], self.done - self.began[1]
        if seconds < _MEASURED or not done:
            return ""
        rate = done / seconds
        left = f", {(self.total - self.done) / rate:,.0f} s left" if self.total else ""
        return f", {rate:,.{0 if rate >= 10 else 1}f} {self.unit}/s{left}"

    def __exit__(self, kind: type | None, value: BaseException | None, trace: TracebackType | None) -> None:
        global _subject
        _subject = ""
        with _lock:
            wipe()


class CompilingAhead(Progress):
    """Progress of compilation in other processes; prints one message if stderr is not a terminal."""

    def __call__(self, what: str, done: int, total: int) -> None:
        if on_terminal():
            with _lock:
                draw(f"compiling {what} (once after an installation): {done} of {total}")
        elif not done and not _quiet:
            click.echo(f"scmsim: compiling {what} (once after an installation) ...", err=True)


class Line:
    """Progress line: a call draws `text(*state)`, at most once every `every` seconds.

    Leaving the context erases the line. Entering it gives None if progress is not drawn.
    """

    def __init__(self, text: Callable[..., str], every: float = INTERVAL) -> None:
        self.text = text
        self.every = every
        self.last = 0.0

    def __enter__(self) -> "Line | None":
        return self if on_terminal() else None

    def __call__(self, *state: Any) -> None:
        if time.monotonic() - self.last >= self.every:
            self.last = time.monotonic()
            with _lock:
                draw(self.text(*state))

    def __exit__(self, kind: type | None, value: BaseException | None, trace: TracebackType | None) -> None:
        with _lock:
            wipe()


def points() -> Line:
    """Return a sweep's progress line; its call takes the points done, all points and the seconds left."""
    from scmsim.perf.plan import duration

    return Line(lambda done, points, left: f"{done:,} of {points:,} points, {duration(left)} left")


def amount(what: str) -> Line:
    """Return a progress line for reading; its call (bytes done, total bytes) draws a percentage, or MiB if the total is 0."""
    return Line(lambda done, total: f"{what} {f'{100 * done // total}%' if total else f'{done >> 20:,} MiB'}")


class Compiling(compiling.Watcher):
    """A watcher that shows the compilation of functions: for which model, how many so far, and for how long."""

    def __init__(self) -> None:
        self.depth = self.functions = 0
        self.name, self.seconds, self.began = "", 0.0, 0.0
        self.said: set[str] = set()
        self.over = threading.Event()

    def begins(self, module: str) -> None:
        self.depth += 1
        if self.depth > 1:
            return
        name = _subject or _named(module)
        if name != self.name:
            self.name, self.functions, self.seconds = name, 0, 0.0
        self.began, self.over = time.monotonic(), threading.Event()
        if not _quiet:
            threading.Thread(target=self._tell, args=(self.over,), daemon=True).start()

    def ends(self) -> None:
        self.depth -= 1
        self.functions += 1
        if self.depth == 0:
            self.seconds += time.monotonic() - self.began
            with _lock:
                self.over.set()
                wipe()

    def not_kept(self, folder: str, why: str) -> None:
        with _lock:
            wipe()
            click.echo(f"scmsim: warning: {compiling.not_kept(folder, why)}", err=True)

    def _tell(self, over: threading.Event) -> None:
        """Show progress while a kernel is compiled: LLVM may keep the main thread out of Python for seconds."""
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # signals are for the working thread
        while not over.wait(INTERVAL):
            with _lock:
                if over.is_set():
                    return
                seconds = self.seconds + time.monotonic() - self.began
                if on_terminal():
                    draw(
                        f"compiling {self.name} (once after an installation): {self.functions} functions, {seconds:.0f} s"
                    )
                elif seconds >= _SAID_AFTER and self.name not in self.said:
                    self.said.add(self.name)
                    click.echo(f"scmsim: compiling {self.name} (once after an installation) ...", err=True)


def _named(module: str) -> str:
    """Return the name of the model or reader that a module's kernels belong to; used when `_subject` is empty."""
    room, *rest = module.removeprefix("scmsim.").split(".")
    if room == "fs":
        return f"the models of {next(name for name in rest if name != 'parts').partition('_')[0]}"
    return {"trace": "the reader of traces", "mmu": "the MMU", "workload": "the workload"}.get(room, "the models")
