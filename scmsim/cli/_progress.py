"""Progress of long work on stderr, only where stderr is a terminal."""

import sys
import time
from types import TracebackType

INTERVAL = 0.3  # seconds between two updates


class Progress:
    """Callable (what, done, total) that draws one line and rubs it out at the end."""

    def __init__(self) -> None:
        self.shown = False
        self.started = self.last = time.monotonic()
        self.what = ""

    def __enter__(self) -> "Progress":
        return self

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if what != self.what:
            self.what, self.started = what, now
        if not sys.stderr.isatty() or now - self.last < INTERVAL:
            return
        self.last = now
        rate = done / max(now - self.started, 1e-9)
        left = (total - done) / rate if rate and total > done else 0.0
        share = f"{100 * done / total:3.0f} %" if total else f"{done:,}"
        sys.stderr.write(f"\r\x1b[K{what}: {share}, {rate:,.0f} operations/s, {left:.0f} s left")
        sys.stderr.flush()
        self.shown = True

    def __exit__(self, kind: type | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
