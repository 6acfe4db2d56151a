"""Give the tests of the perf harness their fixtures."""

import os

import pytest


@pytest.fixture
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make fsync return at once."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
