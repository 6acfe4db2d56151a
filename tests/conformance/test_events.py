"""Every event of a model, and what it asks for, is as stored (tests/golden/events.py); seen without a compiler, too."""

import pytest

from tests.conformance.systems import SYSTEMS
from tests.golden import events
from tests.golden.test_golden import HINT


@pytest.mark.parametrize(("fs", "trace"), [(fs, trace) for fs in SYSTEMS for trace in events.traces_of(fs)])
def test_events_are_the_stored_ones(fs: str, trace: str) -> None:
    """It ends at the first that differs, so a mutant dies soon (tools/mutants.py)."""
    model, stored = events.model_for(fs, trace), events.stored(events.EVENTS)[f"{fs}/{trace}"]
    for number, (piece, digest) in enumerate(events.digests(model, trace)):
        assert digest == stored[number], f"the events changed at {piece}: " + HINT.format(fs=fs)
    assert number == len(stored) - 1
    asked = events.stored(events.ASKED)[f"{fs}/{trace}"]
    assert events.asked(model) == asked, "what is asked for changed (kind:events+words): " + HINT.format(fs=fs)
