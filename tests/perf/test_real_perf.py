"""The real perf stat, with software events, in a few dozen combinations of its options; `real_perf` runs more of them."""

import shutil
import subprocess

import pytest

from tests.perf import real_perf


def _works() -> bool:
    if not shutil.which("perf"):
        return False
    return not subprocess.run(["perf", "stat", "-a", "-e", "page-faults", "--", "true"], capture_output=True).returncode


@pytest.mark.slow
@pytest.mark.skipif(not _works(), reason="perf stat does not count the system here")
def test_what_perf_prints_is_read() -> None:
    counts, lines = real_perf.outcome(cases=36, seed=5)
    assert lines == [] and counts["right"] > 12
