"""A model asks for the words and events that an operation takes before it takes them: none to spare changes no event."""

import itertools

import numpy as np
import pytest

from tests.conformance.test_fs import SYSTEMS
from tests.fs import drive, laws
from tests.golden import events

GUARD = 1 << 16  # words behind the arena that must stay untouched
SPARE_WORDS, SPARE_EVENTS = 1 << 16, 1 << 16  # that a model may ask for beyond what it takes


class Tight(drive.Model):
    """A model whose arena and buffer end where they are before each operation, and grow by what is asked for and no more."""

    def tighten(self, words: int = 0) -> None:
        """Let the arena end so many words behind its top."""
        top = int(self.record.arena_top)
        assert words <= SPARE_WORDS + 2 * top, "words asked for"
        self.backing = np.zeros(top + words + GUARD, np.int64)
        self.backing[:top] = self.state.arena[:top]
        self.state.arena, self.state.grow = self.backing[: top + words], self.tighten

    def one(self, row: tuple) -> np.recarray:
        """The events of an operation."""
        self.tighten()
        self.out = self.buffer(1)
        found = self.feed(drive.ops(row))
        assert not self.backing[len(self.state.arena) :].any(), "words behind the arena"
        assert len(self.out) <= SPARE_EVENTS + 2 * len(found), "events asked for"
        return found


LARGE = [
    ("create", 1, 0, 0, 0), ("write", 1, 100, 6 << 20), ("create", 2, 0, 0, 0), ("fallocate", 2, 5000, 3 << 20),
    ("write", 2, 1 << 20, 4 << 20), ("write", 1, 5 << 20, 3 << 20), ("truncate", 1, (2 << 20) + 5), ("write", 2, 40 << 20, 5000),
    ("read", 2, 0, 50 << 20), ("fsync", 2), ("unlink", 2, 0, 0, 0), ("rename", 1), ("write", 1, 1 << 20, 3 << 20), ("close", 1),
]  # fmt: skip
CALLS = {
    "calls": lambda: itertools.islice(events.rows(1, 500), 150),
    "mapped": lambda: itertools.islice(events.mapped(), 100),
    "large files": lambda: LARGE,
    "small writes": lambda: itertools.islice(events.small_writes(), 320),
}


@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("fs", SYSTEMS)
def test_no_word_and_no_event_to_spare_changes_no_event(fs: str, calls: str) -> None:
    files = drive.files(*events.SIZES, dirs=events.FOLDERS, names=events.PATHS)
    compare(fs, files, list(CALLS[calls]()))


@pytest.mark.parametrize("fs", SYSTEMS)
def test_neither_does_it_as_a_directory_grows(fs: str) -> None:
    rows, files = laws.long_names()
    compare(fs, files, [row for row, _ in rows])


def compare(fs: str, files: drive.Files, rows: list[tuple]) -> None:
    """Do the same calls with and without room to spare."""
    wide, tight = drive.Model(fs, files, capacity="16GiB"), Tight(fs, files, capacity="16GiB")
    for row in rows:
        assert wide.feed(drive.ops(row)).tolist() == tight.one(row).tolist(), row
