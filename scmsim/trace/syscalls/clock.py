"""Read the time stamps of strace: -ttt (since 1970), -t and -tt (time of day), -r (since the line above), or none."""

import numpy as np

_DAY = 24 * 3600 * 10**9  # ns per day
FAR = 1 << 62  # ns, 146 years: a time stamp so far from the first is damaged
_RELATIVE = 10**8  # seconds; a smaller first time stamp means -r


class Clock:
    """A clock that converts any form of strace's time stamps to ns since the first; it never runs backwards."""

    def __init__(self) -> None:
        self.now = 0
        self.kind = ""
        self.jumps = 0
        self._start: int | None = None
        self._days = 0
        self._second = ""  # text of the last stamp's second and its time since the start: most lines repeat it
        self._second_ns = 0

    def seconds(self, seconds: str, fraction: str) -> int:
        """Return the time, ns, for a stamp of -ttt (since 1970) or -r (since the line above)."""
        if seconds == self._second and len(fraction) == 6:
            ns = self._second_ns + int(fraction) * 1000
            if self.now <= ns < FAR:
                self.now = ns
                return ns
        ns = int(seconds) * 10**9 + int(f"{fraction:0<9}")
        if self._start is None:
            self.kind = "relative (-r)" if int(seconds) < _RELATIVE else "wall clock (-ttt)"
        if self.kind[0] == "r":
            return self._advance(ns + self.now + (self._start or 0))
        self._advance(ns)
        self._second, self._second_ns = seconds, int(seconds) * 10**9 - (self._start or 0)
        return self.now

    def of_day(self, text: str, fraction: str) -> int:
        """Return the time, ns, for a stamp of -t or -tt; a jump back by over half a day begins the next day."""
        self.kind = "time of day (-t or -tt)"
        hours, minutes, seconds = map(int, text.split(":"))
        ns = ((hours * 60 + minutes) * 60 + seconds) * 10**9 + int(f"{fraction:0<9}")
        if self._start is not None and ns + self._days * _DAY < self._start + self.now - _DAY // 2:
            self._days += 1
        return self._advance(ns + self._days * _DAY)

    def count(self, number: int) -> int:
        """Return the time of a line without a stamp: the line's number, or the latest time if other lines have one."""
        if self._start is None:
            self.kind = "line numbers (the input has no time stamps)"
            self.now = number
        return self.now

    def any(self, seconds: str | None, fraction: str, of_day: str | None, day_fraction: str | None, number: int) -> int:
        """Return the time of a line with any form of time stamp, or without a time stamp."""
        if seconds is not None:
            return self.seconds(seconds, fraction)
        return self.count(number) if of_day is None else self.of_day(of_day, day_fraction or "0")

    @property
    def is_absolute(self) -> bool:
        """Return whether the time stamps so far have the form of -ttt."""
        return self.kind[:1] == "w"

    @property
    def is_counted(self) -> bool:
        """Return whether lines are counted, because none so far had a time stamp."""
        return self.kind[:1] == "l"

    def many(self, stamps: np.ndarray, number: int) -> np.ndarray | None:
        """Return the times of consecutive lines: -ttt in ns, or line numbers from `number` on; None if a time jumps."""
        if self.is_counted:
            return np.arange(number, number + len(stamps))
        since = stamps - (self._start or 0)
        sound = since[0] >= self.now and since[-1] < FAR and not (np.diff(since) < 0).any()
        return since if sound else None

    def _advance(self, ns: int) -> int:
        if self._start is None:
            self._start = ns
        if not self.now <= ns - self._start < FAR:
            self.jumps += 1
        else:
            self.now = ns - self._start
        return self.now
