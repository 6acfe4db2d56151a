"""Join a line of strace that its own message, or the output of the traced program, splits."""

from collections.abc import Callable

from scmsim.trace.reading.report import Report
from scmsim.trace.syscalls import forms
from scmsim.trace.syscalls import importer as why
from scmsim.trace.syscalls.identity import Identities
from scmsim.trace.syscalls.text import EVENT

_LONGEST = 1 << 20  # characters of a line that is held


class SplitLines:
    """The first part of a split line, until its rest comes.

    Parameters
    ----------
    report : Report
    who : Identities
        Takes the processes that messages announce.
    work : callable(list of str)
        Works on a joined line; it counts the line in the report.
    bad : callable(int, str, str)
        Counts a line (number, reason, text) whose rest does not follow.
    """

    def __init__(
        self, report: Report, who: Identities, work: Callable[[list[str]], None], bad: Callable[[int, str, str], None]
    ) -> None:
        self.report, self.who, self._work, self._bad = report, who, work, bad
        self._held, self._last = "", 0

    def hold(self, line: str, number: int) -> bool:
        """Hold a line without a result and return True, if a message or the program's output splits it."""
        message = forms.MESSAGE(line)
        if message is not None:
            self.announce(message[0])
            line = line[: message.start()]
        elif not forms.is_open_write(line) or len(line) > _LONGEST:
            return False
        self.drop()
        self._held, self._last = line, number
        return True

    def drop(self) -> None:
        """Count the line that is held as bad."""
        held, self._held = self._held, ""
        if held:
            self._bad(self._last, "this line is split, and its rest does not follow", held)

    def announce(self, message: str) -> None:
        """Note the process that a message names: strace 4 detaches from those that exit."""
        if attached := forms.ATTACHED(message):
            self.who.announce(attached[1])
        elif detached := forms.DETACHED(message):
            self.who.exit(detached[1])

    def take(self, line: str, number: int) -> bool:
        """Join a line with the part that is held, or count a message between the two; return False if it is neither."""
        held = self._held
        if not held or number != self._last + 1 or line.startswith("[pid "):
            return False
        if EVENT(line):
            self.announce(line)
            self.report.left_out[why.PROCESS_EVENT] += 1
            self._last = number
            return True
        self._held = ""
        self.report.left_out[forms.JOINED] += 1
        lines, self.report.lines = self.report.lines, number - 1
        self._work([held + line])
        self.report.lines = lines
        return True
