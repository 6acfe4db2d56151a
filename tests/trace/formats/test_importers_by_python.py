"""The importers give the same under every Python from 3.11 on: the regular expressions of some are defective."""

import re
import sys
from pathlib import Path

import pytest

from tests.verification.importers_by_python import interpreters, measured

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_every_python_reads_the_samples_alike() -> None:
    _, here = measured(sys.executable)
    assert isinstance(here, dict) and len(here) > 20 and not any(one["bad"] for one in here.values())
    others = dict(measured(python) for python in interpreters() if python != sys.executable)
    unusable = [f"{version}: {found}" for version, found in others.items() if isinstance(found, str)]
    for version, found in others.items():
        if not isinstance(found, str):
            assert found == here, version
    if len(unusable) == len(others):
        pytest.skip(f"no other Python here can run the importers ({'; '.join(unusable) or 'none found'})")


def test_no_group_is_repeated_possessively() -> None:
    """Python before 3.11.5 matches such a loop wrongly (gh-106052); an atomic group, (?>(?:...)*), is sound."""
    loop = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+")
    paths = sorted((ROOT / "scmsim").rglob("*.py"))
    assert [path.name for path in paths if loop.search(path.read_text())] == []
