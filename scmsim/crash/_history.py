"""Track in which states a crash may leave each file under a file system's guarantee."""

from typing import Any

from scmsim.core.records import FSYNC, MSYNC, SYNC, SYNCHRONOUS, TRUNCATE, WRITE
from scmsim.fs.recovery.expected import Allowed, Files, FileState
from scmsim.fs.recovery.image import PAGE, WORD, WORDS
from scmsim.fs.recovery.model import Guarantee


class History:
    """The files after each operation, and their earlier states that a crash may still restore.

    Parameters
    ----------
    guarantee : Guarantee
        Guarantee of the file system.
    skipped : int
        Number of operations before the trace's first.
    """

    def __init__(self, guarantee: Guarantee, skipped: int) -> None:
        self.guarantee, self.skipped = guarantee, skipped
        self.files = Files()
        self.history: dict[int, Allowed] = {}  # file -> states since the last call that made it durable
        self.stale: dict[int, set[int]] = {}  # file -> pages changed since the last call that made the file durable

    def remember(self, op: Any, before: dict[int, FileState], changed: dict[int, set[int]]) -> None:
        """Add the call's new states to the allowed states of its files."""
        for file, pages in changed.items():
            allowed = self.history.setdefault(file, self._only(before.get(file, FileState())))
            state = self.files.of(file)
            if state is not allowed.states[-1]:
                allowed.states.append(state)
            self.stale.setdefault(file, set()).update(pages)
            if op.op == TRUNCATE and op.new_size % PAGE:
                page, word = int(op.new_size // PAGE), -(-int(op.new_size % PAGE) // WORD)
                allowed.cleared[page] = min(word, allowed.cleared.get(page, WORDS))

    def synced(self, op: Any, succeeded: bool) -> None:
        """Drop the older states of files that the call made durable (an fsync, or any call with `at_return`)."""
        synced = op.op in (FSYNC, MSYNC, SYNC) or (op.op == WRITE and op.flag & SYNCHRONOUS and succeeded)
        if not synced and not self.guarantee.at_return:
            return
        for file in list(self.history):
            if op.op == SYNC or file == op.file or self.guarantee.at_return:
                del self.history[file]

    def allowed(self, file: int) -> Allowed:
        """Return the states in which a crash may leave a file now."""
        return self.history.get(file) or self._only(self.files.of(file))

    def _only(self, state: FileState) -> Allowed:
        return Allowed([state], not self.guarantee.atomic, {}, self.skipped, self.guarantee.delayed)
