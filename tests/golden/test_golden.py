"""Counters of small replays on every file system, compared exactly with the stored ones."""

import json

import pytest

from scmsim.core import registry
from tests.golden import make

HINT = (
    'if the change is meant: run "python -m tests.golden.make {fs}" and say so in CHANGELOG.md, '
    'in a line under "Results changed" that gives the reason'
)


def differences(found, stored, where=""):
    """One line for each figure that differs, by its path."""
    if isinstance(found, dict) and isinstance(stored, dict):
        keys = [*stored, *(key for key in found if key not in stored)]
        return [line for k in keys for line in differences(found.get(k, 0), stored.get(k, 0), f"{where} / {k}")]
    return [] if found == stored else [f"{where[3:]}: {found}, stored {stored}"]


@pytest.mark.slow
@pytest.mark.parametrize("fs", registry.names("fs"))
def test_counters_are_the_stored_ones(fs):
    path = make.path(fs)
    assert path.exists(), f"no golden file for {fs}: run 'python -m tests.golden.make {fs}'"
    stored = json.loads(path.read_text(encoding="utf-8"))
    lines = differences(make.figures(fs), stored)
    assert not lines, "\n".join([f"{len(lines)} figures of {fs} changed:", *lines[:20], HINT.format(fs=fs)])


def test_every_golden_file_belongs_to_a_file_system():
    assert {path.stem for path in make.FOLDER.glob("*.json")} == set(registry.names("fs"))


def test_a_difference_is_shown_by_its_path():
    assert differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}, "d": 4}) == [
        "a / c: 2, stored 3",
        "d: 0, stored 4",
    ]
