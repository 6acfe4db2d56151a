"""Every event of a model is the stored one (tests/golden/events.py), which is seen without a compiler, too."""

import pytest

from tests.conformance.test_fs import SYSTEMS
from tests.golden import events
from tests.golden.test_golden import HINT


@pytest.mark.parametrize("fs", SYSTEMS)
def test_events_are_the_stored_ones(fs: str) -> None:
    found, stored = events.digests(fs), events.stored()[fs]
    rows = [*events.rows(1, 500), ("space",)]
    changed = [row for row, new, old in zip(rows, found, stored, strict=True) if new != old]
    assert not changed, f"the events of {len(changed)} calls changed, the first of {changed[0]}: " + HINT.format(fs=fs)
