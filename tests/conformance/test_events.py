"""Every event of a model is the stored one (tests/golden/events.py), which is seen without a compiler, too."""

import pytest

from tests.conformance.test_fs import SYSTEMS
from tests.golden import events
from tests.golden.test_golden import HINT


@pytest.mark.parametrize(("fs", "trace"), [(fs, trace) for fs in SYSTEMS for trace in events.traces_of(fs)])
def test_events_are_the_stored_ones(fs: str, trace: str) -> None:
    """It ends at the first that differs, so a mutant dies soon (tools/mutants.py)."""
    stored = events.stored()[f"{fs}/{trace}"]
    for number, (piece, digest) in enumerate(events.digests(fs, trace)):
        assert digest == stored[number], f"the events changed at {piece}: " + HINT.format(fs=fs)
    assert number == len(stored) - 1
