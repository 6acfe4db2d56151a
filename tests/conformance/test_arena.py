"""A model asks for the words and events that an operation takes before it takes them: none to spare changes no event."""

import itertools
from collections.abc import Iterable

import numpy as np
import pytest

from scmsim.core.records import joined
from tests.conformance.systems import SYSTEMS
from tests.fs import drive, laws, tight
from tests.golden import events

SPARE_WORDS, SPARE_EVENTS = 1 << 17, 1 << 16  # that a model may ask for beyond what it takes

LARGE = [
    ("create", 1, 0, 0, 0), ("write", 1, 100, 6 << 20), ("create", 2, 0, 0, 0), ("fallocate", 2, 5000, 3 << 20),
    ("write", 2, 1 << 20, 4 << 20), ("write", 1, 5 << 20, 3 << 20), ("truncate", 1, (2 << 20) + 5), ("write", 2, 40 << 20, 5000),
    ("read", 2, 0, 50 << 20), ("fsync", 2), ("unlink", 2, 0, 0, 0), ("rename", 1), ("write", 1, 1 << 20, 3 << 20), ("close", 1),
]  # fmt: skip
# A trace of the stored events, and which of its pieces.
PIECES = {
    "calls": ("calls", 0, 110),
    "small writes": ("calls", 500, 506),
    "mapped": ("mapped", 0, 14),
    "advised": ("advised", 0, 12),
    "files from before": ("known", 0, 16),
    "a full device": ("to-the-block", 0, 16),
    "a device that fills up": ("full", 0, 50),
    "several threads": ("appended", 0, 7),
    "other parameters": ("varied", 0, 32),
    "mapped, on a full device": ("mapped-full", 0, 40),
}


@pytest.mark.parametrize("calls", PIECES)
@pytest.mark.parametrize("fs", SYSTEMS)
def test_no_word_and_no_event_to_spare_changes_no_event(fs: str, calls: str) -> None:
    trace, *span = PIECES[calls]
    if trace in events.traces_of(fs):
        batches = (batch for _, batch in itertools.islice(events.batches(fs, trace), *span))
        compare(fs, events.TRACES[trace].files, batches, **events.params_of(fs, trace))


@pytest.mark.parametrize("fs", SYSTEMS)
def test_neither_does_it_with_large_files(fs: str) -> None:
    compare(fs, events.FEW, [drive.ops(row) for row in LARGE])


@pytest.mark.parametrize("fs", SYSTEMS)
def test_neither_does_it_as_a_directory_grows(fs: str) -> None:
    rows, files = laws.long_names()
    compare(fs, files, [drive.ops(row) for row, _ in rows])


def compare(
    fs: str, files: drive.Files, batches: Iterable[np.recarray], capacity: str = "16GiB", **params: str
) -> None:
    """Do the same calls at once with room to spare, and one by one without."""
    wide, narrow = (kind(fs, files, capacity=capacity, **params) for kind in (drive.Model, tight.Model))
    for batch in batches:
        parts = []
        for i in range(len(batch)):
            top, found = int(narrow.record.arena_top), narrow.feed(batch[i : i + 1])
            assert len(narrow.out) <= SPARE_EVENTS + 2 * len(found), "events asked for"
            assert len(narrow.state.arena) <= SPARE_WORDS + 3 * max(top, int(narrow.record.arena_top)), (
                "words asked for"
            )
            found.op += i
            parts.append(found)
        assert wide.feed(batch).tolist() == joined(parts).tolist(), batch
