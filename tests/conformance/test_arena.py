"""A model asks for the words that an operation takes before it takes them: with no word to spare its events are the same."""

import itertools

import numpy as np
import pytest

from tests.conformance.test_fs import SYSTEMS
from tests.fs import drive
from tests.golden import events

GUARD = 1 << 16  # words behind the arena that must stay untouched


class Tight(drive.Model):
    """A model whose arena ends at its top before each operation, and grows by what is asked for and no more."""

    def tighten(self, words: int = 0) -> None:
        """Let the arena end so many words behind its top."""
        top = int(self.record.arena_top)
        self.backing = np.zeros(top + words + GUARD, np.int64)
        self.backing[:top] = self.state.arena[:top]
        self.state.arena, self.state.grow = self.backing[: top + words], self.tighten

    def one(self, row: tuple) -> np.recarray:
        """The events of an operation."""
        self.tighten()
        found = self.feed(drive.ops(row))
        assert not self.backing[len(self.state.arena) :].any(), "words behind the arena"
        return found


@pytest.mark.parametrize("fs", SYSTEMS)
def test_an_arena_with_no_word_to_spare_changes_no_event(fs: str) -> None:
    files = drive.files(*events.SIZES, dirs=events.FOLDERS, names=events.PATHS)
    wide, tight = drive.Model(fs, files, capacity="16GiB"), Tight(fs, files, capacity="16GiB")
    for row in itertools.chain(itertools.islice(events.rows(1, 500), 150), itertools.islice(events.mapped(), 40)):
        assert wide.feed(drive.ops(row)).tolist() == tight.one(row).tolist(), row
