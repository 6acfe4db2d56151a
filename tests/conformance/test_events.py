"""Every event of a model is the stored one (tests/golden/events.py), which is seen without a compiler, too."""

import pytest

from tests.conformance.test_fs import SYSTEMS
from tests.golden import events
from tests.golden.test_golden import HINT


@pytest.mark.parametrize("fs", SYSTEMS)
def test_events_are_the_stored_ones(fs: str) -> None:
    found, stored = events.digests(fs), events.stored()[fs]
    pieces = [*events.pieces(), [("space",)]]
    changed = [piece[0] for piece, new, old in zip(pieces, found, stored, strict=True) if new != old]
    assert not changed, f"{len(changed)} digests of events changed, the first from {changed[0]} on: " + HINT.format(
        fs=fs
    )
