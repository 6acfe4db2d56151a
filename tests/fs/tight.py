"""A model without room to spare: its tables and its buffer end where they are, and grow by what is asked for and no more."""

from collections import defaultdict

import numpy as np

from scmsim.core.records import OPS
from tests.fs import drive

GUARD = 1 << 14  # words behind the arena that must stay untouched


class Model(drive.Model):
    """A model whose tables and buffer have just what is asked for, at every pause anew.

    `asked` is kind of call -> (events of room, words of tables) that all its calls have asked for; "start": the first tables.
    """

    def __init__(self, fs: str, side: drive.Files, **params: int | str) -> None:
        super().__init__(fs, side, 1, **params)
        self.backing = self.state.arena
        self.asked: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(2, np.int64))
        self.asked["start"][1] = len(self.backing)
        self.state.grow = self.tighten

    def tighten(self, words: int) -> None:
        """Let the arena end so many words behind its top."""
        top = int(self.record.arena_top)
        if top + words + GUARD > len(self.backing):
            self.backing = np.zeros(2 * (top + words) + GUARD, np.int64)
            self.backing[: len(self.state.arena)] = self.state.arena
        self.state.arena = self.backing[: top + words]

    def make_room(self, op: np.void) -> None:
        """Room for what the model said did not fit, and no more."""
        status = self.status[0]
        room, words = int(status["need_events"]), int(status["need_words"])
        if room or words:
            row = int(status["op"])
            self.asked[OPS[self.codes[row]] if row < len(self.codes) else "mmap"] += (room, words)
        if (room and status["emitted"]) or not (room or words):
            self.out = self.buffer(max(room, 1))
        super().make_room(op)

    def feed(self, batch: np.recarray) -> np.recarray:
        """The events of operations."""
        self.tighten(0)
        self.codes, self.out = batch.op, self.buffer(1)
        found = super().feed(batch)
        end = len(self.state.arena)
        assert not self.backing[end : end + GUARD].any(), "words behind the arena"
        return found
